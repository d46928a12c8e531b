"""The writers that Spark sees: `write` in the executors' Python workers, the rest on the driver.

At least once: a task reports success when every record is acknowledged, so commit has nothing left to do; a task
that is run again writes its rows again. Exactly once: `transactions.driver` for the driver, `transactions.task` for the
tasks.

Spark pickles a writer to its tasks, so it holds plain values only. It does so once before the tasks of each micro-batch
or batch write, in a process that may talk to the brokers: `__getstate__` is where a batch begins. A stream's commit and
abort run on a new writer in another process, those of a batch write on one that was pickled.
"""

from __future__ import annotations

import logging
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kafkasource import metrics
from kafkasource.client.cache import shared_cluster
from kafkasource.errors import KafkaSourceError, UnsupportedApiVersion
from kafkasource.memory.worker import spare_imports_from_gc
from kafkasource.protocol.apis import INIT_PRODUCER_ID
from kafkasource.sink.columns import SinkSchema
from kafkasource.sink.commit_report import LaneCounts, gathered, tell
from kafkasource.sink.functions import load
from kafkasource.sink.new_topic import create_missing
from kafkasource.sink.producer.config import ProducerConfig
from kafkasource.sink.transactions import turns
from kafkasource.sink.transactions.driver import Begun, ExactlyOnce, Share, Turn
from kafkasource.sink.transactions.query_identity import Identity, IdentitySource
from kafkasource.sink.transactions.task import Guarantee, LaneTask
from kafkasource.types import TopicPartition, Written

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkasource.client.cluster import Cluster
    from kafkasource.options import Options
    from kafkasource.sink.producer.producer_id import Lane
    from kafkasource.sink.transactions.names import TransactionalIds

log = logging.getLogger("kafkasource.sink")

_ABORT_MS = 20_000  # some round trips; more where a coordinator moves


@dataclass(frozen=True)
class TaskReport(WriterCommitMessage):
    """What one task wrote, all of it acknowledged. Pickled to the driver."""

    written: dict[TopicPartition, Written] = field(default_factory=dict)
    kernel_compiled: bool = True  # in the worker that wrote
    query_id: str | None = None  # only tasks know it; None: a batch write
    share: Share | None = None  # with exactly once
    metrics: metrics.Snapshot | None = None  # of the worker, where they are wanted on the driver

    @property
    def records(self) -> int:
        return sum(one.records for one in self.written.values())


class _Writer:
    """What both writers share."""

    def __init__(self, options: Options, schema: StructType) -> None:
        """Checks the schema; contacts nobody. Runs on the driver, more than once for a micro-batch."""
        self._schema = SinkSchema.check(schema, options["topic"])
        self._config = ProducerConfig.from_options(options)
        self._query_name = options.sparks_own.get("queryname")
        self._listener: str | None = options["commitListener"]
        if self._listener is not None:
            load(self._listener, "commitListener")  # what is not there is refused before a task runs
        self._partitioner: str = options["partitioner"]
        self._new_topic = options["topic"], options["createTopic"]
        self._guarantee = _guarantee(options, batch_write=self._write_id() is not None)
        self._begun: Begun | None = None
        self._prepared = False
        self._metrics_wanted = False
        spare_imports_from_gc()

    def __getstate__(self) -> dict[str, Any]:
        """What goes to the tasks. Driver side; talks to the brokers, once however often it is pickled."""
        if not self._prepared:
            create_missing(self._config.client, *self._new_topic)
            if self._guarantee is not None:
                _require_transactions(shared_cluster(self._config.client))
                identity = self._guarantee.identity.find()
                self._begun = self._driver(self._guarantee, identity).begin(self._write_id())
                turns.leave(self._guarantee.identity, self._config.cluster_name, self._begun.turn)
            self._metrics_wanted = metrics.wanted()
            self._prepared = True
        return self.__dict__

    def _write_id(self) -> str | None:
        """In place of a query's id, where there is no query."""
        return None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskReport:
        """Write a task's rows; returns when all are acknowledged. Executor side."""
        from kafkasource.records import COMPILED
        from kafkasource.sink.partitioner import Partitioner
        from kafkasource.sink.producer.producer import shared_producer

        spare_imports_from_gc()
        producer = shared_producer(self._config)
        partitioner = Partitioner.from_option(self._partitioner, self._config.batch_bytes)

        def write(batches: Iterator[pa.RecordBatch], lane: Lane | None = None) -> dict[TopicPartition, Written]:
            with producer.delivery(lane) as delivery:
                for batch in batches:
                    for rows in self._schema.rows(batch):
                        producer.append(rows, partitioner, delivery)
            return delivery.written

        if self._guarantee is None or self._begun is None:
            written = write(iterator)
            return TaskReport(written, COMPILED, query_id(), metrics=metrics.report(self._metrics_wanted))
        task = LaneTask.start(self._guarantee, self._begun, TaskContext.get())
        share, written = task.run(iterator, self._schema.positions, shared_cluster(self._config.client), write)
        return TaskReport(written, COMPILED, query_id(), share, metrics.report(self._metrics_wanted))

    def _driver(self, guarantee: Guarantee, identity: Identity | TransactionalIds) -> ExactlyOnce:
        return ExactlyOnce(
            shared_cluster(self._config.client),
            identity,
            timeout_ms=guarantee.timeout_ms,
            atomic=guarantee.atomic,
            on_lost=guarantee.on_lost,
            topic=self._new_topic[0],
        )

    def _abort(self, messages: Sequence[TaskReport | None], batch_id: int, turn: Turn | None) -> None:
        """`messages` has a place for each task, None where the task failed, was killed or cancelled."""
        assert self._guarantee is not None
        shares = _shares(messages)
        turn = shares[0].turn if shares else turn
        if turn is not None:  # else it is not known whose transactions are open: the next begin aborts them
            with best_effort(shared_cluster(self._config.client), batch_id):
                silent = [slot for slot, message in enumerate(messages) if message is None]
                self._driver(self._guarantee, turn.ids).abort(shares, batch_id, silent, turn)

    def _commit(self, messages: Sequence[TaskReport | None], batch_id: int | None = None) -> None:
        lanes = None
        if self._guarantee is not None:
            shares, lanes = _shares(messages), LaneCounts()
            if shares or batch_id is not None:  # a micro-batch without tasks is noted, too
                identity = shares[0].turn.ids if shares else self._guarantee.identity.find()
                lanes = self._driver(self._guarantee, identity).commit(shares, batch_id or 0)
        self._committed(messages, batch_id, lanes)

    def _committed(
        self, messages: Sequence[TaskReport | None], batch_id: int | None = None, lanes: LaneCounts | None = None
    ) -> None:
        """Driver side, after all tasks succeeded."""
        spare_imports_from_gc()
        if any(message is not None and not message.kernel_compiled for message in messages):
            warn_uncompiled()
        query_id = next((message.query_id for message in messages if message is not None), None)
        commit = gathered(messages, batch_id=batch_id, query_id=query_id, query_name=self._query_name, lanes=lanes)
        skipped = any(
            message is not None and message.share is not None and message.share.skipped for message in messages
        )
        metrics.take(message.metrics for message in messages if message is not None)
        tell(commit, self._listener, by_earlier_run=skipped and not commit.written)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """`df.write.format("pykafka").mode("append")`."""

    def _write_id(self) -> str:
        return str(uuid.uuid4())

    def commit(self, messages: list[TaskReport | None]) -> None:
        self._commit(messages)

    def abort(self, messages: list[TaskReport | None]) -> None:
        """Exactly once: nobody who reads committed sees what the failed job wrote. Else it stays in the topics."""
        if self._guarantee is not None and self._begun is not None:
            self._abort(messages, 0, self._begun.turn)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream.format("pykafka")`. Output mode complete appends each result whole, as the JVM connector does."""

    def commit(self, messages: list[TaskReport | None], batchId: int) -> None:
        self._commit(messages, batchId)

    def abort(self, messages: list[TaskReport | None], batchId: int) -> None:
        """Exactly once: see there. Else nothing can be taken back; the rows are written again when the batch is."""
        if self._guarantee is not None:
            self._abort(messages, batchId, turns.left(self._guarantee.identity, self._config.cluster_name))


def _guarantee(options: Options, *, batch_write: bool) -> Guarantee | None:
    """None: at least once. Raises OptionError where exactly once has nothing to make transactional ids of."""
    if options["deliveryGuarantee"] != "exactly_once":
        return None
    return Guarantee(
        IdentitySource.of(options["transactionalIdPrefix"], options.sparks_own, batch_write=batch_write),
        options["kafka.transaction.timeout.ms"],
        options["atomicBatch"],
        options["lostTransactions"],
    )


def _require_transactions(cluster: Cluster) -> None:
    if not cluster.supports(INIT_PRODUCER_ID):
        raise UnsupportedApiVersion(
            "option 'deliveryGuarantee'=exactly_once needs transactions, which brokers have from Kafka 0.11 on; these "
            "are older. Use at_least_once there"
        )


@contextmanager
def best_effort(cluster: Cluster, batch_id: int) -> Iterator[None]:
    """An abort, within seconds: `query.stop()` waits for it. What it leaves open, the query's next start aborts."""
    try:
        with cluster.giving_up(after_ms=_ABORT_MS):
            yield
    except KafkaSourceError as error:
        log.warning(
            "batch %d failed, and its transactions may stay open until the query starts again, or until "
            "'kafka.transaction.timeout.ms' is over; readers at read_committed wait so long: %s",
            batch_id,
            error,
        )


def _shares(messages: Sequence[TaskReport | None]) -> list[Share]:
    return [message.share for message in messages if message is not None and message.share is not None]


def query_id() -> str | None:
    """Of the streaming query whose task runs here; it survives restarts."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty("sql.streaming.queryId")


_warned = False


def warn_uncompiled() -> None:
    """Once per driver process: each micro-batch would say it again."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "executors ran kafkasource's kernel uncompiled: correct, but about a hundred times slower. Install the "
            "package with a C compiler present on the Python that Spark's workers use (a zip given by --py-files never "
            "has it).",
            RuntimeWarning,
            stacklevel=2,
        )
