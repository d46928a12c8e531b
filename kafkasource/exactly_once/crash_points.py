"""Points at which a process kills itself when a file says so, for the tests of what a crash leaves behind.

`KAFKASOURCE_CRASH_FILE=/a/file` in the environment of Spark's Python workers: the first process that comes to the point
whose name the file holds removes the file and dies, as by SIGKILL from outside. Nothing else reads the variable.
"""

from __future__ import annotations

import os
import signal

ENVIRONMENT = "KAFKASOURCE_CRASH_FILE"

POINTS = (
    "writing",  # executor: rows are on their way, the task has not ended
    "written",  # driver: all tasks are done, nothing is decided
    "kept",  # driver: P-kept says that the batch is about to be decided
    "deciding",  # driver: the decision's offsets are there, its transaction is not ended
    "decided",  # driver: no task transaction has ended
    "half_ended",  # driver: the first half of the task transactions has ended
    "ended",  # driver: all task transactions have ended, but Spark does not know yet
)
REFUSED = "refused"  # executor: brokers refused records, and their dead letters are not appended. Not of POINTS, either
ABORTING = "aborting"  # driver: the batch failed, nothing is aborted. Not of POINTS: no batch that goes well comes here


def crashes_at(name: str) -> bool:
    file = os.environ.get(ENVIRONMENT)
    if file is None:
        return False
    try:
        with open(file) as opened:
            return opened.read().strip() == name
    except FileNotFoundError:
        return False


def crash_point(name: str) -> None:
    if crashes_at(name):
        try:
            os.remove(os.environ[ENVIRONMENT])
        except FileNotFoundError:  # another process was first
            return
        os.kill(os.getpid(), signal.SIGKILL)
