"""A Spark application that writes, reads and fans out under small budgets, then reads with what Spark allows a worker.

    KAFKASOURCE_MEMORY_LOG=FOLDER python memory_app.py '{"servers": ..., "folder": ..., "topics": [three], "rows": ...}'

Prints, as its last line, how many rows each phase saw, and when it ended.
"""

import json
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import kafkasource


def main(told):
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.local.dir", told["folder"])
        .config("spark.executor.cores", "2")
        .config("spark.executor.pyspark.memory", "6g")
        .getOrCreate()
    )
    kafkasource.register(spark)
    servers, (first, *copies) = {"kafka.bootstrap.servers": told["servers"]}, told["topics"]
    found = {}

    def read(topic, **options):
        return spark.read.format("pykafka").options(subscribe=topic, **servers, **options).load()

    def write(frame, **options):
        frame.write.format("pykafka").options(**options).mode("append").save()

    def phase(name, rows):
        found[name] = {"rows": rows, "ended": time.time()}

    made = spark.range(told["rows"]).select(f.lpad(f.col("id").cast("string"), 100, "0").alias("value"))
    write(made, topic=first, createTopic="partitions=3", memoryBudget="8m", **servers)
    phase("write", told["rows"])
    phase("read", read(first, memoryBudget="8m").select("value").distinct().count())
    clusters = {
        name: {**servers, "topic": copy, "createTopic": "partitions=3"}
        for name, copy in zip(("east", "west"), copies, strict=True)
    }
    write(read(first, memoryBudget="8m").select("value"), clusters=json.dumps(clusters), memoryBudget="8m")
    phase("fan-out", min(read(copy, memoryBudget="8m").select("value").distinct().count() for copy in copies))
    phase("unnamed", read(first).select("value").distinct().count())
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
