"""The writers that Spark sees where rows go to several clusters. `sink.writer` tells when what runs."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kafkasource import metrics
from kafkasource.client.cache import shared_cluster
from kafkasource.errors import BootstrapFailed, DeadlineExceeded
from kafkasource.memory.worker import spare_imports_from_gc
from kafkasource.sink.clusters.once import ClusterTask, guarantees
from kafkasource.sink.clusters.source_offsets import Mapped
from kafkasource.sink.clusters.source_offsets import gathered as mapped_together
from kafkasource.sink.clusters.targets import ClusterTarget, Targets
from kafkasource.sink.columns import SinkSchema
from kafkasource.sink.commit_report import LaneCounts, gathered, tell
from kafkasource.sink.functions import load
from kafkasource.sink.new_topic import create_missing
from kafkasource.sink.transactions import turns
from kafkasource.sink.transactions.crash_points import crash_point
from kafkasource.sink.transactions.driver import Begun, ExactlyOnce, Share
from kafkasource.sink.transactions.names import TransactionalIds
from kafkasource.sink.transactions.query_identity import Identity
from kafkasource.sink.transactions.row_checksum import RowSum
from kafkasource.sink.writer import best_effort, query_id, warn_uncompiled
from kafkasource.types import Discarded, TopicPartition, Written

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkasource.sink.clusters.fan_out import OpenLane

log = logging.getLogger("kafkasource.sink")

# Named like a listener, as it lies above the sink: it reads the topic that it writes to.
_OFFSET_MAP = "kafkasource.mirror.offset_map:record"


@dataclass(frozen=True)
class ClusterReport:
    """What one task did in one cluster."""

    written: dict[TopicPartition, Written] = field(default_factory=dict)  # acknowledged
    discarded: dict[TopicPartition, Discarded] = field(default_factory=dict)
    shares: tuple[Share, ...] = ()  # with exactly once, one for each producer
    mapped: dict[TopicPartition, Mapped] = field(default_factory=dict)  # with `offsetMap`


@dataclass(frozen=True)
class FanOutReport(WriterCommitMessage):
    """What one task did. Pickled to the driver."""

    clusters: dict[str, ClusterReport]
    kernel_compiled: bool = True  # in the worker that wrote
    query_id: str | None = None  # only tasks know it; None: a batch write
    metrics: metrics.Snapshot | None = None  # of the worker, where they are wanted on the driver


class _Writer:
    """What both writers share."""

    def __init__(self, targets: Targets, schema: StructType) -> None:
        """Checks the schema; contacts nobody. Runs on the driver, more than once for a micro-batch."""
        mapped = any(target.offset_map is not None for target in targets.by_name.values())
        self._schema = SinkSchema.check(schema, targets.topic, offsets=mapped)
        self._targets: Mapping[str, ClusterTarget] = targets.by_name
        self._topic = targets.topic
        self._query_name = targets.shared.sparks_own.get("queryname")
        self._listener: str | None = targets.shared["commitListener"]
        if self._listener is not None:
            load(self._listener, "commitListener")  # what is not there is refused before a task runs
        self._guarantees = guarantees(targets.shared, targets.by_name, batch_write=self._write_id() is not None)
        self._begun: dict[str, Begun] = {}
        self._prepared = False
        self._metrics_wanted = False
        spare_imports_from_gc()

    def __getstate__(self) -> dict[str, Any]:
        """What goes to the tasks. Driver side; talks to the brokers, once however often it is pickled."""
        if not self._prepared:
            for target in self._targets.values():
                _create_missing(target)
            if self._guarantees is not None:
                source = next(iter(self._guarantees.values())).identity
                whole = source.find()
                for name in self._guarantees:
                    begun = self._driver(name, whole.of_cluster(name)).begin(self._write_id())
                    self._begun[name] = begun
                    turns.leave(source, name, begun.turn)
            self._metrics_wanted = metrics.wanted()
            self._prepared = True
        return self.__dict__

    def _write_id(self) -> str | None:
        """In place of a query's id, where there is no query."""
        return None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FanOutReport:
        """Write a task's rows; returns when every cluster has acknowledged or discarded them. Executor side."""
        from kafkasource.records import COMPILED
        from kafkasource.sink.clusters.fan_out import FanOut
        from kafkasource.sink.clusters.producers import shared_producers

        spare_imports_from_gc()
        tasks = self._tasks()
        fan_out = FanOut(shared_producers(self._targets), wall_clock_ms=lambda: time.time() * 1000)
        row_sum = RowSum(self._schema.positions)
        reports = {}
        with self._aborting(tasks or {}):
            with fan_out.delivery(None if tasks is None else self._transactions(tasks)) as delivery:
                for batch in iterator:
                    if tasks is not None and batch.num_rows:
                        row_sum.add(batch)
                    for rows in self._schema.rows(batch):
                        fan_out.append(rows, delivery)
                    if tasks is not None:
                        crash_point("writing")
            for name in self._targets:
                sent = name in delivery.sending
                shares: tuple[Share, ...] = ()
                if tasks is not None:
                    shares = tasks[name].shares(delivery.lanes(name) if sent else {}, row_sum.rows, row_sum.crc)
                reports[name] = (
                    ClusterReport(delivery.written(name), delivery.discarded(name), shares, delivery.mapped(name))
                    if sent
                    else ClusterReport(shares=shares)
                )
        return FanOutReport(reports, COMPILED, query_id(), metrics.report(self._metrics_wanted))

    # Exactly once.

    def _tasks(self) -> dict[str, ClusterTask] | None:
        if self._guarantees is None or not self._begun:
            return None
        context = TaskContext.get()
        return {
            name: ClusterTask.start(guarantee, self._begun[name], context, self._targets[name].producers)
            for name, guarantee in self._guarantees.items()
        }

    @contextmanager
    def _aborting(self, tasks: Mapping[str, ClusterTask]) -> Iterator[None]:
        """As `LaneTask.aborting`, in every cluster."""
        try:
            yield
        except BaseException:
            for name, task in tasks.items():
                task.abort(shared_cluster(self._targets[name].config.client))
            raise

    def _transactions(self, tasks: Mapping[str, ClusterTask]) -> dict[str, OpenLane]:
        return {
            name: partial(task.open_lane, shared_cluster(self._targets[name].config.client))
            for name, task in tasks.items()
            if task.writes
        }

    def _driver(self, name: str, identity: Identity | TransactionalIds) -> ExactlyOnce:
        assert self._guarantees is not None
        guarantee = self._guarantees[name]
        return ExactlyOnce(
            shared_cluster(self._targets[name].config.client),
            identity,
            timeout_ms=guarantee.timeout_ms,
            atomic=guarantee.atomic,
            on_lost=guarantee.on_lost,
            topic=self._targets[name].fixed_topic(self._topic),
        )

    def _commit(self, messages: Sequence[FanOutReport | None], batch_id: int | None = None) -> None:
        """Driver side, after all tasks succeeded. Clusters are decided one after the other: where one cannot be, Spark
        runs the batch again, and those that are decided skip it."""
        spare_imports_from_gc()
        if any(message is not None and not message.kernel_compiled for message in messages):
            warn_uncompiled()
        lanes = {name: LaneCounts() for name in self._guarantees or ()}
        for name, guarantee in (self._guarantees or {}).items():
            shares = _shares(messages, name)
            if shares or batch_id is not None:  # a micro-batch without tasks is noted, too
                identity = shares[0].turn.ids if shares else guarantee.identity.find().of_cluster(name)
                lanes[name] = self._driver(name, identity).commit(shares, batch_id or 0)
        metrics.take(message.metrics for message in messages if message is not None)
        query = next((message.query_id for message in messages if message is not None), None)
        maps = {}
        for name in self._targets:
            reports = [message.clusters[name] for message in messages if message is not None]
            commit = gathered(
                reports,
                batch_id=batch_id,
                query_id=query,
                query_name=self._query_name,
                lanes=lanes.get(name),
                cluster=name,
                discarded=_discarded(reports),
            )
            skipped = any(share.skipped for share in _shares(messages, name))
            tell(commit, self._listener, by_earlier_run=skipped and not commit.written)
            offset_map, mapped = self._targets[name].offset_map, mapped_together(report.mapped for report in reports)
            if offset_map is not None and mapped:
                maps[name] = load(_OFFSET_MAP, "offsetMap")(self._targets[name].config.client, offset_map, mapped)
        self._await_maps(maps)

    def _await_maps(self, maps: Mapping[str, Any]) -> None:
        """All clusters' at once, each as long as it may hold up the commit: what fails here has written its rows, and
        is a gap in the map, in which offsets are translated to those before it."""
        began_s = time.monotonic()
        for name, recorder in maps.items():
            target = self._targets[name]
            most_ms = target.wait_ms if target.policy == "discard" else target.config.client.default_api_timeout_ms
            try:
                recorder.wait(max(0, most_ms - int((time.monotonic() - began_s) * 1000)))
            except Exception as error:
                log.warning("cluster %r: the map of offsets is not complete: %s", name, error)

    def _abort(self, messages: Sequence[FanOutReport | None], batch_id: int) -> None:
        """All clusters, though one fails. `messages` has a place for each task, as in `sink.writer`."""
        for name, guarantee in (self._guarantees or {}).items():
            target, begun, shares = self._targets[name], self._begun.get(name), _shares(messages, name)
            left = turns.left(guarantee.identity, name) if begun is None else begun.turn
            turn = shares[0].turn if shares else left
            if turn is not None:
                silent = [
                    task * target.producers + number
                    for task, message in enumerate(messages)
                    if message is None
                    for number in range(target.producers)
                ]
                with best_effort(shared_cluster(target.config.client), batch_id):
                    self._driver(name, turn.ids).abort(shares, batch_id, silent, turn)


class FanOutBatchWriter(_Writer, DataSourceArrowWriter):
    """`df.write.format("pykafka").option("clusters", ...).mode("append")`."""

    def _write_id(self) -> str:
        return str(uuid.uuid4())

    def commit(self, messages: list[FanOutReport | None]) -> None:
        self._commit(messages)

    def abort(self, messages: list[FanOutReport | None]) -> None:
        """Exactly once: nobody who reads committed sees what the failed job wrote. Else it stays in the topics."""
        if self._begun:
            self._abort(messages, 0)


class FanOutStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream.format("pykafka").option("clusters", ...)`."""

    def commit(self, messages: list[FanOutReport | None], batchId: int) -> None:
        self._commit(messages, batchId)

    def abort(self, messages: list[FanOutReport | None], batchId: int) -> None:
        """Exactly once: see there. Else nothing can be taken back; the rows are written again when the batch is."""
        self._abort(messages, batchId)


def _create_missing(target: ClusterTarget) -> None:
    topic, new = target.new_topic or (None, None)
    try:
        create_missing(target.config.client, topic, new)
    except (BootstrapFailed, DeadlineExceeded) as error:
        if target.policy != "discard":
            raise
        log.warning("cluster %r cannot be reached to create topic %s: %s", target.name, topic, error)


def _shares(messages: Sequence[FanOutReport | None], name: str) -> list[Share]:
    return [share for message in messages if message is not None for share in message.clusters[name].shares]


def _discarded(reports: Sequence[ClusterReport]) -> dict[TopicPartition, Discarded]:
    found: dict[TopicPartition, Discarded] = {}
    for report in reports:
        for tp, one in report.discarded.items():
            found[tp] = one.merged(found[tp]) if tp in found else one
    return dict(sorted(found.items()))
