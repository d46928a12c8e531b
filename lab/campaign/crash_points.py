"""Points at which a process kills itself when a file says so, for the tests of what a crash leaves behind.

`CRASH_FILE=/a/file` in the environment of Spark's Python processes, with `at_start` on their path: the first process
that comes to the point whose name the file holds removes the file and dies, as by SIGKILL from outside.

kafkasource has none of this. Each point is a call of one of its functions, which `install` wraps.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from lab.campaign.planted.hook import after_import

ENVIRONMENT = "CRASH_FILE"
AT_START = Path(__file__).with_name("planted") / "at_start"
ROOT = Path(__file__).parents[2]

Reached = Callable[[str], None]
"""Called with the name of the point that the process has come to. It may not return."""


@dataclass(frozen=True)
class Point:
    name: str
    module: str  # of kafkasource
    function: str
    before: bool = False  # the call; else when it has returned
    when: Callable[[Any, Any], bool] = lambda subject, result: True  # given its first argument and its result


WRITE, COMMIT, TASKS = "sink.clusters.fan_out", "exactly_once.driver.commit", "exactly_once.task.transactions"
REPLAY = "tools.admin.replay"
HALF_ENDED, REFUSED, ABORTING = "half_ended", "refused", "aborting"

TABLE = (
    Point("writing", WRITE, "FanOut.append"),  # executor: rows are on their way, the task has not ended
    Point("written", COMMIT, "BatchCommit.__init__", before=True),  # driver: all tasks are done, nothing is decided
    # Driver: P-kept says that the batch is about to be decided.
    Point("kept", COMMIT, "BatchCommit._keep_deciding", when=lambda commit, _: commit._status is not None),
    # Driver: the decision's offsets are there, its transaction is not ended.
    Point("deciding", "kafka.cluster.transactions", "Transactions.commit_offsets"),
    Point("decided", COMMIT, "BatchCommit._commit_tasks", before=True),  # driver: no task transaction has ended
    Point(HALF_ENDED, TASKS, "TaskTransactions.commit_all"),  # driver: half of the task transactions have ended
    Point("ended", COMMIT, "BatchCommit._tell_first", before=True),  # driver: all have, but Spark does not know yet
    Point("ended", REPLAY, "Replay._keep", before=True, when=lambda replay, _: bool(replay.sent)),
    # Executor: brokers refused records, and their dead letters are not appended.
    Point(REFUSED, "kafka.producer.delivery", "Delivery.take_set_aside", when=lambda _, taken: bool(taken)),
    Point(ABORTING, "sink.writer", "_Writer._abort", before=True),  # driver: the batch failed, nothing is aborted
)
POINTS = tuple(dict.fromkeys(each.name for each in TABLE if each.name not in (REFUSED, ABORTING)))
"""Those that a batch comes to that goes well, in this order."""


def environment(file: Path) -> dict[str, str]:
    """The variables for processes that are to look into this file."""
    paths = [str(AT_START), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {ENVIRONMENT: str(file), "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def install() -> None:
    """Wrap each function right after the import of its module. For the start of a process."""
    if os.environ.get(ENVIRONMENT):
        for point in TABLE:
            after_import(f"kafkasource.{point.module}", functools.partial(wrap, point, _die_if_asked))


def wrap(point: Point, reached: Reached, put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Replace the function by one that calls `reached`. `put`: sets the attribute."""
    owner: Any = import_module(f"kafkasource.{point.module}")
    *outer, name = point.function.split(".")
    for each in outer:
        owner = getattr(owner, each)
    right = getattr(owner, name)

    @functools.wraps(right)
    def wrapped(subject: Any, *args: Any, **more: Any) -> Any:
        if point.before and point.when(subject, None):
            reached(point.name)
        result = right(subject, *args, **more)
        if not point.before and point.when(subject, result):
            reached(point.name)
        return result

    def in_halves(subject: Any, decision: Any, transactions: Sequence[Any]) -> tuple[Any, ...]:
        half = len(transactions) // 2
        gone = right(subject, decision, transactions[:half])
        reached(point.name)
        return (*gone, *right(subject, decision, transactions[half:]))

    put(owner, name, in_halves if point.name == HALF_ENDED else wrapped)


def _die_if_asked(name: str) -> None:
    file = Path(os.environ[ENVIRONMENT])
    try:
        if file.read_text().strip() == name:
            file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
    except FileNotFoundError:  # there is none, or another process was first
        return
