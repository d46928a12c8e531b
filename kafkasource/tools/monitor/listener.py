"""A listener in the user's process that hands Spark's query events to `queries`. It works over Connect too."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from kafkasource.tools.monitor.queries import Queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQueryProgress
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

log = logging.getLogger("kafkasource.metrics")

_ERROR_CHARS = 2000  # of a query's error: the JVM's stack traces follow after the message


class ProgressListener(StreamingQueryListener):
    """Spark calls it on a thread of its own. Raises nothing: Spark would only log it."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._queries.started(str(event.id), str(event.runId), event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        take_in(self._queries, event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Does nothing: an idle query still reports progress every ten seconds."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        error = event.exception
        self._queries.ended(str(event.id), None if error is None else error[:_ERROR_CHARS])


def take_in(queries: Queries, progress: StreamingQueryProgress) -> None:
    """Hand one progress report to `queries`. pyspark has it as an object with Spark's JSON, or as that JSON's dict."""
    try:
        queries.progressed(json.loads(progress.json) if hasattr(progress, "json") else progress)
    except Exception:
        log.warning("cannot read a query's progress", exc_info=True)


def take_what_is_pending(spark: SparkSession) -> None:
    """Over Connect: run a small job, so that Spark delivers pending messages of Python workers with its answer.

    Otherwise Spark delivers them with the next answer, which may carry query events. There pyspark 4.2 does not know
    these messages: it warns, and removes all listeners.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        spark.range(1).collect()


def already_running(queries: Queries, spark: SparkSession) -> None:
    """Report the queries that were started before the listener."""
    for query in spark.streams.active:
        queries.started(str(query.id), str(query.runId), query.name)
        for progress in query.recentProgress:
            take_in(queries, progress)
