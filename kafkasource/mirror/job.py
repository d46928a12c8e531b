"""The Spark job of a mirror: one streaming query for each cluster that it reads, and one thread that keeps topics.

It runs on the driver, in the user's process. `finish` ends it after the running micro-batches are committed; `stop`
cancels them. When a query fails, the job stops the others too: nobody would notice a mirror that works in part.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import kafkasource
from kafkasource import options
from kafkasource.client.config import ClientConfig
from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.mirror.carried_settings import CarriedSettings
from kafkasource.mirror.checkpoint_lock import CheckpointLocks
from kafkasource.mirror.cluster_ids import cluster_ids
from kafkasource.mirror.plan import Plan, Route, routes, with_refused
from kafkasource.mirror.topics import TopicKeeper
from kafkasource.sink.clusters import targets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

    from kafkasource.monitor.served import ServedMetrics

log = logging.getLogger("kafkasource.mirror")

_POLL_S = 0.2
_BETWEEN_TRIGGERS = "Waiting for next trigger"  # Spark shows this status only after the first trigger

# Spark settings for packed records, about 1 MiB in a row. `[spark]` in the file takes precedence.
_PACKED = {"spark.sql.execution.arrow.maxRecordsPerBatch": "4"}  # rows that the JVM holds until an Arrow batch is full


class MirrorFailed(KafkaSourceError):
    """A query of the mirror ended with an error."""


@dataclass
class Mirror:
    """A running mirror. Only one thread may call its methods."""

    queries: list[StreamingQuery]
    keepers: list[TopicKeeper]
    metrics: ServedMetrics | None = None  # if the file asks for it
    folder: Path = Path()  # folder of the queries' stop files (`source.spark.stop_file`)
    locks: CheckpointLocks = field(default_factory=CheckpointLocks)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def wait(self, end: threading.Event | None = None, look: Callable[[], None] = lambda: None) -> bool:
        """Wait until `end` is set (returns False), or until all queries have ended (with `once`; returns True).

        `look` is called several times a second. Raises MirrorFailed as soon as a query fails.
        """
        end = end or threading.Event()
        while not end.wait(_POLL_S):
            look()
            if not self._active():
                return True
        return False

    def finish(self) -> None:
        """Wait until the running micro-batches are committed.

        No query begins another one, so `stop` then cancels nothing.

        The wait lasts as long as a micro-batch, even while a cluster is unreachable. Raises MirrorFailed if a query
        fails.
        """
        for query in self.queries:
            self._stop_file(query).touch()
        while any(not self._held(query) for query in self._active()):
            self.sleep(_POLL_S)

    def _active(self) -> list[StreamingQuery]:
        active = [query for query in self.queries if query.isActive]
        for query in self.queries:
            error = query.exception()
            if error is not None:
                raise MirrorFailed(f"query {query.name}: {_first_line(error)}")
        return active

    def _held(self, query: StreamingQuery) -> bool:
        """Whether the query has answered its stop file, or waits for its next trigger, where it would answer."""
        status = query.status
        idle = status["message"] == _BETWEEN_TRIGGERS and not status["isTriggerActive"]
        return idle or not self._stop_file(query).exists()

    def _stop_file(self, query: StreamingQuery) -> Path:
        return self.folder / str(query.name)

    def stop(self) -> None:
        """End queries and threads at once. The next run does unfinished micro-batches again."""
        with ExitStack() as ends:  # end each of them, even if another one raises; queries first, locks last
            ends.callback(self.locks.close)
            if self.metrics is not None:
                ends.callback(self.metrics.close)
            for keeper in self.keepers:
                ends.callback(keeper.close)
            for query in self.queries:
                ends.callback(query.stop)


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


def start(plan: Plan, spark: SparkSession, *, once: bool = False, end: threading.Event | None = None) -> Mirror:
    """Create the topics, then begin to copy records.

    `once`: end when all records that exist now are at the targets. `end`: start no further query once it is set. Raises
    OptionError, also where another mirror runs with the checkpoint, and the errors of clusters that refuse.
    """
    found = check(plan, cluster_ids(check(plan)))
    kafkasource.register(spark)
    mirror = Mirror([], [], folder=_stop_files())
    try:
        default_scheme = _default_scheme(spark)
        for route in found:
            mirror.locks.take(str(route.checkpoint), default_scheme)
        if plan.metrics_port is not None:
            sinks = {route.name: {**route.write, "checkpointLocation": str(route.checkpoint)} for route in found}
            once_only = sinks if plan.exactly_once else None
            mirror.metrics = kafkasource.serve_metrics(spark, plan.metrics_port, plan.metrics_host, sinks=once_only)
        in_circles = CarriedSettings()
        for route in found:
            keeper = _keeper(plan, route, in_circles)
            mirror.keepers.append(keeper)
            keeper.start()
            if end is not None and end.is_set():
                break
            mirror.queries.append(_query(plan, route, spark, once, mirror.folder / route.name, keeper.refused()))
    except BaseException:
        mirror.stop()
        raise
    return mirror


def _default_scheme(spark: SparkSession) -> str:
    """Of the file system that Hadoop takes for a location without one: "file", "hdfs"."""
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


def _query(
    plan: Plan,
    route: Route,
    spark: SparkSession,
    once: bool,
    stop_file: Path,
    refused: Mapping[str, Iterable[str]],
) -> StreamingQuery:
    reader = spark.readStream.format("pykafka").option("trigger", "availableNow" if once else "processingTime")
    rows = reader.options(**_texts(route.read), stopFile=str(stop_file)).load()
    writer: DataStreamWriter = (
        rows.writeStream.format("pykafka")
        .queryName(route.name)
        .options(**_texts(with_refused(route.write, refused)))
        .option("checkpointLocation", route.checkpoint)
    )
    if once:
        writer = writer.trigger(availableNow=True)
    elif plan.trigger is not None:
        writer = writer.trigger(processingTime=plan.trigger)
    with _set(spark, {**_PACKED, **plan.spark}):
        query: StreamingQuery = writer.start()
    log.info("%s: %s", route.name, ", ".join(map(str, route.flows)))
    return query


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
    """The last Python error in a query's error text: the JVM's text around it is long.

    Spark says in two ways that another query writes to the checkpoint, and what to do in neither.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("kafkasource.")]
    line = (ours or lines or ["it failed"])[-1 if ours else 0]
    two = any(re.search("Multiple streaming (queries|jobs)", each) for each in lines)
    return (
        f"{line.rstrip('.')}. Another mirror runs with this checkpoint: end one of them" if two and not ours else line
    )
