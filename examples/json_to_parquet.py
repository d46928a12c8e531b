"""Reads JSON records {"id": 1, "name": "a", "amount": 2.5} from a topic and appends them to parquet files.

    spark-submit examples/json_to_parquet.py <bootstrap-servers> <topic> <output-folder>

Each run reads what came since the last one (the checkpoint is kept beside the output) and ends: fit for a scheduler.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json

if len(sys.argv) != 4:
    sys.exit(__doc__)
bootstrap_servers, topic, output = sys.argv[1:]

spark = SparkSession.builder.appName("JsonToParquet").getOrCreate()
records = (
    spark.readStream.format("pykafka")
    .option("kafka.bootstrap.servers", bootstrap_servers)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .load()
)
rows = records.select(
    from_json(col("value").cast("string"), "id BIGINT, name STRING, amount DOUBLE").alias("row"), "timestamp"
).select("row.*", "timestamp")
query = (
    rows.writeStream.format("parquet")
    .option("path", f"{output}/data")
    .option("checkpointLocation", f"{output}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
print(f"{spark.read.parquet(f'{output}/data').count()} rows in {output}/data")
