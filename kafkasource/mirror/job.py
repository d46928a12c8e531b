"""The Spark job of a mirror: a streaming query for each cluster that is read, and a thread beside it for the topics.

Runs on the driver, in the user's process. Ended by `stop`, by a signal (`pykafka mirror`), or by the first query that
fails: the others are stopped then, as a mirror of which a part stands still would go unnoticed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import kafkasource
from kafkasource import options
from kafkasource.client.config import ClientConfig
from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.mirror.plan import Plan, Route, routes
from kafkasource.mirror.topics import TopicKeeper
from kafkasource.sink.fan_out import targets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from kafkasource.monitor import ServedMetrics

log = logging.getLogger("kafkasource.mirror")

_POLL_S = 0.2

# Of a session for records that pass in pieces of a MiB; the file's `[spark]` goes before them.
_PACKED = {"spark.sql.execution.arrow.maxRecordsPerBatch": "4"}  # what waits in the JVM for the batch to be full


class MirrorFailed(KafkaSourceError):
    """A query of the mirror has ended with an error."""


@dataclass
class Mirror:
    """A mirror that runs. Methods are for one thread."""

    queries: list[StreamingQuery]
    keepers: list[TopicKeeper]
    metrics: ServedMetrics | None = None  # where the file says so

    def wait(self, end: threading.Event | None = None) -> None:
        """Until `end` is set, or all queries have ended by themselves (`once`). Raises MirrorFailed as soon as one
        fails."""
        end = end or threading.Event()
        while not end.wait(_POLL_S):
            active = [query.isActive for query in self.queries]
            for query in self.queries:
                error = query.exception()
                if error is not None:
                    raise MirrorFailed(f"query {query.name}: {_first_line(error)}")
            if not any(active):
                return

    def stop(self) -> None:
        """End queries and threads. What a micro-batch had not finished is done again by the next run."""
        with ExitStack() as ends:  # each of them, whatever another one raises; queries first
            if self.metrics is not None:
                ends.callback(self.metrics.close)
            for keeper in self.keepers:
                ends.callback(keeper.close)
            for query in self.queries:
                ends.callback(query.stop)


def check(plan: Plan) -> list[Route]:
    """All that can be checked without asking a broker. Raises OptionError."""
    found = routes(plan)
    for route in found:
        options.parse(dict(route.read), "source")
        targets.parse(dict(route.write))
    if plan.checkpoint is None:
        raise OptionError("checkpoint: where is Spark to keep how far the mirror is? Give a folder that outlives it")
    return found


def start(plan: Plan, spark: SparkSession, *, once: bool = False) -> Mirror:
    """Make the topics, then begin to carry records. `once`: end when all that is there now is at the targets.

    Raises OptionError, and what the clusters refuse.
    """
    found = check(plan)
    kafkasource.register(spark)
    mirror = Mirror([], [])
    try:
        if plan.metrics_port is not None:
            sinks = {route.name: {**route.write, "checkpointLocation": str(route.checkpoint)} for route in found}
            once_only = sinks if plan.exactly_once else None
            mirror.metrics = kafkasource.serve_metrics(spark, plan.metrics_port, plan.metrics_host, sinks=once_only)
        for route in found:
            keeper = _keeper(plan, route)
            mirror.keepers.append(keeper)
            keeper.start()
            mirror.queries.append(_query(plan, route, spark, once))
    except BaseException:
        mirror.stop()
        raise
    return mirror


def _keeper(plan: Plan, route: Route) -> TopicKeeper:
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
    )


def _query(plan: Plan, route: Route, spark: SparkSession, once: bool) -> StreamingQuery:
    rows = spark.readStream.format("pykafka").options(**_texts(route.read)).load()
    writer: Any = (
        rows.writeStream.format("pykafka")
        .queryName(route.name)
        .options(**_texts(route.write))
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
    """A query keeps the settings that the session has when it starts; they are not to be those of others."""
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


def _first_line(error: Any) -> str:
    """Of a query's error what Python said last: the JVM's text around it is long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("kafkasource.")]
    return (ours or lines or ["it failed"])[-1 if ours else 0]
