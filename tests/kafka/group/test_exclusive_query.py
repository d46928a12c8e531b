"""A query that owns its consumer group, with Spark and a real coordinator."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaException

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.source.commits.owner import INSTANCE_ID, SESSION_MS
from kafkasource.types import TopicPartition

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]


def start(pykafka, topic, folder, protocol="classic"):
    options = {"startingOffsets": "earliest", "kafka.group.id": f"{topic}-group", "groupOwnership": "exclusive"}
    options["kafka.group.protocol"] = protocol
    stream = pykafka.reading(topic, stream=True, **options).load()
    return stream.writeStream.format("noop").option("checkpointLocation", str(folder)).start()


def test_while_a_query_runs_its_group_is_its_own(pykafka, kafka_broker, kafka_topic, tmp_path):
    from pyspark.errors import StreamingQueryException

    topic = kafka_topic(partitions=1)
    group = f"{topic}-group"
    pykafka.write(pykafka.spark.range(10).selectExpr("CAST(id AS STRING) AS value").coalesce(1), topic)
    first = start(pykafka, topic, tmp_path / "first")
    first.processAllAvailable()

    second = start(pykafka, topic, tmp_path / "second")
    with pytest.raises(StreamingQueryException, match=f"consumer group '{group}' has other members"):
        second.awaitTermination(120)

    with closing(Consumer({"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": group})) as consumer:
        consumer.subscribe([topic])
        with pytest.raises(KafkaException, match="INCONSISTENT_GROUP_PROTOCOL"):
            raise KafkaException(consumer.poll(30).error())

    assert first.isActive
    first.stop()
    with Cluster(ClientConfig.of(kafka_broker.bootstrap_servers)) as admin:
        give_up_s = time.monotonic() + SESSION_MS / 2000  # long before the session would end
        while admin.groups.describe([group])[group].members:
            assert time.monotonic() < give_up_s, "the query did not leave its group"
        assert admin.groups.committed_offsets(group, [TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 10}


@pytest.mark.extended
def test_by_the_consumer_protocol_a_query_ends_when_a_consumer_joins(pykafka, kafka_broker, kafka_topic, tmp_path):
    from pyspark.errors import StreamingQueryException

    topic = kafka_topic(partitions=2)
    group = f"{topic}-group"
    pykafka.write(pykafka.spark.range(10).selectExpr("CAST(id AS STRING) AS value").coalesce(1), topic)
    query = start(pykafka, topic, tmp_path, "consumer")
    query.processAllAvailable()
    with Cluster(ClientConfig.of(kafka_broker.bootstrap_servers)) as admin:
        assert [each.instance_id for each in admin.groups.describe([group])[group].members] == [INSTANCE_ID]
        await_offsets(admin, group, topic)
    settings = {"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": group, "group.protocol": "consumer"}
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([topic])
        give_up_s = time.monotonic() + 60
        while query.isActive and time.monotonic() < give_up_s:
            consumer.poll(0.2)
        with pytest.raises(StreamingQueryException, match=f"consumer group '{group}' was joined by another consumer"):
            query.awaitTermination(1)


def await_offsets(admin, group, topic):
    give_up_s = time.monotonic() + 20
    while sum(each.offset for each in admin.groups.committed(group).values()) < 10:
        assert time.monotonic() < give_up_s, f"the offsets of {topic} are not committed"
        time.sleep(0.1)
