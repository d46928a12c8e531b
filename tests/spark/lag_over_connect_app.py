"""A limited stream over Spark Connect, and the result of `kafkasource.lag` for each micro-batch.

    python lag_over_connect_app.py BOOTSTRAP SOURCE FOLDER

The last line that it prints is JSON: the release of Spark, rows and lag of each micro-batch, and the lag of the query.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import kafkasource


def main(bootstrap: str, source: str, folder: str) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    kafkasource.register(spark)
    query = (
        spark.readStream.format("pykafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "200")
        .option("trigger", "processingTime")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .start()
    )
    query.processAllAvailable()
    batches = [
        [progress["sources"][0]["numInputRows"], sum(kafkasource.lag(progress).values())]
        for progress in query.recentProgress
        if progress["sources"][0]["numInputRows"]  # over Connect the progress has no sum of them
    ]
    of_query = {str(tp): offsets for tp, offsets in kafkasource.lag(query).items()}
    query.stop()
    session = type(spark).__module__
    print(json.dumps({"release": spark.version, "session": session, "batches": batches, "of_query": of_query}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
