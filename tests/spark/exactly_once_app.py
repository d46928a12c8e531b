"""A Spark application that copies a topic exactly once and starts its query again whenever that dies.

    python exactly_once_app.py BOOTSTRAP SOURCE SINK CHECKPOINT MASTER [option=value ...]

Prints what the query died of. Ends when it is killed.
"""

from __future__ import annotations

import sys
import time

from pyspark.sql import SparkSession

from kafkasource import register


def main(bootstrap: str, source: str, sink: str, checkpoint: str, master: str, *options: str) -> None:
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.executor.memory", "512m")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    print("started", flush=True)
    while True:
        rows = (
            spark.readStream.format("pykafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("minRecordsPerPartition", "1")
            .option("maxOffsetsPerTrigger", "400")
            .load()
        )
        query = (
            rows.select("key", "value")
            .writeStream.format("pykafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", sink)
            .option("checkpointLocation", checkpoint)
            .option("deliveryGuarantee", "exactly_once")
            .options(**dict(option.split("=", 1) for option in options))
            .trigger(processingTime="50 milliseconds")
            .start()
        )
        try:
            query.awaitTermination()
        except Exception as error:
            print("died:", str(error)[:300].splitlines()[:1], flush=True)
            time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
