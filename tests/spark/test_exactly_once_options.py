"""Exactly once rests on facts that Spark gives a sink: a batch write is all or nothing, speculation is refused."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import confluent_kafka
import pytest
from pyspark.sql.functions import col, raise_error, when

pytestmark = [pytest.mark.spark]

APP = Path(__file__).with_name("speculation_app.py")
ROOT = APP.parent.parent.parent


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


@pytest.mark.each_kind
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


@pytest.mark.extended
def test_speculation_is_refused(kafka_broker, kafka_topic, tmp_path):
    """In a Spark of its own, whose configuration alone says so: a task must come to know of it from Spark."""
    source, target = kafka_topic(), kafka_topic()
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    producer.produce(source, b"v")
    assert producer.flush(30) == 0
    done = subprocess.run(
        [sys.executable, APP, kafka_broker.bootstrap_servers, source, target, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for kind, death in json.loads(done.stdout.splitlines()[-1]).items():
        assert "spark.speculation=true" in (death or ""), (kind, death)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": target})
    partition = confluent_kafka.TopicPartition(target, 0)
    try:
        assert consumer.get_watermark_offsets(partition, 30) == (0, 0)  # not even what a transaction aborted
    finally:
        consumer.close()
