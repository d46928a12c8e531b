"""The table of bugs that can be planted, one for each rule of the checker. Each is a patch of a class of kafkasource.

Those of which a fault is the cause act after a crash or a kill; the others act on one piece of rows in `ONE_IN`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from random import Random
from typing import Any

from lab.campaign.faults import BY_NAME, TABLE, Kind

NETWORK = tuple(kind for kind in TABLE if kind.lane == "network")
KILLS = (BY_NAME["kill the driver"],)
AFTER_DECISIONS = (replace(BY_NAME["crash at a point"], variants=("decided", "half_ended")),)
ONE_IN = 40
STANDSTILL_S = 100_000.0
HALFWAY_S = 4.0  # of a batch that is written without a transaction: a kill of the driver then meets it
_random = Random()


@dataclass(frozen=True)
class Bug:
    rule: str  # which must find it
    of: str  # the module of kafkasource right after whose import it is planted
    plant: Callable[[], None]
    kinds: tuple[Kind, ...] = NETWORK  # the faults under which it shows

    @property
    def module(self) -> str:
        return f"kafkasource.{self.of}"


def _now() -> bool:
    return _random.randrange(ONE_IN) == 0


def _no_recovery() -> None:
    """After a crash the task transactions of a decided batch are not committed."""
    from kafkasource.exactly_once.driver.driver import ExactlyOnce
    from kafkasource.exactly_once.task.transactions import Recovered, TaskTransactions

    TaskTransactions.recover = lambda *_, **__: Recovered()  # type: ignore[method-assign]
    ExactlyOnce.abort = lambda *_, **__: None  # type: ignore[method-assign]


def _forgotten_decision() -> None:
    """After a crash a batch that was decided is written again."""
    from kafkasource.exactly_once.states import Order
    from kafkasource.exactly_once.task import plan as task_plan

    right = task_plan._order

    def planted(*args: Any) -> Order:
        order = right(*args)
        return Order.LATER if order is Order.SAME else order

    task_plan._order = planted  # type: ignore[assignment]


def _reads_uncommitted() -> None:
    from kafkasource.kafka.fetch.config import FetchSettings
    from kafkasource.types import IsolationLevel

    right = FetchSettings.from_options

    def planted(options: Any) -> FetchSettings:
        return replace(right(options), isolation_level=IsolationLevel.READ_UNCOMMITTED)

    FetchSettings.from_options = planted  # type: ignore[method-assign]


def _of_written_batches(change: Callable[[Any], Any]) -> None:
    """Change one Arrow batch in `ONE_IN` of those that a task writes to a cluster without a name."""
    from kafkasource.sink import task

    right = task.write

    def changed(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield change(batch) if batch.num_rows > 1 and _now() else batch

    def planted(batches: Iterator[Any], schema: Any, targets: Any, *rest: Any) -> Any:
        return right(changed(batches) if "" in targets else batches, schema, targets, *rest)

    task.write = planted  # type: ignore[assignment]


def _reversed_rows() -> None:
    _of_written_batches(lambda batch: batch.take(list(reversed(range(batch.num_rows)))))


def _column(batch: Any, name: str, values: list[Any]) -> Any:
    import pyarrow as pa

    at = batch.schema.get_field_index(name)
    return batch.set_column(at, batch.schema.field(at), pa.array(values, batch.schema.field(at).type))


def _lost_headers() -> None:
    def change(batch: Any) -> Any:
        return _column(batch, "headers", [None, *batch.column("headers").to_pylist()[1:]])

    _of_written_batches(change)


def _garbled_value() -> None:
    def change(batch: Any) -> Any:
        first, *rest = batch.column("value").to_pylist()
        return _column(batch, "value", [first[::-1], *rest])

    _of_written_batches(change)


def _wrong_partition() -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    from kafkasource.kafka.producer.partitioner import Partitioner

    right = Partitioner.partitions

    def planted(self: Partitioner, rows: Any, count: int, available: Any) -> Any:
        found = right(self, rows, count, available)
        if not _now():
            return found
        return pa.array([(each + 1) % count for each in pc.cast(found, pa.int32()).to_pylist()], pa.int32())

    Partitioner.partitions = planted  # type: ignore[method-assign]


def _torn_batches() -> None:
    """`atomicBatch` writes without a transaction, and pauses half way."""
    from kafkasource.sink import task

    writer: Any = import_module("kafkasource.sink.writer")
    right_guarantees, right_write = writer._guarantees, task.write

    def planted_guarantees(targets: Any, **more: Any) -> Any:
        return None if targets.shared["atomicBatch"] else right_guarantees(targets, **more)

    def halves(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            time.sleep(HALFWAY_S)
            yield batch.slice(half)

    def planted_write(batches: Iterator[Any], schema: Any, targets: Any, tasks: Any, *rest: Any) -> Any:
        torn = tasks is None and "" in targets
        return right_write(halves(batches) if torn else batches, schema, targets, tasks, *rest)

    writer._guarantees = planted_guarantees
    task.write = planted_write  # type: ignore[assignment]


def _map_off_by(places: int) -> Callable[[], None]:
    def plant() -> None:
        from kafkasource.mirror import offset_map

        right = offset_map.encoded

        def planted(tp: Any, known: Any) -> tuple[str, str]:
            spans = [
                span._replace(
                    target_first=max(0, span.target_first + places),
                    target_next=span.target_next + places,
                    shift=None if span.shift is None else span.shift + places,
                )
                for span in known.spans
            ]
            return right(tp, known._replace(spans=tuple(spans)))

        offset_map.encoded = planted

    return plant


def _commits_too_far() -> None:
    from kafkasource.source.commits.committer import CommitLedger

    right = CommitLedger.offer

    def planted(self: CommitLedger, offsets: Any, *known: Any) -> None:
        right(self, {tp: offset + 500 for tp, offset in offsets.items()}, *known)

    CommitLedger.offer = planted  # type: ignore[method-assign, assignment]


def _stands_still() -> None:
    """A batch that comes after a crash of a decided one never begins. (An abort would end the decided one first.)"""
    from kafkasource.exactly_once.driver.driver import ExactlyOnce
    from kafkasource.exactly_once.task.transactions import TaskTransactions

    ExactlyOnce.abort = lambda *_, **__: None  # type: ignore[method-assign]
    right = TaskTransactions.recover

    def planted(self: TaskTransactions, *rest: Any, **more: Any) -> Any:
        found = right(self, *rest, **more)
        if found.aborted or found.recovered:
            time.sleep(STANDSTILL_S)
        return found

    TaskTransactions.recover = planted  # type: ignore[method-assign]


BUGS: dict[str, Bug] = {
    "no recovery": Bug("lost", "exactly_once.driver.driver", _no_recovery, AFTER_DECISIONS),
    "forgotten decision": Bug("doubled", "exactly_once.task.plan", _forgotten_decision, AFTER_DECISIONS),
    "reads uncommitted": Bug("aborted", "kafka.fetch.config", _reads_uncommitted),
    "garbled value": Bug("unwritten", "sink.task", _garbled_value),
    "reversed rows": Bug("reordered", "sink.task", _reversed_rows),
    "wrong partition": Bug("misplaced", "kafka.producer.partitioner", _wrong_partition),
    "lost headers": Bug("altered", "sink.task", _lost_headers),
    "torn batches": Bug("torn", "sink.writer", _torn_batches, KILLS),
    "map too far": Bug("map skips", "mirror.offset_map", _map_off_by(1)),
    "map too near": Bug("map repeats", "mirror.offset_map", _map_off_by(-1)),
    "commits too far": Bug("group ahead", "source.commits.committer", _commits_too_far),
    "stands still": Bug("stalled", "exactly_once.driver.driver", _stands_still, AFTER_DECISIONS),
}

# Each shares a campaign, because none hides what another does.
OF_ROWS = ("reads uncommitted", "garbled value", "reversed rows", "wrong partition", "lost headers", "commits too far")
GROUPS = (
    (*OF_ROWS, "map too far"),
    ("no recovery", "map too near"),
    ("torn batches",),
    ("forgotten decision",),
    ("stands still",),
)
