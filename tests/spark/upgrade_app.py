"""A Spark application that copies a topic exactly once with a limit, and stops after some micro-batches or at the end.

    python upgrade_app.py BOOTSTRAP SOURCE TARGET FOLDER FORMAT BATCHES [JAR,JAR] [SINK]

FORMAT: that of the source. SINK: `exactly_once`, `at_least_once`, or `kafka`, the JVM connector.
BATCHES: micro-batches with rows after which the query is stopped; 0: it reads everything.
The last line that it prints is JSON: the release of Spark, and the rows of each micro-batch.
"""

from __future__ import annotations

import json
import sys
import time

from exactly_once_app import session

from kafkasource import register

ROWS_PER_BATCH = 300


def main(
    bootstrap: str,
    source: str,
    target: str,
    folder: str,
    source_format: str,
    batches: str,
    jars: str = "",
    sink: str = "exactly_once",
) -> None:
    spark = session("local[2]", folder, jars)
    register(spark)
    rows = (
        spark.readStream.format(source_format)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(ROWS_PER_BATCH))
        .option("trigger", "processingTime")  # the JVM connector ignores it
        .load()
    )
    query = (
        rows.select("key", "value")
        .writeStream.format("kafka" if sink == "kafka" else "pykafka")
        .options(**({} if sink == "kafka" else {"deliveryGuarantee": sink}))
        .option("kafka.bootstrap.servers", bootstrap)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .option("topic", target)
        .start()
    )
    if int(batches):
        while query.isActive and len(rows_of_batches(query)) < int(batches):
            time.sleep(0.02)
    else:
        query.processAllAvailable()
    if query.exception() is not None:
        raise query.exception()
    query.stop()
    print(json.dumps({"release": spark.version, "rows_of_batches": rows_of_batches(query)}))
    spark.stop()


def rows_of_batches(query) -> list[int]:
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


if __name__ == "__main__":
    main(*sys.argv[1:])
