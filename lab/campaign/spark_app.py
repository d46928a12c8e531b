"""The Spark application of a campaign: every query side by side, each started again when it dies.

    python -m lab.campaign.spark_app BOOTSTRAP STEM FOLDER MASTER

Prints what queries died of. Ends when it is killed; at SIGTERM it stops its queries and Spark.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kafkasource import register
from kafkasource.mirror import job, toml_file
from lab.campaign.ending import end_with_starter, on_sigterm_unwind
from lab.campaign.queries import FAN, GROUP_OF, OWNER, SINKS, Names

EXECUTOR_JAVA = "CAMPAIGN_EXECUTOR_JAVA"  # options of an executor's JVM
CONNECTION = {
    "kafka.request.timeout.ms": "8000",  # so long does an answer that never comes hold up a query
    "kafka.default.api.timeout.ms": "60000",
}

MIRROR = """
checkpoint = "{folder}/checkpoints"
exactly_once = true
trigger = "200 milliseconds"
refresh_topics = "2s"
[read]
"kafka.client.id" = "campaign"
maxOffsetsPerTrigger = "2000"
[write]
transactionalIdPrefix = "mirror-{stem}"
[clusters.east]
"kafka.bootstrap.servers" = "{servers}"
"kafka.request.timeout.ms" = "8000"
[clusters.west]
"kafka.bootstrap.servers" = "{servers}"
"kafka.request.timeout.ms" = "8000"
"kafka.client.id" = "campaign"
[[flows]]
from = "east"
to = ["west"]
topics = ["{source}"]
topic = "${{source}}.${{topic}}"
"""


def session(folder: str, master: str) -> SparkSession:
    builder: Any = SparkSession.builder
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": f"{folder}/local",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.streaming.minBatchesToRetain": "1000000",  # the campaign reads which offsets were in each
        "spark.log.level": "OFF",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": os.environ[EXECUTOR_JAVA],
        "spark.deploy.maxExecutorRetries": "-1",  # executors are killed more often than an application may lose them
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    found: SparkSession = builder.master(master).getOrCreate()
    return found


def _clusters(query: str) -> list[str]:
    """The options that name the brokers to write to."""
    name = "kafka.bootstrap.servers"
    return [f"clusters.{cluster}.{name}" for cluster in ("east", "west")] if query == FAN else [name]


def copied(spark: SparkSession, servers: str, names: Names, query: str, folder: str) -> Any:
    """A registration for each query: see tests/spark/exactly_once_app.py."""
    register(spark)
    reader = spark.readStream.format("pykafka").options(**CONNECTION)
    if query in GROUP_OF:
        reader = reader.option("kafka.group.id", names.group(query))
    if query == OWNER:
        reader = reader.option("groupOwnership", "exclusive")
    if query == "atomic":
        reader = reader.option("maxPartitions", "1")  # only one task may write to a partition
    else:
        reader = reader.option("minRecordsPerPartition", "1")
    rows = (
        reader.option("kafka.bootstrap.servers", servers)
        .option("kafka.client.id", "campaign")
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", names.source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", "1000")
        .option("trigger", "processingTime")
        .load()
    )
    return (
        rows.select("key", "value", "headers")
        .writeStream.format("pykafka")
        .options(**CONNECTION)
        .options(**dict.fromkeys(_clusters(query), servers))
        .option("kafka.client.id", "campaign")
        .option("topic", names.target(query))
        .option("checkpointLocation", f"{folder}/checkpoints/{query}")
        .options(**SINKS[query])
        .trigger(processingTime="200 milliseconds")
        .start()
    )


class _Restarted:
    """Something with queries, started again when one of them has died."""

    def __init__(self, name: str, start: Callable[[], Any]) -> None:
        self._name, self._start = name, start
        self._running: Any = None

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()

    def look(self) -> None:
        try:
            if self._running is None:
                self._running = self._start()
            for query in getattr(self._running, "queries", [self._running]):
                if not query.isActive:
                    self._say("died", query.exception())
                    if query is not self._running:
                        self._running.stop()
                    self._running = None
        except Exception as error:  # the process was killed, or late, in which Spark plans; brokers were away
            self._say("did not start", error)

    def _say(self, what: str, error: object) -> None:
        print(time.strftime("%H:%M:%S"), self._name, what, str(error)[:3000], flush=True)


def main(servers: str, stem: str, folder: str, master: str) -> None:
    end_with_starter()
    on_sigterm_unwind()
    spark, names = session(folder, master), Names(stem)
    Path(folder, "checkpoints").mkdir(exist_ok=True)
    text = MIRROR.format(folder=folder, stem=stem, servers=servers, source=names.source)
    plan = toml_file.parse(text, "the campaign")
    # One cluster stands for two, which a mirror refuses where it knows their ids.
    job.cluster_ids = lambda routes: {}  # type: ignore[attr-defined]
    running = [
        _Restarted(query, lambda query=query: copied(spark, servers, names, query, folder))  # type: ignore[misc]
        for query in SINKS
    ]
    running.append(_Restarted("mirror", lambda: job.start(plan, spark)))
    try:
        while True:
            for each in running:
                each.look()
            time.sleep(0.2)
    finally:
        for each in running:
            with suppress(Exception):  # it had failed by itself
                each.stop()
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
