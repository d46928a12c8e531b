"""A Spark application that copies a topic by several queries, and starts a query again when it fails.

    python exactly_once_app.py BOOTSTRAP SOURCE FOLDER MASTER '{"topic": "out", ... options of the sink}' ...

Prints what queries died of, and why one did not start. Ends when it is killed. Each start of a query spells its
checkpoint otherwise than the one before; FOLDER/starts tells how, a line of JSON for each start.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from kafkasource import register

SPELLINGS = ("", "file:", "", "file://")  # what stands before the path


def session(master: str, folder: str, jars: str = "") -> SparkSession:
    """A session whose files, also after a kill, stay in the folder."""
    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .config("spark.local.dir", f"{folder}/local")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.executor.memory", "512m")
        .config("spark.log.level", "OFF")
    )
    return (builder.config("spark.jars", jars) if jars else builder).getOrCreate()


def copied(
    spark: SparkSession, bootstrap: str, source: str, checkpoint: str, options: dict[str, str]
) -> StreamingQuery:
    """Micro-batches of at most 100 rows of each input partition; a task for each of these.

    Registered for each query: queries that share a registration share a HashMap of Spark's (the Python function's
    environment), which PythonStreamingSourceRunner of Spark 4.2 and 4.3 changes in each query's thread. Seen once in
    some 150 starts: broken for good, so that every task of both queries failed with OptionalDataException.
    """
    register(spark)
    rows = (
        spark.readStream.format("pykafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("minRecordsPerPartition", "1")
        .option("maxOffsetsPerTrigger", "400")
        .option("trigger", "processingTime")
        .load()
    )
    return (
        rows.select("key", "value")
        .writeStream.format("pykafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("checkpointLocation", checkpoint)
        .options(**options)
        .trigger(processingTime="50 milliseconds")
        .start()
    )


def spelled(folder: str, topic: str) -> str:
    """The same folder under another name at every second start, whichever process starts it."""
    starts = Path(folder, "starts")
    before = [json.loads(line) for line in starts.read_text().splitlines()] if starts.exists() else []
    count = sum(start["topic"] == topic for start in before)
    location = f"{SPELLINGS[count % len(SPELLINGS)]}{folder}/checkpoints/{topic}"
    with starts.open("a") as file:
        file.write(json.dumps({"topic": topic, "checkpoint": location}) + "\n")
    return location


def main(bootstrap: str, source: str, folder: str, master: str, *sinks: str) -> None:
    spark = session(master, folder)
    queries: dict[str, StreamingQuery] = {}
    while True:
        for sink in sinks:
            query = queries.get(sink)
            if query is not None and not query.isActive:
                print("died:", str(query.exception())[:400].splitlines()[:2], flush=True)
            if query is None or not query.isActive:
                options = json.loads(sink)
                checkpoint = spelled(folder, options["topic"])
                try:
                    queries[sink] = copied(spark, bootstrap, source, checkpoint, options)
                except (
                    PySparkException,
                    Py4JJavaError,
                ) as error:  # the process was killed, or late, in which Spark plans
                    print("did not start:", str(error)[:400].splitlines()[:2], flush=True)
        time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
