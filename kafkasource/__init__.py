"""Kafka for PySpark without jars: `spark.readStream.format("pykafka")`, `df.writeStream.format("pykafka")`.

Imports nothing heavy: Spark imports this in every Python worker.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkasource.metrics.lag import lag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from kafkasource.monitor import ServedMetrics
    from kafkasource.sink.commit_report import SinkCommit
    from kafkasource.sink.open_transactions import OpenTransaction

__version__ = "0.1.0"
__all__ = ["SinkCommit", "__version__", "lag", "open_transactions", "register", "serve_metrics"]

if os.environ.get("KAFKASOURCE_LOG"):
    from kafkasource import logs

    logs.show(os.environ["KAFKASOURCE_LOG"])


def __getattr__(name: str) -> object:
    """What users name, of modules that are not imported before they do."""
    if name == "SinkCommit":
        from kafkasource.sink.commit_report import SinkCommit

        return SinkCommit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register(spark: SparkSession) -> None:
    """Make the format `pykafka` known to one Spark session.

    Needed where the package is not installed in the Python that Spark starts by itself: with `--py-files`, on Spark
    Connect, in a virtual environment that is not active. Elsewhere it does no harm. Runs on the driver.
    """
    from kafkasource.datasource import KafkaDataSource

    spark.dataSource.register(KafkaDataSource)


def open_transactions(options: Mapping[str, str]) -> list[OpenTransaction]:
    """What a query with `deliveryGuarantee=exactly_once` has open in Kafka now, the driver's first, then the tasks'.

    `options`: its sink's, `checkpointLocation` among them where there is no `transactionalIdPrefix`. For monitors: how
    many there are, and `max(each.open_for_ms() or 0 for each in ...)`, how long readers at read_committed have waited.
    Asks the brokers, changes nothing; anywhere, whether the query runs or not. What it did batch by batch a
    `commitListener` is told.
    """
    from kafkasource.sink.open_transactions import of_sink

    return of_sink(options)


def serve_metrics(
    spark: SparkSession,
    port: int = 0,
    host: str = "127.0.0.1",
    *,
    cluster_name: str = "kafka",
    groups: Mapping[str, str] | None = None,
    sinks: Mapping[str, Mapping[str, str]] | None = None,
    allowed_hosts: Iterable[str] = (),
    token: str | None = None,
) -> ServedMetrics:
    """Serve the session's metrics over HTTP: a page at `.url`, Prometheus' text at /metrics, JSON at /api/queries.

    `port` 0: any that is free. `host` 0.0.0.0: for other machines too. `cluster_name` is the label of that name;
    `groups`: from a query's name or id to the label `group`, by default its name; `sinks`: a name for each sink with
    exactly once and its options, whose open transactions are to be asked for. `allowed_hosts`: names that requests may
    call this server by, beside `localhost`, its addresses and, where it listens for other machines, its host's name.
    `token`: what a request must send (`Authorization: Bearer ...`, the page is opened as `/#token=...`); else the
    environment's KAFKASOURCE_METRICS_TOKEN; without one all who reach the port can read. Close what it returns.
    Raises OSError where the port is taken or the folder for counters is another user's, ValueError for a bad token.
    """
    from kafkasource.monitor import ServedMetrics

    return ServedMetrics(spark, port, host, cluster_name, groups, sinks, allowed_hosts, token)
