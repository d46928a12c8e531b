"""`pykafka demo`: the main job on a real Kafka, from nothing to a checked result, every step with its time.

A batch write puts JSON events into one topic. A streaming query reads and aggregates them, and writes running totals to
a second topic. At the end the demo reads the totals back and compares them with the events that it wrote. Its exit code
is 0 only if they agree.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.metrics.lag import lag as query_lag
from kafkasource.spark.launcher import start_spark
from kafkasource.testing.broker import Broker, kafka_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

EVENTS = 400_000
EVENTS_PER_BATCH = 80_000
PARTITIONS = 4
KINDS = ("view", "cart", "order", "pay", "return")
EVENT_SCHEMA = "id BIGINT, kind STRING, amount BIGINT"
TOTAL_SCHEMA = "kind STRING, events BIGINT, amount BIGINT"
_RULE = "─" * 72


def main() -> int:
    """Run the whole demo. Returns the exit code."""
    started = time.monotonic()
    with contextlib.ExitStack() as resources:
        folder = resources.enter_context(
            tempfile.TemporaryDirectory(prefix="kafkasource-demo-", ignore_cleanup_errors=True)
        )
        broker = Broker()
        if not broker.existing:
            kafka_jars(broker.version)  # not in the thread below: Ctrl-C ends the download here
        resources.callback(broker.stop)
        with _step("start Apache Kafka and Spark"), ThreadPoolExecutor(1) as aside:
            kafka = aside.submit(broker.start)
            with ctrl_c_waits():
                spark = _spark(folder)
                resources.callback(_stop, spark)
            kafka.result()
        print(f"    {broker.bootstrap_servers}")
        agreed = _main_job(spark, broker.bootstrap_servers, folder)
        print(_RULE)
        print(f"{'OK' if agreed else 'FAILED'} in {time.monotonic() - started:.1f} s")
    if agreed:
        print(next_steps(_pykafka()))
    return 0 if agreed else 1


def _pykafka() -> str:
    """The command as this person can type it: an environment that is not active is not on PATH."""
    own = os.path.join(os.path.dirname(sys.executable), "pykafka")
    on_path = shutil.which("pykafka")
    return (
        "pykafka"
        if on_path is not None and os.path.realpath(on_path) == os.path.realpath(own)
        else os.path.relpath(own)
    )


def next_steps(pykafka: str) -> str:
    lines = (
        (f"{pykafka} broker start", "a Kafka that stays, at 127.0.0.1:9092 where that port is free"),
        (f"seq 1000 | {pykafka} write numbers --create", "lines become records"),
        (f"{pykafka} read numbers -n 3 --json", "or --follow"),
        (f"{pykafka} ui", "a page with topics, records and groups: http://127.0.0.1:9405"),
        (f"{pykafka} broker stop", "and its data are gone"),
    )
    width = max(len(line) for line, _ in lines)
    shown = "\n".join(f"    {line:<{width}}  # {what}" for line, what in lines)
    return f"This Kafka is gone now. What to try next (README.md has jobs to copy):\n{shown}"


def _main_job(spark: SparkSession, bootstrap_servers: str, folder: str) -> bool:
    # Each run has its own topics, so a second run on the same cluster counts only its own events.
    run = f"{os.getpid()}-{int(time.time())}"
    events_topic, totals_topic = f"demo-events-{run}", f"demo-totals-{run}"
    options = {"kafka.bootstrap.servers": bootstrap_servers}
    with Cluster(ClientConfig.of(bootstrap_servers, client_id="kafkasource-demo")) as cluster:
        try:
            with _step(f"create the topics {events_topic} and {totals_topic}"):
                cluster.topics.create([events_topic, totals_topic], partitions=PARTITIONS, replication_factor=1)
            with _step(f"df.write.format('pykafka'): {EVENTS:,} JSON events"):
                _write_events(spark, {**options, "topic": events_topic})
            print("readStream → groupBy → writeStream, both format('pykafka'):")
            with _step("the streaming query"):
                _live_table(_start_query(spark, options, events_topic, totals_topic, folder))
            with _step("read back and compare"):
                written = _totals_of_events(spark)
                read = _totals_of_topic(spark, {**options, "subscribe": totals_topic})
                kept = spark.read.format("pykafka").options(**options, subscribe=events_topic).load().count()
            return _report(written, read, kept)
        finally:
            with contextlib.suppress(Exception):  # the cluster may be gone; an earlier error must not be hidden
                cluster.topics.delete([events_topic, totals_topic])


@contextlib.contextmanager
def _step(what: str) -> Iterator[None]:
    print(f"{what} ...", flush=True)
    started = time.monotonic()
    yield
    print(f"    done in {time.monotonic() - started:.1f} s", flush=True)


@contextlib.contextmanager
def ctrl_c_waits() -> Iterator[None]:
    """Within this block Ctrl-C takes effect at the end of the block. An interrupted launcher of pyspark removes the
    file through which its JVM reports back. The JVM then fails before it watches for the end of its parent, and runs
    for ever (pyspark 4.2.0)."""
    interrupted = False

    def wait(*_: object) -> None:
        nonlocal interrupted
        interrupted = True
        print("    interrupted: the demo ends as soon as Spark has started", flush=True)

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # replaces Spark's, which calls py4j within py4j
    if interrupted:
        raise KeyboardInterrupt


def _spark(folder: str) -> SparkSession:
    # Workers must run this interpreter. Spark would take python3 from PATH, but a virtual environment may be inactive.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": f"{folder}/spark",
    }
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # else Ctrl-C prints the traces of the call that it interrupts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start_spark("kafkasource demo", "local[2]", folder, settings)
        return SparkSession.builder.getOrCreate()


def _stop(spark: SparkSession) -> None:
    with contextlib.suppress(Exception):  # Ctrl-C may have interrupted a call to the JVM
        spark.stop()


def _events(spark: SparkSession) -> DataFrame:
    """The same events in each run: kind and amount follow from the id."""
    kinds = ", ".join(f"'{kind}'" for kind in KINDS)
    return spark.range(EVENTS).selectExpr(
        "id", f"element_at(array({kinds}), CAST(id % {len(KINDS)} AS INT) + 1) AS kind", "id * 7 % 1000 AS amount"
    )


def _write_events(spark: SparkSession, options: dict[str, str]) -> None:
    records = _events(spark).selectExpr("CAST(id AS STRING) AS key", "to_json(struct(id, kind, amount)) AS value")
    records.write.format("pykafka").options(**options).mode("append").save()


def _start_query(spark: SparkSession, options: dict[str, str], source: str, target: str, folder: str) -> StreamingQuery:
    from pyspark.sql.functions import col, count, from_json
    from pyspark.sql.functions import sum as total

    how = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": EVENTS_PER_BATCH, "trigger": "availableNow"}
    records = spark.readStream.format("pykafka").options(**options, **how, subscribe=source).load()
    events = records.select(from_json(col("value").cast("string"), EVENT_SCHEMA).alias("event")).select("event.*")
    totals = events.groupBy("kind").agg(count("*").alias("events"), total("amount").alias("amount"))
    return (
        totals.selectExpr("kind AS key", "to_json(struct(kind, events, amount)) AS value")
        .writeStream.format("pykafka")
        .options(**options, topic=target, checkpointLocation=f"{folder}/checkpoint")
        .outputMode("complete")  # Spark refuses `update` to Python sinks
        .trigger(availableNow=True)
        .start()
    )


def _live_table(query: StreamingQuery) -> None:
    """Print a line when a micro-batch ends. Lag is the number of offsets that the query has not read yet."""
    print(f"    {'batch':>5} {'rows':>10} {'rows/s':>10} {'lag':>10} {'ms':>7}")
    shown = -1
    running = True
    while running:
        running = not query.awaitTermination(1)
        for progress in query.recentProgress:
            batch, rows = progress["batchId"], progress["numInputRows"]
            if batch > shown and rows:
                shown, ms = batch, progress["durationMs"]["triggerExecution"]
                lag = sum(query_lag(progress).values())
                print(f"    {batch:>5} {rows:>10,} {rows * 1000 // max(ms, 1):>10,} {lag:>10,} {ms:>7,}", flush=True)


Totals = dict[str, tuple[int, int]]  # kind → (events, amount)


def _totals_of_events(spark: SparkSession) -> Totals:
    rows = _events(spark).groupBy("kind").agg({"id": "count", "amount": "sum"}).collect()
    return {row["kind"]: (row["count(id)"], row["sum(amount)"]) for row in rows}


def _totals_of_topic(spark: SparkSession, options: dict[str, str]) -> Totals:
    """The last total of each kind. Each micro-batch writes all totals again."""
    from pyspark.sql.functions import col, from_json, max_by

    records = spark.read.format("pykafka").options(**options).load()
    last = records.groupBy("key").agg(max_by("value", "offset").alias("value"))
    rows = last.select(from_json(col("value").cast("string"), TOTAL_SCHEMA).alias("total")).select("total.*").collect()
    return {row["kind"]: (row["events"], row["amount"]) for row in rows}


def _report(written: Totals, read: Totals, kept: int) -> bool:
    print(_RULE)
    print(f"{'kind':<10} {'written':>12} {'came out':>12} {'amount written':>16} {'amount out':>16}")
    for kind in KINDS:
        (events, amount), (events_out, amount_out) = written[kind], read.get(kind, (0, 0))
        print(f"{kind:<10} {events:>12,} {events_out:>12,} {amount:>16,} {amount_out:>16,}")
    print(f"{'all':<10} {EVENTS:>12,} {sum(n for n, _ in read.values()):>12,}    (in the first topic: {kept:,})")
    return written == read and kept == EVENTS
