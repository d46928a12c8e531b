"""Spark's progress into `queries`: a listener in the user's process, over Connect too."""

from __future__ import annotations

import json
import logging
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from kafkasource.monitor.queries import Queries

log = logging.getLogger("kafkasource.metrics")

_ERROR_CHARS = 2000  # of a query's, which has all stack traces of the JVM behind what matters


class ProgressListener(StreamingQueryListener):
    """Spark calls it on a thread of its own. Raises nothing: Spark would only log it."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def onQueryStarted(self, event: Any) -> None:
        self._queries.started(str(event.id), str(event.runId), event.name)

    def onQueryProgress(self, event: Any) -> None:
        take_in(self._queries, event.progress)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing new: Spark tells of progress every ten seconds all the same."""

    def onQueryTerminated(self, event: Any) -> None:
        error = event.exception
        self._queries.ended(str(event.id), None if error is None else error[:_ERROR_CHARS])


def take_in(queries: Queries, progress: Any) -> None:
    """One progress as pyspark has it: an object with Spark's JSON, or that JSON as a dict."""
    try:
        queries.progressed(json.loads(progress.json) if hasattr(progress, "json") else progress)
    except Exception:
        log.warning("cannot read a query's progress", exc_info=True)


def take_what_is_pending(spark: Any) -> None:
    """Over Connect: what Python workers left to be told goes with the next execution's answers. Where that is the one
    which events of queries come by, pyspark 4.2 does not know it, warns, and removes all listeners."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        spark.range(1).collect()


def already_running(queries: Queries, spark: Any) -> None:
    """Queries that were started before the listener."""
    for query in spark.streams.active:
        queries.started(str(query.id), str(query.runId), query.name)
        for progress in query.recentProgress:
            take_in(queries, progress)
