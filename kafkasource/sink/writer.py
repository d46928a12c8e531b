"""The writers that Spark sees: `write` runs in the executors' Python workers, the rest on the driver.

One writer serves one cluster or several (`Targets`): a batch is begun, committed, aborted and reported for each
cluster, one after the other. Clusters know nothing of each other: exactly once holds in each, not over all of them.

At least once: a task reports success when every record is acknowledged, so commit has nothing left to do. A task that
Spark runs again writes its rows again. Exactly once: `exactly_once.driver` for the driver, `exactly_once.task` for the
tasks.

Spark pickles a writer to its tasks, so it holds plain values only. It does so once before the tasks of each micro-batch
or batch write, in a process that may talk to the brokers: a batch begins in `__getstate__`. A stream's commit and abort
run on a new writer in another process, those of a batch write on an unpickled writer. Each of these processes imports
this module before a query's first rows are committed. So functions import what only some writes need.
"""

from __future__ import annotations

import logging
import time
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter

from kafkasource import metrics
from kafkasource.errors import KafkaSourceError, SchemaError, UnsupportedApiVersion
from kafkasource.exactly_once.counts import TransactionCounts
from kafkasource.options import log_warning
from kafkasource.options.user_functions import load
from kafkasource.sink.clusters.targets import ONLY, ClusterTarget, Targets
from kafkasource.sink.commit_report import gathered, tell
from kafkasource.sink.reports import ClusterReport, TaskReport
from kafkasource.sink.schema import SinkSchema
from kafkasource.sink.task_input import to_the_end
from kafkasource.spark.garbage import spare_imports_from_gc
from kafkasource.spark.releases import DataSourceStreamArrowWriter
from kafkasource.spark.tracebacks import without_tracebacks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkasource.exactly_once.driver.driver import ExactlyOnce
    from kafkasource.exactly_once.driver_transaction import DriverTransaction
    from kafkasource.exactly_once.names import TransactionalIds
    from kafkasource.exactly_once.query_identity import QueryIdentity
    from kafkasource.exactly_once.task.plan import BegunBatch, TaskResult
    from kafkasource.exactly_once.task.task import Guarantee
    from kafkasource.formats.framing import Side
    from kafkasource.formats.writing.formats import WriteFormat
    from kafkasource.formats.writing.resolve import WantedFormats
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.sink.clusters.offset_map import OpenMapTopic, Recorder
    from kafkasource.sink.clusters.transactions import ClusterTask

log = logging.getLogger("kafkasource.sink")

_ABORT_MS = 20_000  # some round trips; more where a coordinator moves


class _Writer:
    """The common part of both writers. Each defines `commit` and `abort` as Spark calls them."""

    def __init__(self, targets: Targets, schema: StructType, open_map: OpenMapTopic | None = None) -> None:
        """`open_map`: opens the topic of an offset map, for targets that have one.

        Checks the schema; asks no broker. Runs on the driver, more than once for a micro-batch.
        """
        mapped = any(target.offset_map is not None for target in targets.by_name.values())
        self._wanted = _wanted_formats(targets)
        self._types = _arrow_types(schema, self._wanted.typed if self._wanted else ())
        self._schema = SinkSchema.check(
            schema,
            targets.topic,
            offsets=mapped,
            dead_letter_topic=targets.dead_letter_topic,
            typed=self._wanted.typed if self._wanted else (),
            text=self._wanted.text if self._wanted else (),
        )
        names = tuple(target.config.cluster_name for target in targets.by_name.values())
        self._schema = replace(self._schema, cluster_names=names)
        self._targets: Mapping[str, ClusterTarget] = targets.by_name
        self._cluster_ids: dict[str, str | None] = {}  # Kafka's ids, with a topic of dead letters
        self._topic = targets.topic
        self._open_map = open_map
        self._query_name = targets.shared.sparks_own.get("queryname")
        self._listener: str | None = targets.shared["commitListener"]
        if self._listener is not None:
            load(self._listener, "commitListener")  # a missing function is an error before a task runs
        self._guarantees = _guarantees(targets, batch_write=self._write_id() is not None)
        self._begun: dict[str, BegunBatch] = {}  # by cluster, with exactly once
        self._prepared = False
        self._metrics_wanted = False
        spare_imports_from_gc()

    def _write_id(self) -> str | None:
        """The id of a batch write, in place of a query's id."""
        return None

    # The driver, before the tasks.

    def __getstate__(self) -> dict[str, object]:
        """The state for the tasks. Spark may pickle the writer several times; only the first time this calls the
        brokers."""
        if not self._prepared:
            if self._wanted is not None:
                self._schema = replace(self._schema, formats=self._formats(self._wanted))
            for target in self._targets.values():
                trusted_ms = target.metadata_wait_ms if self._write_id() is None else 0
                _create_missing(target, trusted_ms)
                if self._schema.dead_letter_topic is not None:
                    self._cluster_ids[target.name] = _require_topic(target, self._schema.dead_letter_topic, trusted_ms)
            if len(self._cluster_ids) == 1:  # of several no cluster is where a row should have gone
                self._schema = replace(self._schema, cluster_id=next(iter(self._cluster_ids.values())))
            if self._guarantees is not None:
                self._begin()
            self._metrics_wanted = metrics.wanted()
            self._prepared = True
        # A task encodes by what is resolved: it needs neither the registry nor its credentials.
        return {**self.__dict__, "_wanted": None}

    def _formats(self, wanted: WantedFormats) -> tuple[WriteFormat, ...]:
        """The formats of the columns. May ask the schema registry."""
        return wanted.resolved(self._types, log_warning)

    def _begin(self) -> None:
        """Begin the batch in every cluster."""
        from kafkasource.exactly_once.driver_transaction import write_file

        assert self._guarantees is not None
        source = next(iter(self._guarantees.values())).identity  # the same for all clusters
        found = source.find()
        for name in self._guarantees:
            _require_transactions(self._cluster(name), name, self._guarantees[name])
        for name in self._guarantees:
            begun = self._driver(name, _in_cluster(found, name)).begin(self._write_id())
            self._begun[name] = begun
            write_file(source, self._targets[name].config.cluster_name, begun.driver)

    # A task.

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskReport:
        """Write a task's rows. Returns when every cluster has acknowledged them, or discarded them where the options
        allow that. Executor side."""
        from kafkasource.kafka.records import COMPILED
        from kafkasource.sink import task

        spare_imports_from_gc()
        batches = to_the_end(iterator)
        reports = task.write(batches, self._schema, self._targets, self._tasks(), self._cluster, self._cluster_ids)
        return TaskReport(reports, COMPILED, _query_id(), metrics.report(self._metrics_wanted))

    def _tasks(self) -> dict[str, ClusterTask] | None:
        """This task's transactions, by cluster; None: at least once."""
        if self._guarantees is None or not self._begun:
            return None
        from kafkasource.sink.clusters.transactions import ClusterTask

        context = TaskContext.get()
        return {
            name: ClusterTask.start(guarantee, self._begun[name], context, self._targets[name])
            for name, guarantee in self._guarantees.items()
        }

    # The driver, after the tasks. `messages` has a place for each task, None where the task failed, was killed or
    # cancelled.

    def _commit(self, messages: Sequence[TaskReport | None], batch_id: int | None = None) -> None:
        """Commit after all tasks succeeded. It decides the clusters one after the other. If one cannot be decided,
        Spark runs the batch again, and the clusters that are decided skip it. Those that skipped it come first: where
        one of them finds that its batch had other rows, no other cluster gets these."""
        spare_imports_from_gc()
        if any(message is not None and not message.kernel_compiled for message in messages):
            _warn_uncompiled()
        skipped_first = sorted(
            self._guarantees or (), key=lambda name: any(not each.skipped for each in _results(messages, name))
        )
        counts: dict[str, TransactionCounts] = {}
        try:
            for name in skipped_first:
                counts[name] = self._decide(messages, name, batch_id)
        except Exception:
            self._map_offsets(messages, counts)  # of clusters that will skip the batch when it comes again
            raise
        metrics.take(message.metrics for message in messages if message is not None)
        query_id = next((message.query_id for message in messages if message is not None), None)
        for name in self._targets:
            reports = _reports(messages, name)
            commit = gathered(
                reports,
                batch_id=batch_id,
                query_id=query_id,
                query_name=self._query_name,
                transactions=counts.get(name),
                cluster=name or None,
            )
            skipped = any(result.skipped for result in _results(messages, name))
            tell(commit, self._listener, by_earlier_run=skipped and not commit.written)
        self._map_offsets(messages, self._targets)

    def _decide(self, messages: Sequence[TaskReport | None], name: str, batch_id: int | None) -> TransactionCounts:
        """Exactly once: decide the batch in one cluster and commit its transactions there."""
        assert self._guarantees is not None
        results = _results(messages, name)
        if not results and batch_id is None:
            return TransactionCounts()  # a batch write without tasks; a micro-batch without tasks is noted
        ids = results[0].driver.ids if results else _in_cluster(self._guarantees[name].identity.find(), name)
        return self._driver(name, ids).commit(results, batch_id or 0)

    def _map_offsets(self, messages: Sequence[TaskReport | None], names: Iterable[str]) -> None:
        """Record in these clusters where the rows of the batch lie (`offsetMap`)."""
        if all(target.offset_map is None for target in self._targets.values()):
            return
        from kafkasource.sink.clusters import offset_map
        from kafkasource.sink.clusters.offset_spans import gathered as mapped_together

        maps = {}
        for name in names:
            target = self._targets[name]
            mapped = mapped_together(report.mapped for report in _reports(messages, name))
            known = {tp: each for tp, each in mapped.items() if each.spans or each.left_out}
            if target.offset_map is not None and known:
                assert self._open_map is not None
                maps[name] = offset_map.record(self._open_map, target.config.client, target.offset_map, known)
        self._await_maps(maps)

    def _await_maps(self, maps: Mapping[str, Recorder]) -> None:
        """Wait until the recorders of all clusters have written; for each at most as long as it may hold up the commit.

        The rows are written already. A recorder that fails leaves a gap in its map: an offset in the gap translates to
        one before the gap.
        """
        began_s = time.monotonic()
        for name, recorder in maps.items():
            target = self._targets[name]
            most_ms = target.wait_ms if target.policy == "discard" else target.config.client.default_api_timeout_ms
            try:
                recorder.wait(max(0, most_ms - int((time.monotonic() - began_s) * 1000)))
            except Exception as error:
                log.warning("cluster %r: the map of offsets is not complete: %s", name, error)

    def _abort(
        self, messages: Sequence[TaskReport | None], batch_id: int, drivers: Mapping[str, DriverTransaction | None]
    ) -> None:
        """Exactly once: abort what the batch has open, in every cluster, even if one of them fails.

        `drivers`: the driver's transaction in each cluster, if no task reported it. Without any, nobody knows whose
        transactions are open; the next begin aborts them.
        """
        for name, last in drivers.items():
            target, results = self._targets[name], _results(messages, name)
            driver = results[0].driver if results else last
            if driver is None:
                continue
            silent = [
                task * target.producers + number
                for task, message in enumerate(messages)
                if message is None
                for number in range(target.producers)
            ]
            with _best_effort(self._cluster(name), batch_id):
                self._driver(name, driver.ids).abort(results, batch_id, silent, driver)

    def _driver(self, name: str, identity: QueryIdentity | TransactionalIds) -> ExactlyOnce:
        from kafkasource.exactly_once.driver.driver import ExactlyOnce

        assert self._guarantees is not None
        guarantee = self._guarantees[name]
        return ExactlyOnce(
            self._cluster(name),
            identity,
            timeout_ms=guarantee.timeout_ms,
            atomic=guarantee.atomic,
            on_lost=guarantee.on_lost,
            topic=self._targets[name].fixed_topic(self._topic),
        )

    def _cluster(self, name: str) -> Cluster:
        from kafkasource.kafka.cluster.cache import shared_cluster

        return shared_cluster(self._targets[name].config.client)


@without_tracebacks("write", "commit", "__getstate__")
class BatchWriter(_Writer, DataSourceArrowWriter):
    """`df.write.format("pykafka").mode("append")`."""

    def _write_id(self) -> str:
        return str(uuid.uuid4())

    def commit(self, messages: list[TaskReport | None]) -> None:
        self._commit(messages)

    def abort(self, messages: list[TaskReport | None]) -> None:
        """Exactly once: no reader at read_committed sees what the failed job wrote. Else it stays in the topics."""
        self._abort(messages, 0, {name: begun.driver for name, begun in self._begun.items()})


@without_tracebacks("write", "commit", "__getstate__")
class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream.format("pykafka")`. Output mode complete appends each result whole, as the JVM connector does."""

    def _formats(self, wanted: WantedFormats) -> tuple[WriteFormat, ...]:
        from kafkasource.formats.writing.resolve import of_stream

        return of_stream(wanted, self._types, log_warning)

    def commit(self, messages: list[TaskReport | None], batchId: int) -> None:
        self._commit(messages, batchId)

    def abort(self, messages: list[TaskReport | None], batchId: int) -> None:
        """Exactly once: as for a batch write. Otherwise nothing can be taken back, and Spark writes the rows again with
        the batch."""
        if self._guarantees is None:
            return
        from kafkasource.exactly_once.driver_transaction import read_file

        drivers = {
            name: read_file(guarantee.identity, self._targets[name].config.cluster_name)
            for name, guarantee in self._guarantees.items()
        }
        self._abort(messages, batchId, drivers)


def _wanted_formats(targets: Targets) -> WantedFormats | None:
    """None where keys and values are written as they are: nothing of formats and registries is imported then."""
    if targets.shared["valueFormat"] == targets.shared["keyFormat"] == "binary":
        return None
    from kafkasource.formats.writing.resolve import WantedFormats

    return WantedFormats.of(targets.shared, targets.topic)


def _arrow_types(schema: StructType, sides: Sequence[Side]) -> dict[Side, pa.DataType]:
    """The Arrow types in which Spark hands over these columns. SchemaError for one that it has no Arrow type for."""
    if not sides:
        return {}
    from pyspark.errors import PySparkException

    from kafkasource.spark.releases import arrow_type

    found: dict[Side, pa.DataType] = {}
    for field in schema.fields:
        for side in sides:
            if field.name == side and side not in found:
                try:
                    found[side] = arrow_type(field.dataType)
                except (PySparkException, TypeError) as error:
                    raise SchemaError(f"column {side!r} cannot be encoded: {error}") from None
    return found


def _guarantees(targets: Targets, *, batch_write: bool) -> dict[str, Guarantee] | None:
    """The guarantee of each cluster. None: at least once, and nothing of exactly once is imported then."""
    if targets.shared["deliveryGuarantee"] != "exactly_once":
        return None
    from kafkasource.sink.clusters.transactions import guarantees

    return guarantees(targets.shared, targets.by_name, batch_write=batch_write)


def _create_missing(target: ClusterTarget, trusted_ms: int) -> None:
    if target.new_topic is None:
        return
    from kafkasource.sink.new_topic import create_missing, try_to_create

    topic, new = target.new_topic
    if target.policy != "discard":
        create_missing(target.config.client, topic, new, trusted_ms=trusted_ms)
    else:
        try_to_create(target.name, target.config.client, topic, new, trusted_ms=trusted_ms, wait_ms=target.wait_ms)


def _require_topic(target: ClusterTarget, topic: str, trusted_ms: int) -> str | None:
    """Look for the topic of dead letters. The id of its cluster, where it is known."""
    from kafkasource.kafka.cluster.cache import shared_cluster
    from kafkasource.sink.dead_letters import require_topic
    from kafkasource.sink.new_topic import try_for

    client = target.config.client
    require = partial(require_topic, client, topic, trusted_ms=trusted_ms)
    if target.policy != "discard":
        return require()
    found = try_for(target.name, client, topic, target.wait_ms, require, "cannot be looked for there now")
    return found or shared_cluster(client).metadata.cluster_id


def _require_transactions(cluster: Cluster, name: str, guarantee: Guarantee) -> None:
    from kafkasource.kafka.cluster.transactions import lacking
    from kafkasource.kafka.protocol.apis import DESCRIBE_TRANSACTIONS

    where = f"cluster {name!r} of 'clusters': " if name else ""
    if missing := lacking(cluster.supports):
        raise UnsupportedApiVersion(
            f"{where}option 'deliveryGuarantee'=exactly_once needs transactions, which brokers have from Kafka 0.11 "
            f"on; these do not offer {', '.join(missing)}. Use at_least_once there"
        )
    if guarantee.atomic and not cluster.supports(DESCRIBE_TRANSACTIONS):
        raise UnsupportedApiVersion(
            f"{where}option 'atomicBatch'=true needs brokers that tell whether a transaction is open, which they do "
            "from Kafka 3.0 on; these do not. Leave the option out there: each row is still written once, but a "
            "reader may see a micro-batch in parts"
        )


def _in_cluster(identity: QueryIdentity, name: str) -> QueryIdentity:
    """The transactional ids of a query in one cluster: those of several clusters have its name in them."""
    return identity if name == ONLY else identity.of_cluster(name)


@contextmanager
def _best_effort(cluster: Cluster, batch_id: int) -> Iterator[None]:
    """Abort within seconds, because `query.stop()` waits for it. The query's next start aborts what this leaves
    open."""
    try:
        with cluster.caller.giving_up(after_ms=_ABORT_MS):
            yield
    except KafkaSourceError as error:
        log.warning(
            "batch %d failed, and its transactions may stay open until the query starts again, or until "
            "'kafka.transaction.timeout.ms' is over; readers at read_committed wait until then: %s",
            batch_id,
            error,
        )


def _reports(messages: Sequence[TaskReport | None], name: str) -> list[ClusterReport]:
    return [message.clusters[name] for message in messages if message is not None]


def _results(messages: Sequence[TaskReport | None], name: str) -> list[TaskResult]:
    return [result for report in _reports(messages, name) for result in report.results]


def _query_id() -> str | None:
    """The id of the streaming query whose task runs here. It survives restarts."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty("sql.streaming.queryId")


_warned = False


def _warn_uncompiled() -> None:
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
