"""Exactly once, the executor's side: which task this is, what it may do, and the transaction that it writes in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from kafkasource.errors import OptionError, UnsupportedApiVersion, explained
from kafkasource.exactly_once.errors import LOST, CannotWriteOnce, LostTransactions
from kafkasource.exactly_once.names import WrittenTransaction
from kafkasource.exactly_once.query_identity import IdentitySource
from kafkasource.exactly_once.task.content import ContentSum
from kafkasource.exactly_once.task.plan import BegunBatch, OnLost, TaskPlan, TaskResult, plan_task
from kafkasource.kafka.cluster.transactions import ONGOING, DescribedTransaction
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.types import ProducerId, TopicPartition

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster


log = logging.getLogger("kafkasource.sink")

_LAST_EPOCH = 32_766  # after which InitProducerId gives another producer id (KIP-360)

# How long a task that failed may take to abort. Spark kills a task that it has cancelled after two to four seconds.
_ABORT_MS = 5_000


class Context(Protocol):
    """The part of pyspark's TaskContext that is used."""

    def partitionId(self) -> int: ...
    def attemptNumber(self) -> int: ...
    def getLocalProperty(self, key: str) -> str | None: ...


@dataclass(frozen=True)
class Guarantee:
    """The options of exactly once, as plain values: a part of the pickled writer."""

    identity: IdentitySource
    timeout_ms: int
    atomic: bool
    on_lost: OnLost


@dataclass(frozen=True)
class Task:
    """The task and its batch. The ids are the same when Spark runs the batch again after a restart."""

    query_id: str
    batch_id: int
    slot: int

    @classmethod
    def of(cls, context: Context | None, begun: BegunBatch, guarantee: Guarantee) -> Task:
        """Raises OptionError and CannotWriteOnce where Spark runs it in a way that the guarantee does not allow."""
        if context is None:
            raise CannotWriteOnce("exactly once is written by Spark's tasks only: there is no TaskContext here")
        # Spark reads a boolean in this way: Python's True becomes "True" in a SparkConf.
        if (context.getLocalProperty("spark.speculation") or "").strip().lower() == "true":
            raise OptionError(
                "'deliveryGuarantee'=exactly_once cannot be kept with spark.speculation=true: the second attempt of a "
                "task aborts what the first has written. Turn speculation off"
            )
        if guarantee.atomic and context.attemptNumber() > 0:
            raise CannotWriteOnce(
                "with 'atomicBatch' a task cannot be run again: the rows of its first attempt are part of the batch's "
                "only transaction. The batch starts again with the query"
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
class ExactlyOnceTask:
    """One task that writes exactly once."""

    guarantee: Guarantee
    begun: BegunBatch
    task: Task
    plan: TaskPlan
    claim: ProducerId | None = None  # with atomicBatch, once its transaction is open
    # Its own, once it is open. With atomicBatch None: it joins the driver's.
    transaction: TaskTransaction | None = None
    _driver: Callable[[], DescribedTransaction | None] | None = None  # to be looked at when the task is done

    @classmethod
    def start(
        cls, guarantee: Guarantee, begun: BegunBatch, context: Context | None, producer: int = 0, producers: int = 1
    ) -> ExactlyOnceTask:
        """`producer`: the number of the task's producer that writes in the transaction, below `producers`. Raises an
        error that keeps the task from writing. Asks no broker."""
        task = Task.of(context, begun, guarantee)
        task = replace(task, slot=task.slot * producers + producer)
        return cls(guarantee, begun, task, plan_task(begun, task.query_id, task.batch_id, task.slot, guarantee.on_lost))

    def open_transaction(self, cluster: Cluster) -> TaskTransaction:
        """The transaction that the task writes in. Blocks. Raises CannotWriteOnce.

        Not to be called before there is a row: an idle task costs the brokers nothing.
        """
        driver = self.begun.driver
        ids = driver.ids
        if self.guarantee.atomic:
            self.claim = self._claim(cluster)
            transaction = TaskTransaction.join(
                cluster.transactions, ids.driver, driver.producer, driver.transaction_version
            )
        else:
            name = ids.task(self.task.slot)
            transaction = self.transaction = TaskTransaction.open(
                cluster.transactions, name, self.guarantee.timeout_ms, driver.transaction_version
            )
        self._driver = cluster.transactions.describing(ids.driver)
        return transaction

    def end_left(self, cluster: Cluster) -> None:
        """Abort the transaction that an earlier run may have left open in the slot of this task, which has no rows.
        Only for brokers that cannot list transactions. Blocks."""
        if self.begun.ends_left and self.plan.write:
            ids, timeout_ms = self.begun.driver.ids, self.guarantee.timeout_ms
            cluster.transactions.init_producer_id(ids.task(self.task.slot), timeout_ms)

    # A task that fails. Or Spark has given it up and does not say so.

    def abort(self, cluster: Cluster) -> None:
        """Abort the task's transaction, so that no reader waits for it: best effort, for some seconds at most.

        The abort names the epoch that the task holds: a later attempt has fenced that epoch, so it loses nothing. Where
        a request of the task may still reach a leader after the abort, the transaction is left to the next
        InitProducerId, which fences the request as well: in dialect 1 the epoch outlives the transaction, and a late
        batch would begin another one. A claim (atomicBatch) stays while the driver may still decide the batch:
        it tells later attempts that this attempt has begun to write.
        """
        transaction, version = self.transaction, self.begun.driver.transaction_version
        name = self.begun.driver.ids.task(self.task.slot)
        try:
            with cluster.caller.giving_up(after_ms=_ABORT_MS):
                if transaction is not None and transaction.may_be_aborted():
                    cluster.transactions.end(name, transaction.producer, False, version)
                elif self.claim is not None and self._given_up() is not None:
                    cluster.transactions.end(name, self.claim, False, version)
        except Exception as error:  # the task raises its own error
            log.debug("%s: not aborted by the task that failed: %s", name, error)

    def _given_up(self) -> DescribedTransaction | None:
        """The driver's transaction as its coordinator described it, where this batch's driver has lost it since.

        The driver's abort fences the task transactions that exist. One that was opened later would stay open until the
        query's next start. So each task asks for the driver's epoch after it has opened its transaction, and looks at
        the answer when it is done.
        """
        if self._driver is None:
            return None
        try:
            found = self._driver()
        except UnsupportedApiVersion:  # before Kafka 3.0 nobody can ask
            return None
        return found if found is not None and found.producer != self.begun.driver.producer else None

    def _refuse_given_up(self) -> None:
        """Raise where the driver has aborted the batch while this task was running."""
        found = self._given_up()
        if found is not None:
            raise CannotWriteOnce(
                f"batch {self.task.batch_id} was given up, or another run of the query has taken over, while task "
                f"{self.task.slot} was writing it ({found.transactional_id!r} has epoch {found.producer_epoch} now, "
                f"and had {self.begun.driver.producer.producer_epoch}) {explained('is-not-open-any-more')}"
            )

    def _claim(self, cluster: Cluster) -> ProducerId:
        """Become the only attempt of this task that writes (atomicBatch), or raise.

        The attempt's number does not help: Spark counts from 0 again when it runs a stage again because shuffle files
        were lost, even beside an attempt that still runs. If two attempts write under one producer id, their batches
        are mixed, or dropped as copies, without an error where they are of one size.

        So the attempt opens the slot's own transaction, with nothing in it, and leaves it open until the batch ends. An
        attempt that finds it open is late. Of several that find it closed, one gets the next epoch and the others see
        that they did not. An attempt that looks before the first has opened it gets the epoch after that; the first
        then cannot open it. Decision 56.
        """
        ids = self.begun.driver.ids
        name = ids.task(self.task.slot)
        before = cluster.transactions.describe([name])[name]
        late = before is not None and before.state == ONGOING
        if not late:
            mine = cluster.transactions.init_producer_id(name, self.guarantee.timeout_ms)
            following = mine._replace(producer_epoch=0)  # of an id that is new, or that has used up its epochs
            if before is not None and before.producer_epoch < _LAST_EPOCH:
                following = ProducerId(before.producer_id, before.producer_epoch + 1)
            late = mine != following
        if late:
            raise CannotWriteOnce(
                f"with 'atomicBatch' a task cannot be run again, and another attempt of task {self.task.slot} has "
                f"begun to write (transaction {name!r}): Spark ran its stage again, most likely because shuffle files "
                "were lost. The batch starts again with the query"
            )
        cluster.transactions.add_offsets(name, mine, ids.marker_group)
        return mine

    def skipped(self, content: ContentSum) -> TaskResult:
        """Report the rows of a task that skips its batch to the driver."""
        return TaskResult(
            self.begun.driver,
            self.task.query_id,
            skipped=True,
            gone_without=self.plan.gone_without,
            rows=content.rows,
            content=content.content,
            topics=content.topics,
        )

    def result(
        self, transaction: TaskTransaction | None, given: ContentSum, written: Collection[TopicPartition]
    ) -> TaskResult:
        """The report of a task that wrote, or had no rows. Raises CannotWriteOnce, LostTransactions."""
        if transaction is not None:
            self._refuse_given_up()
        own = self.claim
        if own is None and transaction is not None:
            own = transaction.producer
        again = self.plan.again
        rows, content = given.rows, given.content
        if again is not None and (again.rows, again.content) != (rows, content):
            sums = "" if rows != again.rows else ", with other contents"
            raise LostTransactions(
                f"batch {self.task.batch_id}, task {self.task.slot}: the rows are not those that were lost ({rows} "
                f"now, {again.rows} then{sums}), so that writing them could double some and leave out others. Nothing "
                "is written. Start with the same checkpoint, topics and number of partitions as then. "
                f"'lostTransactions'=skip goes on, and the {again.rows} rows of this task stay missing in the topics "
                f"{LOST}"
            )
        recorded = None if own is None else WrittenTransaction(self.task.slot, *own, rows, content)
        return TaskResult(
            self.begun.driver,
            self.task.query_id,
            transaction=recorded,
            replaces=again is not None,
            partitions=tuple(sorted(written)),
            rows=rows,
            content=content,
            topics=given.topics,
        )
