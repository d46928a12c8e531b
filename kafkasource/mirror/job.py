"""The Spark job of a mirror. Each cluster that it reads has a run of its own (`source_run`).

It runs on the driver, in the user's process. `finish` ends it after the running micro-batches are committed; `stop`
cancels them. It fails when nothing goes on any more.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kafkasource import options
from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.kafka.config import ClientConfig
from kafkasource.mirror.carried_settings import CarriedSettings
from kafkasource.mirror.checkpoint_lock import CheckpointLocks
from kafkasource.mirror.cluster_ids import cluster_ids
from kafkasource.mirror.files import MirrorFiles, files_at, newest_record
from kafkasource.mirror.plan import Plan, Route, reader_options, routes, with_refused
from kafkasource.mirror.positions import FlowRules, MirrorReader, PositionRecord, carried_over
from kafkasource.mirror.restart import SourceTopics
from kafkasource.mirror.source_logs import source_now, topics_now
from kafkasource.mirror.source_run import POLL_S, SourceRun, name_of
from kafkasource.mirror.topics import TopicKeeper
from kafkasource.sink.clusters import targets
from kafkasource.source.plan.offsets import PartitionOffsets
from kafkasource.spark.releases import TELLS_START_AND_LIMIT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery


log = logging.getLogger("kafkasource.mirror")

# Spark settings for packed records, about 1 MiB in a row. `[spark]` in the file takes precedence.
_PACKED = {"spark.sql.execution.arrow.maxRecordsPerBatch": "4"}  # rows that the JVM holds until an Arrow batch is full


class MirrorFailed(KafkaSourceError):
    """A query of the mirror ended with an error."""


@dataclass
class Mirror:
    """A running mirror. Only one thread may call its methods."""

    runs: list[SourceRun] = field(default_factory=list)
    locks: CheckpointLocks = field(default_factory=CheckpointLocks)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    @property
    def queries(self) -> list[StreamingQuery]:
        """The running queries. Their number changes: a flow has one of its own until it has caught up."""
        return [query for run in self.runs for query in run.queries]

    def wait(self, end: threading.Event | None = None, look: Callable[[], None] = lambda: None) -> bool:
        """Wait until `end` is set (returns False), or until all is copied (with `once`; returns True).

        `look` is called several times a second. Raises MirrorFailed when nothing goes on any more: each source has
        failed, or has copied all there is. As long as one goes on, those that failed are started again.
        """
        end = end or threading.Event()
        while not end.wait(POLL_S):
            look()
            if all(run.rests for run in self.runs):
                self._raise_errors()
                return True
        return False

    def finish(self) -> None:
        """Wait until the running micro-batches are committed.

        No query begins another one, so `stop` then cancels nothing.

        The wait lasts as long as a micro-batch, even while a cluster is unreachable. Raises MirrorFailed if a source or
        a query has failed and does not run again.
        """
        for run in self.runs:
            run.finish()
        while any(not run.finished for run in self.runs):
            self.sleep(POLL_S)
        self._raise_errors()

    def _raise_errors(self) -> None:
        errors = [error for run in self.runs for error in run.errors]
        if errors:
            raise MirrorFailed("; ".join(errors))

    def stop(self) -> None:
        """End queries and threads at once. The next run does unfinished micro-batches again."""
        with ExitStack() as ends:  # end each of them, even if another one raises; queries first, locks last
            ends.callback(self.locks.close)
            for run in self.runs:
                ends.callback(run.stop)


def check(plan: Plan, ids: Mapping[str, str | None] | None = None) -> list[Route]:
    """Check all that can be checked without a broker. Raises OptionError. `ids`: as in `routes`."""
    found = routes(plan, ids)
    for route in found:
        try:
            options.parse(dict(route.read), "source")
        except OptionError as error:
            raise OptionError(f"cluster {route.source!r}: {error}") from None
        targets.parse(dict(route.write))
    if plan.checkpoint is None:
        raise OptionError(
            "the mirror needs a checkpoint, where Spark keeps its progress: set checkpoint = to a folder that "
            "outlives the job"
        )
    return found


def start(
    plan: Plan,
    spark: SparkSession,
    *,
    once: bool = False,
    end: threading.Event | None = None,
    sinks: dict[str, Mapping[str, str]] | None = None,
) -> Mirror:
    """Create the topics, then begin to copy records. Returns when the first source copies.

    `once`: end when all records that exist now are at the targets. `end`: set when the mirror is to end. `sinks`: gets
    the options of queries that write exactly once, by name, for `kafkasource.serve_metrics`. Raises
    OptionError, also where another mirror runs with the checkpoint; and, if no source can be started, the error of one.
    """
    found = check(plan)
    mirror = Mirror()
    try:
        default_scheme = _default_scheme(spark)
        for route in found:
            mirror.locks.take(str(route.checkpoint), default_scheme)
        engine = SparkEngine(plan, spark, files_at(str(plan.checkpoint), spark, default_scheme), sinks)
        fail_on_loss = {route.source: options.parse(dict(route.read), "source")["failOnDataLoss"] for route in found}
        folder = _stop_files()
        for source, fails in fail_on_loss.items():
            mirror.runs.append(SourceRun(source, engine, folder, once=once, fail_on_data_loss=fails))
        for run in mirror.runs:
            run.others = [other for other in mirror.runs if other is not run]
            run.start()
        while not (end is not None and end.is_set()) and not any(run.queries for run in mirror.runs):
            if all(run.rests for run in mirror.runs):
                failures = [run.failure for run in mirror.runs if run.failure is not None]
                if failures and len(failures) == len(mirror.runs):
                    raise failures[0]
                break
            time.sleep(POLL_S)
    except BaseException:
        mirror.stop()
        raise
    return mirror


class SparkEngine:
    """Gives the runs of all sources Spark, brokers and files. Any thread."""

    limits_all = TELLS_START_AND_LIMIT

    def __init__(
        self, plan: Plan, spark: SparkSession, files: MirrorFiles, sinks: dict[str, Mapping[str, str]] | None = None
    ) -> None:
        self.files = files
        self.sources: Collection[str] = {flow.source for flow in plan.flows}
        self.sinks = {} if sinks is None else sinks  # of queries that write exactly once
        self._plan, self._spark = plan, spark
        self._in_circles = CarriedSettings()
        self._keepers: dict[str, TopicKeeper] = {}
        self._lock = threading.Lock()
        self._ids: dict[str, str | None] = dict.fromkeys(plan.clusters)
        for source in self.sources:
            record = newest_record(files, source)
            known = record.cluster_ids if record is not None else {}
            self._ids.update((name, its) for name, its in known.items() if name in self._ids and its is not None)
        self._routes = self._routes_by(self._ids)

    def _routes_by(self, ids: Mapping[str, str | None]) -> dict[str, Route]:
        return {route.source: route for route in routes(self._plan, ids)}

    def ask_ids(self, route: Route) -> None:
        found = cluster_ids([route])
        with self._lock:
            ids = {**self._ids, **{name: its for name, its in found.items() if its is not None}}
            self._routes = self._routes_by(ids)
            self._ids = ids

    def ids(self) -> Mapping[str, str | None]:
        return self._ids

    def route(self, source: str) -> Route:
        return self._routes[source]

    def keeper(self, route: Route) -> TopicKeeper:
        keeper = _keeper(self._plan, route, self._in_circles)
        self._keepers[route.source] = keeper
        return keeper

    def topics(self, route: Route) -> Collection[str]:
        return topics_now(route)

    def source_now(self, route: Route, known: Collection[str], first: bool) -> SourceTopics:
        return source_now(route, known, first)

    def query(
        self,
        route: Route,
        record: PositionRecord,
        reader: MirrorReader,
        stop_file: Path,
        *,
        flows: Sequence[FlowRules] | None = None,
        front: PartitionOffsets | None = None,
        once: bool = False,
    ) -> StreamingQuery:
        from pyspark.sql import SparkSession

        names = carried_over(record, self._ids, ())
        read, write = reader_options(self._plan, route, record, reader, flows=flows, front=front, names=names)
        write = with_refused(write, self._keepers[route.source].refused())
        name = name_of(route.source, reader)
        folder = f"{str(self._plan.checkpoint).rstrip('/')}/{record.source}"
        checkpoint = f"{folder}/{reader.name}"
        there = {f"{folder}/{each.name}" for each in record.readers}
        for other, given in list(self.sinks.items()):  # readers that are gone, with their checkpoints
            if given["checkpointLocation"].rpartition("/")[0] == folder and given["checkpointLocation"] not in there:
                del self.sinks[other]
        if record.rules.exactly_once:
            self.sinks[name] = {**write, "checkpointLocation": checkpoint}
        rows = (
            self._spark.readStream.format("pykafka")
            .option("trigger", "availableNow" if once else "processingTime")
            .options(**_texts(read), stopFile=str(stop_file))
            .load()
        )
        writer: DataStreamWriter = (
            rows.writeStream.format("pykafka")
            .queryName(name)
            .options(**_texts(write))
            .option("checkpointLocation", checkpoint)
        )
        if once:
            writer = writer.trigger(availableNow=True)
        elif self._plan.trigger is not None:
            writer = writer.trigger(processingTime=self._plan.trigger)
        # Spark looks data sources up in the active session, which is one of the thread.
        SparkSession._get_j_spark_session_class(self._spark._jvm).setActiveSession(self._spark._jsparkSession)
        with self._lock, _set(self._spark, {**_PACKED, **self._plan.spark}):
            query: StreamingQuery = writer.start()
        log.info("%s: %s", name, ", ".join(f"{route.source}->{flow.target}" for flow in reader.flows))
        return query

    def error_of(self, query: StreamingQuery) -> str | None:
        error = query.exception()
        return None if error is None else _first_line(error)


def _default_scheme(spark: SparkSession) -> str:
    """The scheme of the file system that Hadoop takes for a location without one: "file", "hdfs"."""
    url = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS")  # core-site.xml may say it
    return str(url or "file").partition(":")[0].lower()


def _stop_files() -> Path:
    """A folder on the driver's machine. Spark deletes it when it ends, in whatever way."""
    from pyspark import SparkFiles

    folder = Path(SparkFiles.getRootDirectory()) / f"stop-{uuid.uuid4()}"
    folder.mkdir()
    return folder


def _keeper(plan: Plan, route: Route, in_circles: CarriedSettings | None = None) -> TopicKeeper:
    clients = {
        name: ClientConfig.from_options(options.parse({"kafka.client.id": route.name, **given}, "source"))
        for name, given in route.clients.items()
    }
    by_name = targets.parse(dict(route.write)).by_name
    return TopicKeeper(
        route,
        clients,
        refresh_topics_s=plan.refresh_topics_s,
        refresh_settings_s=plan.refresh_settings_s,
        optional=[name for name, target in by_name.items() if target.policy == "discard"],
        in_circles=in_circles,
    )


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set these for a query that starts inside: a query keeps the session's settings. Other queries do not get them."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _texts(given: Mapping[str, str]) -> dict[str, str]:
    return {key: str(value) for key, value in given.items()}


def _first_line(error: object) -> str:
    """Find the last Python error in a query's error text, which is long because of the JVM's part.

    Spark has two texts for a checkpoint that another query writes to. Neither says what to do.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("kafkasource.")]
    line = (ours or lines or ["it failed"])[-1 if ours else 0]
    two = any(re.search("Multiple streaming (queries|jobs)", each) for each in lines)
    return (
        f"{line.rstrip('.')}. Another mirror runs with this checkpoint: end one of them" if two and not ours else line
    )
