"""Exactly once, the executor's side: who a task is, what it may do, and the lane it writes in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.sink.crash_points import crash_point
from kafkasource.sink.exactly_once import Begun, LostTransactions, OnLost, Plan, Share, plan_task
from kafkasource.sink.identity import Lane, TransactionCalls
from kafkasource.sink.lanes import TransactionalIds, WrittenLane
from kafkasource.sink.row_sum import RowSum
from kafkasource.types import TopicPartition, Written

if TYPE_CHECKING:
    import pyarrow as pa


class Context(Protocol):
    """What is used of pyspark's TaskContext."""

    def partitionId(self) -> int: ...
    def attemptNumber(self) -> int: ...
    def getLocalProperty(self, key: str) -> str | None: ...


class CannotWriteOnce(KafkaSourceError):
    """This task, as Spark runs it, cannot keep the guarantee."""


class Rows(Protocol):
    """What a lane's rows are told by: as `RowSum`."""

    @property
    def rows(self) -> int: ...
    @property
    def crc(self) -> int: ...


@dataclass(frozen=True)
class Guarantee:
    """The options of exactly once, as plain values: a part of the pickled writer."""

    ids: TransactionalIds
    timeout_ms: int
    atomic: bool
    on_lost: OnLost


@dataclass(frozen=True)
class Task:
    """Which task of which batch this is. The ids are the same when Spark runs the batch again after a restart."""

    query_id: str
    batch_id: int
    slot: int

    @classmethod
    def of(cls, context: Context | None, begun: Begun, guarantee: Guarantee) -> Task:
        """Raises OptionError and CannotWriteOnce where Spark runs it in a way that the guarantee does not allow."""
        if context is None:
            raise CannotWriteOnce("exactly once is written by Spark's tasks only: there is no TaskContext here")
        if context.getLocalProperty("spark.speculation") == "true":
            raise OptionError(
                "'deliveryGuarantee'=exactly_once cannot be kept with spark.speculation=true: the second attempt of a "
                "task aborts what the first has written. Turn speculation off"
            )
        if guarantee.atomic and context.attemptNumber() > 0:
            raise CannotWriteOnce(
                "with 'atomicBatch' a task cannot be run again: what its first attempt wrote is part of the one "
                "transaction. The batch starts anew with the query"
            )
        if begun.write_id is not None:
            return cls(begun.write_id, 0, context.partitionId())
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        query_id = context.getLocalProperty("sql.streaming.queryId")
        if batch_id is None or query_id is None:
            raise OptionError(
                "'deliveryGuarantee'=exactly_once needs micro-batches: trigger(continuous=...) has none. Use "
                "trigger(processingTime=...) or trigger(availableNow=True)"
            )
        return cls(query_id, int(batch_id), context.partitionId())


@dataclass
class LaneTask:
    """One task that writes exactly once."""

    guarantee: Guarantee
    begun: Begun
    task: Task
    plan: Plan

    @classmethod
    def start(cls, guarantee: Guarantee, begun: Begun, context: Context | None) -> LaneTask:
        """Raises what keeps the task from writing; contacts nobody."""
        task = Task.of(context, begun, guarantee)
        plan = plan_task(begun, task.query_id, task.batch_id, task.slot, guarantee.on_lost)
        return cls(guarantee, begun, task, plan)

    def run(
        self,
        iterator: Iterator[pa.RecordBatch],
        positions: dict[str, int],
        cluster: TransactionCalls,
        write: Callable[[Iterator[pa.RecordBatch], Lane], dict[TopicPartition, Written]],
    ) -> tuple[Share, dict[TopicPartition, Written]]:
        """Write the rows with `write`, which returns when all are acknowledged; what goes to the driver."""
        filled = (batch for batch in iterator if batch.num_rows)
        if not self.plan.write:
            for _ in filled:
                pass  # Spark counts on tasks that take all of their input
            return Share(self.begun.turn, self.task.query_id, skipped=True), {}
        first = next(filled, None)
        if first is None:
            return self.share(None, None, {}), {}
        lane = self.open_lane(cluster)  # not before there is a row: an idle task costs the brokers nothing
        row_sum = RowSum(positions)

        def summed() -> Iterator[pa.RecordBatch]:
            batch: Any = first
            while batch is not None:
                row_sum.add(batch)
                yield batch
                crash_point("writing")
                batch = next(filled, None)

        written = write(summed(), lane)
        return self.share(lane, row_sum, written), written

    def open_lane(self, cluster: TransactionCalls) -> Lane:
        """The transaction that the task writes in. Blocks."""
        ids, turn = self.guarantee.ids, self.begun.turn
        if self.guarantee.atomic:
            return Lane.join(cluster, ids.driver, turn.driver, turn.transaction_version)
        name = ids.lane(self.task.slot)
        return Lane.open(cluster, name, self.guarantee.timeout_ms, turn.transaction_version)

    def share(self, lane: Lane | None, row_sum: Rows | None, written: Collection[TopicPartition]) -> Share:
        """What goes to the driver of a task that wrote, or had no rows."""
        again = self.plan.again
        rows, crc = (row_sum.rows, row_sum.crc) if row_sum is not None else (0, 0)
        if again is not None and (again.rows, again.crc) != (rows, crc):
            sums = "" if rows != again.rows else ", with another checksum"
            raise LostTransactions(
                f"batch {self.task.batch_id}, task {self.task.slot}: the rows are not those that were lost ({rows} "
                f"now, {again.rows} then{sums}), so that writing them "
                "could double some. 'lostTransactions'=skip goes on without them"
            )
        recorded = None
        if lane is not None and not self.guarantee.atomic:
            recorded = WrittenLane(self.task.slot, lane.producer_id, lane.producer_epoch, rows, crc)
        return Share(
            self.begun.turn,
            self.task.query_id,
            lane=recorded,
            replaces=again is not None,
            partitions=tuple(sorted(written)),
        )
