"""A query on a secured cluster by the JVM connector's options. test_security_matrix.py has the other ways in."""

import uuid
from contextlib import closing

import confluent_kafka
import pytest
from secured_brokers import confluent_properties

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def committed(secured, way, group, topic, partitions):
    """The offsets of a group, by partition, as confluent-kafka sees them through the same way in."""
    theirs = {**confluent_properties(secured, *way), "group.id": group, "log_level": 0}
    asked = [confluent_kafka.TopicPartition(topic, each) for each in range(partitions)]
    with closing(confluent_kafka.Consumer(theirs)) as consumer:
        consumer.poll(0)  # where it makes the token
        return [each.offset for each in consumer.committed(asked, timeout=60)]


@pytest.mark.jvm_connector
@pytest.mark.needs_spark("limited_available_now")
@pytest.mark.needs_spark("last_group_commit")
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_stream_is_copied_by_java_options_and_its_group_sees_how_far_it_has_come(
    spark, secured_broker, tmp_path, guarantee
):
    import kafkasource

    kafkasource.register(spark)
    secured, way = secured_broker.secured, ("SASL_SSL", "SCRAM-SHA-512", "alice")
    options = {f"kafka.{name}": text for name, text in secured.client_properties(*way).items()}
    source, copy, group = (f"{word}-{uuid.uuid4().hex[:10]}" for word in ("source", "copy", "group"))
    values = [f"v{number}" for number in range(500)]
    rows = spark.createDataFrame([(value,) for value in values], "value string")
    rows.write.format("pykafka").options(**options, topic=source, createTopic="partitions=2").mode("append").save()
    query = (
        spark.readStream.format("pykafka")
        .options(**options, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=200)
        .option("kafka.group.id", group)
        .load()
        .select("value")
        .writeStream.format("pykafka")
        .options(**options, topic=copy, createTopic="partitions=2", deliveryGuarantee=guarantee)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert query.exception() is None
    assert sum(committed(secured, way, group, source, 2)) == len(values)
    for name in ("pykafka", "kafka"):  # the JVM connector reads the same with the same options
        reading = spark.read.format(name).options(**options, **{"kafka.isolation.level": "read_committed"})
        there = reading.option("subscribe", copy).load().collect()
        assert sorted(bytes(row.value).decode() for row in there) == sorted(values)
