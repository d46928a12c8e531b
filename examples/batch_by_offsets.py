"""Reads an exact range of offsets of one partition as a batch.

spark-submit examples/batch_by_offsets.py <bootstrap-servers> <topic> <partition> <start-offset> <end-offset>

The start is inclusive, the end exclusive; -2 means earliest (start only), -1 latest (end only).
"""

import json
import sys

from pyspark.sql import SparkSession

if len(sys.argv) != 6:
    sys.exit(__doc__)
bootstrap_servers, topic, partition, start_offset, end_offset = sys.argv[1:]

spark = SparkSession.builder.appName("BatchByOffsets").getOrCreate()
records = (
    spark.read.format("pykafka")
    .option("kafka.bootstrap.servers", bootstrap_servers)
    .option("assign", json.dumps({topic: [int(partition)]}))
    .option("startingOffsets", json.dumps({topic: {partition: int(start_offset)}}))
    .option("endingOffsets", json.dumps({topic: {partition: int(end_offset)}}))
    .load()
)
records.selectExpr("partition", "offset", "timestamp", "CAST(key AS STRING)", "CAST(value AS STRING)").show(20, False)
print(f"{records.count()} records")
