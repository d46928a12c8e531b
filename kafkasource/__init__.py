"""Kafka for PySpark without jars: `spark.readStream.format("pykafka")`, `df.writeStream.format("pykafka")`.

Imports nothing heavy: Spark imports this in every Python worker.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkasource.kafka.process import is_of_spark
from kafkasource.metrics.lag import lag
from kafkasource.spark import logs
from kafkasource.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafkasource.sink.commit_report import SinkCommit
    from kafkasource.sink.open_transactions import OpenTransaction
    from kafkasource.tools.monitor.served import ServedMetrics

__all__ = ["SinkCommit", "__version__", "lag", "open_transactions", "register", "serve_metrics"]

if os.environ.get("KAFKASOURCE_LOG") or is_of_spark():
    logs.show()


_has_registered = False


def __getattr__(name: str) -> object:
    """Import a public class when a user first names it."""
    if name == "SinkCommit":
        from kafkasource.sink.commit_report import SinkCommit

        return SinkCommit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The API alone: no module that an import has left here."""
    return sorted({name for name in globals() if name.startswith("__")} | set(__all__))


def register(spark: SparkSession, name: str | None = None, options: Mapping[str, object] | None = None) -> None:
    """Make the format `pykafka` known to one Spark session, or the same format under another name, with options.

    With `name` and `options`: `CREATE TABLE orders USING orders` and `format("orders")` have these options, and a
    statement or a job may replace each. SQL tables need it, because Spark gives a table's own options to no Python data
    source. Secrets must be references such as `${env:NAME}`. Call it in each session before it uses the table.

    Without a name: you need it where the package is not installed in the Python that Spark starts: with `--py-files`,
    on Spark Connect, in a virtual environment that is not active. Elsewhere it does no harm. Runs on the driver.

    With a local master, Spark's workers then are this interpreter, unless PYSPARK_PYTHON is set. It changes no
    interpreter of a cluster, whose machines need not have it at this path, and none of Spark Connect, whose server
    starts the workers. `import kafkasource` changes none at all: it cannot know the master, and programs that this
    process starts would inherit the choice.

    Raises KafkaSourceError if the Python that PYSPARK_PYTHON names is not on this machine, or has no kafkasource;
    OptionError for a name without options, options without a name, and a secret that is not a reference.
    """
    from kafkasource.datasource import KafkaDataSource, of_session
    from kafkasource.options.connect import warn_of_explain_mode
    from kafkasource.spark import workers

    global _has_registered
    workers.prepare(spark)
    warn_of_explain_mode(spark.conf.get("spark.sql.ui.explainMode", None))
    source, is_first = of_session(spark, name, options), not _has_registered
    _has_registered = _has_registered or name is None
    if is_first and source is KafkaDataSource and workers.finds_by_name(spark, source.name()):
        return  # Spark would warn that it replaces the format. A second call registers again (decision 59).
    try:
        spark.dataSource.register(source)
    except Exception as error:
        # Spark 4.0 and 4.1 refuse a name that they have found themselves (`pyspark_pykafka`): there is nothing to do.
        if name is not None or "[DATA_SOURCE_ALREADY_EXISTS]" not in str(error):
            raise


def open_transactions(options: Mapping[str, str]) -> list[OpenTransaction]:
    """The open transactions of a query with `deliveryGuarantee=exactly_once`: the driver's first, then the tasks'.

    `options`: those of its sink; without `transactionalIdPrefix`, `checkpointLocation` must be among them. For
    monitors: their number, and `max(each.open_for_ms() or 0 for each in ...)`, the time that readers with
    read_committed have waited. It asks the brokers and changes nothing. You may call it anywhere, whether the query
    runs or not. A `commitListener` learns what happened in each batch.
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
    certificate: str | Path | None = None,
    key: str | Path | None = None,
) -> ServedMetrics:
    """Serve the session's metrics over HTTP: a page at `.url`, Prometheus' text at /metrics, JSON at /api/queries.

    - `port`: 0 takes any free port. `host`: 0.0.0.0 listens for other machines too.
    - `cluster_name`: the label of that name. `groups`: from a query's name or id to its label `group`; default: its
      name.
    - `sinks`: the options of sinks with exactly once, by a name; the server asks for their open transactions.
    - `allowed_hosts`: host names that requests may use, besides `localhost`, the server's addresses and, where it
      listens for other machines, the host's name.
    - `token`: requests must send it (`Authorization: Bearer ...`; open the page as `/#token=...`). Default: the
      environment's KAFKASOURCE_METRICS_TOKEN. Without a token, everybody who reaches the port can read.
    - `certificate`, `key`: PEM files, with which the server speaks TLS; the key may be in the certificate's file.
      Renewed files count from the next connection on. Default: the environment's KAFKASOURCE_METRICS_CERTIFICATE and
      KAFKASOURCE_METRICS_KEY.

    Close the returned object. Raises OSError if the port is taken or the folder for counters belongs to another user,
    OptionError for a certificate, a key or a token that cannot be used.
    """
    from kafkasource.tools.monitor.served import ServedMetrics
    from kafkasource.tools.web.serving import Listening

    at = Listening(host, port, allowed_hosts, token, certificate, key)
    return ServedMetrics(spark, at, cluster_name, groups, sinks)
