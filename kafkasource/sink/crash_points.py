"""Points at which a process can be told to kill itself, for the tests of what a crash leaves behind.

`KAFKASOURCE_CRASH_AT=decided` in the environment of Spark's Python workers: SIGKILL at that point, as from outside.
`decided:/some/file`: only the first process that comes there, which makes the file. Nothing else reads the variable.
"""

from __future__ import annotations

import os
import signal

ENVIRONMENT = "KAFKASOURCE_CRASH_AT"

POINTS = (
    "writing",  # executor: rows are on their way, the task has not ended
    "written",  # driver: all tasks are done, nothing is decided
    "deciding",  # driver: the decision's offsets are there, its transaction is not ended
    "decided",  # driver: no lane has ended
    "half_ended",  # driver: of the lanes, the first half
    "ended",  # driver: all lanes, but Spark does not know yet
)


def crashes_at(name: str) -> bool:
    return os.environ.get(ENVIRONMENT, "").partition(":")[0] == name


def crash_point(name: str) -> None:
    if not crashes_at(name):
        return
    once = os.environ[ENVIRONMENT].partition(":")[2]
    if once:
        try:
            os.close(os.open(once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
    os.kill(os.getpid(), signal.SIGKILL)
