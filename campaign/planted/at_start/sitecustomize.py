"""Python imports this at the start of each process that has this folder on its path: it plants the named bugs."""

import os

from campaign.planted import ENVIRONMENT

if names := os.environ.get(ENVIRONMENT):
    from campaign.planted.bugs import BUGS
    from campaign.planted.hook import after_import

    for name in names.split(","):
        after_import(BUGS[name].module, BUGS[name].plant)
