"""What Spark lets a sink know, on which exactly once rests: a batch write is all or nothing, speculation is refused."""

import uuid

import pytest
from pyspark.sql.functions import col, raise_error, when

pytestmark = pytest.mark.spark


def options(broker, topic, **more):
    return {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "topic": topic,
        "deliveryGuarantee": "exactly_once",
        "transactionalIdPrefix": f"p-{uuid.uuid4().hex[:10]}",
    } | more


def committed(spark, broker, topic):
    read = spark.read.format("pykafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    rows = read.option("subscribe", topic).option("kafka.isolation.level", "read_committed").load()
    return sorted(row.value.decode() for row in rows.select("value").collect())


def test_a_batch_write_is_seen_whole_or_not_at_all(spark, kafka_broker, kafka_topic):
    topic = kafka_topic(partitions=3)
    kafka = options(kafka_broker, topic)
    rows = spark.range(100, numPartitions=4).select(col("id").cast("string").alias("value"))
    one_fails = rows.withColumn(
        "value", when(col("value") == "99", raise_error("not this one")).otherwise(col("value"))
    )
    with pytest.raises(Exception, match="not this one"):
        one_fails.write.format("pykafka").options(**kafka).mode("append").save()
    assert committed(spark, kafka_broker, topic) == []
    rows.write.format("pykafka").options(**kafka).mode("append").save()
    assert committed(spark, kafka_broker, topic) == sorted(map(str, range(100)))


def test_one_transaction_for_all_tasks_wants_a_partition_to_have_one_task(spark, kafka_broker, kafka_topic):
    topic = kafka_topic(partitions=1)
    kafka = options(kafka_broker, topic, atomicBatch="true")
    rows = spark.range(100, numPartitions=2).select(col("id").cast("string").alias("value"))
    with pytest.raises(Exception, match=r"must be written by one task|OUT_OF_ORDER_SEQUENCE_NUMBER"):
        rows.write.format("pykafka").options(**kafka).mode("append").save()
    assert committed(spark, kafka_broker, topic) == []
    rows.coalesce(1).write.format("pykafka").options(**kafka).mode("append").save()
    assert len(committed(spark, kafka_broker, topic)) == 100


def test_speculation_is_refused(spark, kafka_broker, kafka_topic):
    # SQL's tasks get Spark's conf as local properties (seen on 4.2.0; those of an RDD do not), here set by hand.
    kafka = options(kafka_broker, kafka_topic())
    spark.sparkContext.setLocalProperty("spark.speculation", "true")
    try:
        with pytest.raises(Exception, match=r"spark\.speculation=true"):
            spark.range(3).selectExpr("'v' AS value").write.format("pykafka").options(**kafka).mode("append").save()
    finally:
        spark.sparkContext.setLocalProperty("spark.speculation", None)
