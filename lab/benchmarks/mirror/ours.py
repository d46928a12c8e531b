"""This connector's side, a process of its own: a streaming query that reads a topic once, for all clusters.

python -m lab.benchmarks.mirror.ours JSON    until SIGTERM, or until its standard input ends
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.benchmarks.lab import spark_conf
from lab.benchmarks.mirror.lab import SOURCE

LISTENER = "lab.benchmarks.mirror.ours:note_commit"
COMMITS = "KAFKASOURCE_MIRROR_COMMITS"  # the file that the listener appends to


def mirrored_name(topic: str) -> str:
    """At the targets: as MirrorMaker's default policy names it."""
    return f"{SOURCE}.{topic}"


def start(
    folder: Path,
    servers: Mapping[str, str],
    targets: Sequence[str],
    topic: str,
    options: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Its process; `folder`/spark.log is what it says, `folder`/commits the reports of what was written."""
    own = {name: servers[name] for name in targets}
    told = json.dumps([str(folder), servers[SOURCE], own, topic, dict(options or {}), dict(settings or {})])
    environment = {**os.environ, "TMPDIR": str(folder), COMMITS: str(folder / "commits")}
    with (folder / "spark.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "lab.benchmarks.mirror.ours", told],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
        )


def note_commit(commit: Any) -> None:
    """Runs where Spark commits a micro-batch: what each cluster acknowledged and discarded, a line of JSON each."""
    told = {
        "batch": commit.batch_id,
        "cluster": commit.cluster,
        "written": sum(one.records for one in commit.written.values()),
        "discarded": sum(one.records for one in commit.discarded.values()),
    }
    with open(os.environ[COMMITS], "a") as file:
        file.write(json.dumps(told) + "\n")


def commits(folder: Path) -> list[dict[str, Any]]:
    file = folder / "commits"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def main() -> None:
    from pyspark.sql import SparkSession

    import kafkasource

    folder, source, servers, topic, options, settings = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    builder = SparkSession.builder.master("local[2]").appName("kafkasource mirror")
    own = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.local.dir": f"{folder}/local",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    for name, value in {**spark_conf(), **own, **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    kafkasource.register(spark)
    read = {"kafka.bootstrap.servers": source, "subscribe": topic, "startingOffsets": "earliest"}
    rows = spark.readStream.format("pykafka").options(includeHeaders="true", **read).load()
    clusters = {
        name: {"kafka.bootstrap.servers": each, "topic": f"{SOURCE}.${{topic}}"} for name, each in servers.items()
    }
    written = {"clusters": json.dumps(clusters), "commitListener": LISTENER, **options}
    headers = "coalesce(headers, cast(array() as array<struct<key:string,value:binary>>)) as headers"  # as the mirror
    kept = rows.selectExpr("key", "value", headers, "topic", "partition", "timestamp")
    query = (
        kept.writeStream.format("pykafka").options(**written).option("checkpointLocation", f"{folder}/check").start()
    )
    threading.Thread(target=lambda: (sys.stdin.read(), query.stop()), daemon=True).start()
    try:
        query.awaitTermination()  # raises what made it fail
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
