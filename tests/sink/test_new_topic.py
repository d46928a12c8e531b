"""A missing topic is made as the option says; one that is there is left as it is."""

import pytest
from fake_broker import Answer, FakeKafka, FakeNet

from kafkasource.errors import BrokerError, UnsupportedApiVersion
from kafkasource.protocol.apis import CREATE_TOPICS, METADATA
from kafkasource.sink import new_topic
from kafkasource.sink.new_topic import create_in, create_missing
from kafkasource.types import NewTopic


@pytest.fixture
def kafka():
    return FakeKafka(nodes=3, topics={"there": 1})


@pytest.fixture
def cluster(kafka):
    return FakeNet(kafka).cluster()


def test_a_missing_topic_is_made_as_the_option_says(kafka, cluster):
    create_in(cluster, "new", NewTopic(6, 3, (("cleanup.policy", "compact"),)))
    (asked,) = kafka.asked(CREATE_TOPICS)
    (topic,) = asked.body["topics"]
    assert (topic["name"], topic["num_partitions"], topic["replication_factor"]) == ("new", 6, 3)
    assert topic["configs"] == [{"name": "cleanup.policy", "value": "compact"}]
    assert len(kafka.topics["new"].leaders) == 6


def test_a_topic_that_is_there_is_left_alone(kafka, cluster):
    create_in(cluster, "there", NewTopic(6))
    assert kafka.asked(CREATE_TOPICS) == []


@pytest.mark.parametrize("release", ["0.8.2", "0.9.0"])
def test_brokers_that_make_no_topics_are_not_asked_for_a_missing_one(kafka, cluster, release):
    """They would make it by being asked for its metadata, and not as the option says."""
    kafka.become(release)
    create_in(cluster, "there", NewTopic(6))
    with pytest.raises(UnsupportedApiVersion, match=r"option 'createTopic': .* 'new' does not exist"):
        create_in(cluster, "new", NewTopic(6))
    assert [asked.body["topics"] for asked in kafka.asked(METADATA) if asked.body["topics"]] == []


def test_brokers_without_defaults_want_partitions_and_replication(kafka, cluster):
    kafka.versions[CREATE_TOPICS.key] = (0, 3)
    for new in (NewTopic(6), NewTopic(replication_factor=1)):
        with pytest.raises(UnsupportedApiVersion, match=r"Kafka 2\.4 .* both 'partitions' and 'replication'"):
            create_in(cluster, "new", new)
    create_in(cluster, "new", NewTopic(6, 1))
    assert len(kafka.topics["new"].leaders) == 6


def refusal(code, text=None):
    return Answer({"topics": [{"name": "new", "error_code": code, "error_message": text}], "throttle_time_ms": 0})


def test_a_topic_made_by_somebody_else_meanwhile_is_no_error(kafka, cluster):
    kafka.fault(CREATE_TOPICS, refusal(36))
    create_in(cluster, "new", NewTopic(6))


@pytest.mark.parametrize(
    ("code", "text"), [(38, "larger than the number of brokers"), (40, "no such setting"), (44, "")]
)
def test_what_the_brokers_refuse_names_the_option_and_their_reason(kafka, cluster, code, text):
    kafka.fault(CREATE_TOPICS, refusal(code, text))
    with pytest.raises(BrokerError, match=f"option 'createTopic'.*'new'.*{text}") as raised:
        create_in(cluster, "new", NewTopic(6, 9))
    assert raised.value.code == code


def test_the_brokers_are_asked_once_by_a_process(kafka, cluster, monkeypatch):
    monkeypatch.setattr(new_topic, "shared_cluster", lambda config: cluster)
    monkeypatch.setattr(new_topic, "_seen", set())
    for _ in range(3):
        create_missing(cluster.config, "there", NewTopic(6))
    assert len([asked for asked in kafka.asked(METADATA) if asked.body["topics"]]) == 1


def test_nobody_is_asked_without_the_option(monkeypatch):
    monkeypatch.setattr(new_topic, "shared_cluster", None)
    create_missing(None, "t", None)
    create_missing(None, None, None)
