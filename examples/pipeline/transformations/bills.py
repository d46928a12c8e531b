"""A streaming table from a topic, and a sink that writes what comes of it to another, exactly once."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
kafka = {"kafka.bootstrap.servers": os.environ["KAFKA"]}


@dp.table
def orders() -> DataFrame:
    stream = spark.readStream.format("pykafka").options(**kafka, subscribe="orders", startingOffsets="earliest")
    stream = stream.options(keyFormat="string", valueFormat="json", readerSchema="item STRING, amount INT")
    return stream.load().select("key", "value.*", "timestamp")


dp.create_sink("bills", "pykafka", {**kafka, "topic": "bills", "deliveryGuarantee": "exactly_once"})


@dp.append_flow(target="bills")
def priced_orders() -> DataFrame:
    return spark.readStream.table("orders").selectExpr("key", "to_json(struct(item, amount * 7 AS total)) AS value")
