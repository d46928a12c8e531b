"""Python imports this at the start of each process that has this folder on its path: it plants the named bugs."""

import os

from lab.campaign.planted import ENVIRONMENT

if names := os.environ.get(ENVIRONMENT):
    from lab.campaign.planted.bugs import BUGS
    from lab.campaign.planted.hook import after_import
    from lab.campaign.planted.storm_bugs import BUGS as STORM_BUGS

    for name in names.split(","):
        bug = BUGS.get(name) or STORM_BUGS[name]
        after_import(bug.module, bug.plant)
