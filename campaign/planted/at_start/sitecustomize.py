"""Python imports this at the start of each process that has this folder on its path: it plants the named bug."""

import os

from campaign.planted import ENVIRONMENT

if name := os.environ.get(ENVIRONMENT):
    from campaign.planted.bugs import BUGS

    BUGS[name].plant()
