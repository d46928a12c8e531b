"""Reads and writes of three contestants on one broker, interleaved: a warm-up of each, then min and median of n.

    pykafka      this connector, its defaults
    jvm          Spark's JVM connector 4.2.0 (on token-provider 4.0.0: its own version is not on Maven Central)
    ready-arrow  ready-made Arrow batches through a Python source or sink: the ceiling

Absolute times are of one machine on one day; the ratios are what to hold on to.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kafkasource.broker import Broker, jvm_connector_jars
from kafkasource.client.cluster import Cluster
from kafkasource.client.config import ClientConfig

PARTITIONS = 4
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Read:
    rows: int
    value_bytes: int
    codec: str = "none"

    @property
    def name(self) -> str:
        return f"read {self.rows:,} × {self.value_bytes} B {self.codec}"


@dataclass(frozen=True)
class Write:
    rows: int
    value_bytes: int

    @property
    def name(self) -> str:
        return f"write {self.rows:,} × {self.value_bytes} B"


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="a tenth of the rows, three runs each")
    arguments.add_argument("--runs", type=int, default=None, help="timed runs of each contestant")
    given = arguments.parse_args()
    scale, runs = (10, given.runs or 3) if given.quick else (1, given.runs or 5)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="kafkasource-bench-") as folder, Broker() as broker:
        spark = spark_session(folder)
        results = []
        for work in (
            Read(4_000_000 // scale, 100),
            Read(4_000_000 // scale, 100, "lz4"),
            Read(1_000_000 // scale, 1000),
        ):
            results.append(compare(work, reads(spark, broker.bootstrap_servers, work), runs))
        for work in (Write(1_000_000 // scale, 100),):
            results.append(compare(work, writes(spark, broker.bootstrap_servers, work), runs))
        spark.stop()
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / ("quick.json" if given.quick else "full.json")
    file.write_text(json.dumps(results, indent=1))
    print(f"written to {file}")
    return 0


def spark_session(folder: str):
    from pyspark.sql import SparkSession

    import kafkasource
    from benchmarks.ready_arrow import ReadyArrow

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("kafkasource benchmarks")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.jars", ",".join(map(str, jvm_connector_jars())))
        .config("spark.local.dir", folder)
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    kafkasource.register(spark)
    spark.dataSource.register(ReadyArrow)
    return spark


def frame_of(spark, rows: int, value_bytes: int):
    return spark.range(0, rows, 1, PARTITIONS).selectExpr(
        "lpad(CAST(id AS STRING), 7, '0') AS key", f"rpad(CAST(id AS STRING), {value_bytes}, 'x') AS value"
    )


def new_topic(bootstrap_servers: str) -> str:
    topic = f"bench-{time.time_ns()}"
    cluster = Cluster(ClientConfig.of(bootstrap_servers))
    cluster.create_topics([topic], partitions=PARTITIONS, replication_factor=1)
    cluster.close()
    return topic


def reads(spark, bootstrap_servers: str, work: Read) -> dict[str, Callable[[], None]]:
    topic = new_topic(bootstrap_servers)
    write(spark, "pykafka", bootstrap_servers, topic, work, **{"kafka.compression.type": work.codec})

    def read(name: str, **options: str) -> Callable[[], None]:
        frame = spark.read.format(name).options(**options).load()
        return lambda: frame.write.format("noop").mode("overwrite").save()

    kafka = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic}
    ready = {"rows": str(work.rows), "bytes": str(work.value_bytes), "partitions": str(PARTITIONS)}
    return {
        "pykafka": read("pykafka", **kafka),
        "jvm": read("kafka", **kafka),
        "ready-arrow": read("ready_arrow", **ready),
    }


def write(spark, name: str, bootstrap_servers: str, topic: str, work: Read | Write, **options: str) -> None:
    frame = frame_of(spark, work.rows, work.value_bytes)
    writer = frame.write.format(name).option("kafka.bootstrap.servers", bootstrap_servers).option("topic", topic)
    writer.options(**options).mode("append").save()


def writes(spark, bootstrap_servers: str, work: Write) -> dict[str, Callable[[], None]]:
    tuned = {"kafka.batch.size": "262144", "kafka.linger.ms": "20", "kafka.compression.type": "lz4"}

    def kafka(name: str, **options: str) -> Callable[[], None]:
        return lambda: write(spark, name, bootstrap_servers, new_topic(bootstrap_servers), work, **options)

    def ready() -> None:
        frame_of(spark, work.rows, work.value_bytes).write.format("ready_arrow").mode("append").save()

    return {
        "pykafka": kafka("pykafka"),
        "jvm": kafka("kafka"),
        "jvm-tuned": kafka("kafka", **tuned),
        "ready-arrow": ready,
    }


def compare(work: Read | Write, contestants: dict[str, Callable[[], None]], runs: int) -> dict[str, object]:
    """Time them in turns, so that whatever else the machine does falls on all of them alike."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(runs + 1):
        for name, run in contestants.items():
            started = time.perf_counter()
            run()
            if turn:  # the first is the warm-up
                seconds[name].append(time.perf_counter() - started)
    ours = min(seconds["pykafka"])
    print(work.name)
    for name, times in seconds.items():
        best = min(times)
        print(
            f"    {name:<12} min {best:6.2f} s  median {statistics.median(times):6.2f} s"
            f"  {work.rows / best / 1e6:6.2f} M rows/s  {best / ours:5.2f} × pykafka's time",
            flush=True,
        )
    return {"work": work.name, "rows": work.rows, "seconds": seconds}


if __name__ == "__main__":
    sys.exit(main())
