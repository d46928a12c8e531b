"""A job of `test_standalone_cluster.py`: batch write, batch read and a stream between two topics, on executors.

Arguments: bootstrap servers, the two topics, a folder for the checkpoint, `register`, `found` or `settings`.
The last line of stdout is JSON. With `settings` it is the session's settings.
"""

import json
import sys

from pyspark.sql import SparkSession

servers, source, target, checkpoint, how = sys.argv[1:]
spark = SparkSession.builder.appName("cluster job").getOrCreate()
if how == "register":
    import kafkasource

    kafkasource.register(spark)


def read(topic):
    reader = spark.read.format("pykafka").option("kafka.bootstrap.servers", servers)
    return reader.option("subscribe", topic).load().selectExpr("CAST(value AS STRING) AS value")


def kernel_of_executors(rows):
    from kafkasource.kafka import records

    for _ in rows:
        pass
    print(f"executor's Python is in {sys.prefix}", file=sys.stderr)
    yield f"{records.__file__.endswith('.zip/kafkasource/kafka/records/__init__.py')} {records.COMPILED}"


rows = spark.range(2000, numPartitions=2).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
rows.write.format("pykafka").option("kafka.bootstrap.servers", servers).option("topic", source).mode("append").save()
stream = spark.readStream.format("pykafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
writer = stream.option("startingOffsets", "earliest").load().writeStream.format("pykafka")
writer = writer.option("kafka.bootstrap.servers", servers).option("topic", target)
query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
values = [row.value for row in read(target).collect()]
ran = spark.sparkContext.parallelize(range(2), 2).mapPartitions(kernel_of_executors).collect()
found = {"rows": len(values), "distinct": len(set(values)), "kernel": ran}
print(json.dumps(dict(spark.sparkContext.getConf().getAll()) if how == "settings" else found))
