"""Counts words in a Kafka topic, like Spark's own example of this name, with the same arguments.

    spark-submit examples/structured_kafka_wordcount.py <bootstrap-servers> <subscribe-type> <topics> [<checkpoint>]

<subscribe-type> is assign, subscribe or subscribePattern. Runs until stopped; with EXAMPLE_ONCE=1 reads what is there.
"""

import os
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql.functions import explode, split

if len(sys.argv) < 4:
    sys.exit(__doc__)
bootstrap_servers, subscribe_type, topics = sys.argv[1:4]
checkpoint = sys.argv[4] if len(sys.argv) > 4 else tempfile.mkdtemp(prefix="wordcount-")

spark = SparkSession.builder.appName("StructuredKafkaWordCount").getOrCreate()
lines = (
    spark.readStream.format("pykafka")
    .option("kafka.bootstrap.servers", bootstrap_servers)
    .option(subscribe_type, topics)
    .option("startingOffsets", "earliest")
    .load()
    .selectExpr("CAST(value AS STRING) AS line")
)
counts = lines.select(explode(split(lines.line, " ")).alias("word")).groupBy("word").count()
query = counts.writeStream.outputMode("complete").format("console").option("checkpointLocation", checkpoint)
if os.environ.get("EXAMPLE_ONCE"):
    query = query.trigger(availableNow=True)
query.start().awaitTermination()
