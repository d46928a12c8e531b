"""The metrics that a session serves: what `kafkasource.serve_metrics` returns."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kafkasource.metrics import folder
from kafkasource.metrics.counting import process_counts
from kafkasource.metrics.snapshot import Snapshot, added
from kafkasource.spark import workers
from kafkasource.tools.monitor.endpoint import MetricsServer
from kafkasource.tools.monitor.listener import ProgressListener, already_running, take_what_is_pending
from kafkasource.tools.monitor.local_dir import local_dir
from kafkasource.tools.monitor.open_sinks import OpenSinks
from kafkasource.tools.monitor.queries import Queries
from kafkasource.tools.web.serving import Listening

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("kafkasource.metrics")


class ServedMetrics:
    """The result of `serve_metrics`. Call `close`, or use it in a `with` block. It ends with the process, too."""

    def __init__(
        self,
        spark: SparkSession,
        at: Listening,
        cluster_name: str,
        groups: Mapping[str, str] | None,
        sinks: Mapping[str, Mapping[str, str]] | None,
    ) -> None:
        self._spark = spark
        workers.prepare(spark)
        self._queries = Queries(cluster_name, groups)
        self._sinks = OpenSinks({} if sinks is None else sinks)
        self.folder = _folder(spark)
        folder.use(self.folder)
        if self.folder is not None:
            folder.make(self.folder)
        self._server = MetricsServer(at, self.snapshot, self._queries)
        self._listener = ProgressListener(self._queries)
        take_what_is_pending(spark)
        spark.streams.addListener(self._listener)
        already_running(self._queries, spark)
        if workers.context_of(spark) is not None:
            # Spark prints a stack trace where it tells a listener of a query's end and finds no Python any more. Over
            # Connect there is no such trace, and a server that is gone would hold the process's end up.
            atexit.register(self.close)

    @property
    def url(self) -> str:
        """`http://127.0.0.1:port` (`https:` with a certificate), without a slash at its end."""
        return self._server.url

    @property
    def port(self) -> int:
        return self._server.port

    def snapshot(self) -> Snapshot:
        """All metrics now: of this host's processes, of tasks' reports from other hosts, and of the queries. For
        binders."""
        counted = None
        if self.folder is not None:
            process_counts().publish()
            try:
                counted = folder.collect(self.folder)
            except OSError as error:  # Spark has deleted the folder
                log.debug("%s: %s", self.folder, error)
        if counted is None:
            counted = process_counts().snapshot()
        return added([counted, self._queries.snapshot(), self._sinks.snapshot()])

    def queries(self) -> list[dict[str, object]]:
        """The answer of /api/queries."""
        return self._queries.as_json()

    def close(self) -> None:
        """Stop serving. Processes continue to publish to the folder, which Spark deletes at its end."""
        atexit.unregister(self.close)
        self._server.close()
        try:
            self._spark.streams.removeListener(self._listener)
        except Exception:  # Spark has ended
            log.debug("the listener could not be removed", exc_info=True)
        if folder.wanted() == self.folder:  # no other application's folder is served since
            folder.use(None)

    def __enter__(self) -> ServedMetrics:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _folder(spark: SparkSession) -> Path | None:
    """The folder to which this application's processes on this host publish. None: there is none, because Spark's
    driver is on another host.

    By default it is among Spark's own temporary files, which Spark deletes.
    """
    named = os.environ.get(folder.ENVIRONMENT)
    if named:
        return Path(named)
    local = local_dir(spark)
    return None if local is None else local / folder.IN_LOCAL_DIR
