"""Writes 1000 rows twice from two executors (local-cluster), whose workers see nothing of the driver's folder."""

import json
import sys

from pyspark.sql import SparkSession

import kafkasource
from kafkasource.testing.broker import Broker

folder = sys.argv[1]
spark = (
    SparkSession.builder.master("local-cluster[2,1,1024]")
    .config("spark.ui.enabled", "false")
    .config("spark.local.dir", folder)
    .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
    .getOrCreate()
)
with Broker() as broker, kafkasource.serve_metrics(spark) as served:
    kafkasource.register(spark)
    written = []
    for _ in range(2):
        rows = spark.range(0, 1000, 1, 4).selectExpr("cast(cast(id as string) as binary) value")
        (
            rows.write.format("pykafka")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("topic", "t")
            .option("createTopic", "partitions=2")
            .mode("append")
            .save()
        )
        found = served.snapshot().counters
        written.append(sum(n for (name, _), n in found.items() if name == "kafkasource_records_written_total"))
    processes = len(list(served.folder.glob("*.report")))
spark.stop()
print(json.dumps({"written": written, "processes": processes}))
