"""A missing topic is made as the option says; one that is there is left as it is."""

import json
import pickle

import pyarrow as pa
import pytest
from fake_broker import Answer, FakeKafka, FakeNet
from pyspark.sql.types import BinaryType, StructField, StructType
from sink_fakes import AcknowledgingClient

from kafkasource import writer
from kafkasource.errors import BrokerError, OptionError, UnsupportedApiVersion
from kafkasource.kafka.cluster import cache as cluster_cache
from kafkasource.kafka.producer.producer import Producer
from kafkasource.kafka.protocol.apis import CREATE_TOPICS, METADATA
from kafkasource.sink import dead_letters, new_topic
from kafkasource.sink.clusters import targets
from kafkasource.sink.new_topic import create_in, create_missing
from kafkasource.sink.writer import BatchWriter, StreamWriter
from kafkasource.types import NewTopic, TopicPartition


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


# Looks of one process. In the driver's, which outlives queries, Spark pickles a writer for each write.

SCHEMA = StructType([StructField("value", BinaryType())])
MOST_MS = 7_000  # how old a stream's look may be


@pytest.fixture
def clock(kafka, cluster, monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(new_topic, "shared_cluster", lambda config: cluster)
    monkeypatch.setattr(dead_letters, "shared_cluster", lambda config: cluster)
    monkeypatch.setattr(new_topic.SEEN, "_clock_s", lambda: seconds[0])
    new_topic.SEEN._seen_s.reset()
    return seconds


def write(kind, **written):
    options = {"kafka.bootstrap.servers": "localhost:1", "topic": "new", "kafka.max.block.ms": str(MOST_MS)}
    pickle.dumps(kind(targets.parse(options | written), SCHEMA))


def looks(kafka):
    return len(kafka.asked(METADATA))


def test_each_batch_write_looks_and_makes_a_topic_again_that_was_deleted(kafka, clock):
    write(BatchWriter, createTopic="partitions=2")
    before = looks(kafka)
    write(BatchWriter, createTopic="partitions=2")
    assert looks(kafka) == before + 1
    del kafka.topics["new"]
    write(BatchWriter, createTopic="partitions=2")
    assert len(kafka.topics["new"].leaders) == 2


def test_micro_batches_ask_nobody_until_a_task_may_have_waited_in_vain_for_the_topic(kafka, clock):
    """The query is started again after one of its tasks has waited for `kafka.max.block.ms`."""
    write(StreamWriter, createTopic="partitions=2")
    before = looks(kafka)
    del kafka.topics["new"]
    clock[0] += MOST_MS / 1000 - 0.001
    write(StreamWriter, createTopic="partitions=2")
    assert looks(kafka) == before
    clock[0] += 0.001
    write(StreamWriter, createTopic="partitions=2")
    assert len(kafka.topics["new"].leaders) == 2


@pytest.mark.parametrize("kind", [BatchWriter, StreamWriter])
def test_so_it_is_with_a_topic_of_dead_letters_that_was_deleted(kafka, clock, kind):
    kafka.topics["dlq"] = kafka.topics["there"]
    write(kind, topic="there", badRecords="topic:dlq")
    before = looks(kafka)
    write(kind, topic="there", badRecords="topic:dlq")
    assert looks(kafka) == before + (kind is BatchWriter)
    del kafka.topics["dlq"]
    clock[0] += MOST_MS / 1000
    with pytest.raises(OptionError, match=r"option 'badRecords': topic 'dlq' does not exist"):
        write(kind, topic="there", badRecords="topic:dlq")
    assert "dlq" not in kafka.topics


def test_a_writer_without_spark_looks_before_its_first_rows(kafka, clock, monkeypatch):
    leaders = {TopicPartition("new", number): 0 for number in range(2)}
    monkeypatch.setattr(writer, "Producer", lambda config: Producer(config, client=AcknowledgingClient(leaders)))
    options = {"kafka.bootstrap.servers": "localhost:1", "topic": "new", "createTopic": "partitions=2"}
    for _ in range(2):
        with writer.Writer(options) as to:
            to.write(pa.table({"value": ["a"]}))
            before = looks(kafka)
            to.flush()
            to.write(pa.table({"value": ["a"]}))
            assert looks(kafka) == before
        assert len(kafka.topics.pop("new").leaders) == 2


@pytest.fixture
def west(kafka, monkeypatch):
    """The net of a cluster with `discard`. Its clock moves only where somebody waits."""
    net = FakeNet(kafka)
    cluster = net.cluster()
    for module in (new_topic, dead_letters, cluster_cache):
        monkeypatch.setattr(module, "shared_cluster", lambda config: cluster)
    for seen in (new_topic.SEEN, new_topic.TRIED):
        monkeypatch.setattr(seen, "_clock_s", lambda: net.now)
        seen._seen_s.reset()
    return net


def micro_batch(**more):
    clusters = {"west": {"kafka.bootstrap.servers": "west:1", "onSlowCluster": "discard"}}
    options = {"topic": "new", "slowClusterWait": "1s"} | (more or {"createTopic": "partitions=2"})
    pickle.dumps(StreamWriter(targets.parse({"clusters": json.dumps(clusters)} | options), SCHEMA))


def micro_batches_later(net, **more):
    for _ in range(40):  # a connection that it began to a silent address stays silent
        micro_batch(**more)
        net.now += 1


def test_a_dead_cluster_that_may_discard_holds_up_the_driver_for_a_tenth_of_the_time(west, caplog):
    west.fates["bootstrap"] = "blackhole"
    waits = []
    for _ in range(20):
        before = west.now
        micro_batch()
        waits.append(round(west.now - before))
        west.now += 1
    assert waits == [1, *[0] * 9, 1, *[0] * 9]
    assert caplog.text.count("cluster 'west': topic new cannot be created there now") == 2
    del west.fates["bootstrap"]
    micro_batches_later(west)
    assert len(west.kafka.topics["new"].leaders) == 2


def test_the_look_for_its_topic_of_dead_letters_holds_up_the_driver_no_longer(west, caplog):
    west.fates["bootstrap"] = "blackhole"
    began = west.now
    for _ in range(9):
        micro_batch(badRecords="topic:dlq")
    assert round(west.now - began) == 1
    assert caplog.text.count("cluster 'west': topic dlq cannot be looked for there now") == 1
    del west.fates["bootstrap"]
    west.now += 60
    with pytest.raises(OptionError, match="topic 'dlq' does not exist"):
        micro_batches_later(west, badRecords="topic:dlq")


@pytest.mark.parametrize("code", [29, 44])  # TOPIC_AUTHORIZATION_FAILED, POLICY_VIOLATION
def test_a_cluster_that_may_discard_may_refuse_the_topic_too(west, caplog, code):
    west.kafka.fault(CREATE_TOPICS, refusal(code))
    micro_batch()
    assert "cluster 'west': topic new cannot be created there now" in caplog.text


def test_nobody_is_asked_without_the_option(monkeypatch):
    monkeypatch.setattr(new_topic, "shared_cluster", None)
    create_missing(None, "t", None)
    create_missing(None, None, None)
