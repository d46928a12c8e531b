"""Python imports this at the start of each process that has this folder on its path: it puts crash points and the named
bugs into the process."""

import os

from lab.campaign import crash_points
from lab.campaign.planted import ENVIRONMENT

crash_points.install()
if names := os.environ.get(ENVIRONMENT):
    from lab.campaign.planted.bugs import BUGS
    from lab.campaign.planted.hook import after_import
    from lab.campaign.planted.storm_bugs import BUGS as STORM_BUGS

    for name in names.split(","):
        bug = BUGS.get(name) or STORM_BUGS[name]
        after_import(bug.module, bug.plant)
