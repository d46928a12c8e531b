"""The fixtures as users see them; confluent-kafka tells what is in the cluster."""

import pytest

pytestmark = pytest.mark.broker
made = []


def topics_of(broker):
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    return admin.list_topics(timeout=60).topics


def test_a_topic_is_made_as_asked(kafka_broker, kafka_topic):
    made.append(kafka_topic(partitions=3, config={"retention.ms": "1000000"}))
    made.append(kafka_topic(prefix="a b/ö"))
    topics = topics_of(kafka_broker)
    assert made[0].startswith("test_a_topic_is_made_as_asked-")
    assert made[1].startswith("a-b-")
    assert [len(topics[name].partitions) for name in made] == [3, 1]


def test_it_is_gone_after_its_test(kafka_broker):
    assert made
    assert not set(made) & set(topics_of(kafka_broker))
