"""What the driver asks the cluster, and how often."""

import logging
import re
import uuid

import pytest
from fake_broker import Error, FakeKafka, FakeNet, Raw
from fake_cluster import FakeCluster

from kafkasource import options
from kafkasource.errors import (
    BootstrapFailed,
    BootstrapHopeless,
    BrokerError,
    DeadlineExceeded,
    UnknownTopicOrPartition,
)
from kafkasource.kafka.protocol.apis import API_VERSIONS, LIST_OFFSETS, METADATA, OFFSET_FETCH, OFFSET_FOR_LEADER_EPOCH
from kafkasource.source.plan.offset_reader import OffsetReader
from kafkasource.source.plan.offsets import LATEST, StreamOffset
from kafkasource.source.plan.subscription import parse_subscription
from kafkasource.types import IsolationLevel
from kafkasource.types import TopicPartition as TP

T0, T1, T2 = (TP("t", number) for number in range(3))
NOTHING = StreamOffset({})


class Sleeps(list):
    """Instead of sleeping: how long was asked for, in seconds; and what happens meanwhile."""

    meanwhile = staticmethod(lambda: None)

    def __call__(self, seconds):
        self.append(seconds)
        self.meanwhile()


def reader(cluster, sleep=None, **given):
    subscription = {} if {"subscribePattern", "assign"} & given.keys() else {"subscribe": "t"}
    given = {"kafka.bootstrap.servers": "nowhere:1"} | subscription | given
    parsed = options.parse(given, "source")
    made = OffsetReader.from_options(cluster, parse_subscription(parsed), parsed)
    made._sleep = sleep if sleep is not None else Sleeps()
    return made


def test_ends_of_logs_come_with_the_epochs_of_the_leaders_that_told_them():
    cluster = FakeCluster(t=[(0, 5), (2, 9)])
    cluster.epochs = {T0: 3}
    assert reader(cluster).latest([T0, T1]) == (
        StreamOffset({T0: 5, T1: 9}, {}, {T0: 3}, cluster_id="fake"),
        {},
    )


def test_a_log_that_ends_below_what_was_read_is_asked_again_until_it_does_not():
    cluster, sleep = FakeCluster(t=[(0, 3)]), Sleeps()
    sleep.meanwhile = lambda: cluster.logs.update(t=[(0, 8)])
    found = reader(cluster, sleep, **{"fetchOffset.retryIntervalMs": "700"}).latest([T0], StreamOffset({T0: 8}))
    assert found.offsets == {T0: 8}
    assert sleep == [0.7]


@pytest.mark.parametrize("attempts", [1, 3, 4])
def test_a_log_that_stays_backwards_is_taken_as_it_is_after_the_last_attempt(attempts):
    cluster, sleep = FakeCluster(t=[(0, 3)]), Sleeps()
    asked = reader(cluster, sleep, **{"fetchOffset.numRetries": str(attempts)})
    assert asked.latest([T0], StreamOffset({T0: 8})).offsets == {T0: 3}
    assert len(cluster.listed) == attempts
    assert sleep == [1.0] * (attempts - 1)  # the JVM connector's default


def test_a_log_that_an_open_transaction_ends_below_what_was_read_is_asked_for_its_high_watermark_once(caplog):
    cluster, sleep = FakeCluster(t=[(0, 8), (0, 9), (0, 9)]), Sleeps()
    cluster.stable, cluster.epochs = {T0: 3, T1: 3, T2: 3}, {T0: 7}
    asked = reader(cluster, sleep, **{"kafka.isolation.level": "read_committed"})
    found = asked.latest([T0, T1, T2], StreamOffset({T0: 8, T1: 5, T2: 3}))
    assert (found.offsets, found.leader_epochs, found.last_stable) == ({T0: 8, T1: 5, T2: 3}, {T0: 7}, {T0: 3, T1: 3})
    assert cluster.listed[1:] == [{T0: LATEST, T1: LATEST}]
    assert (list(sleep), caplog.messages) == ([], [])


def test_a_log_whose_high_watermark_is_below_what_was_read_is_backwards_under_read_committed_too():
    cluster, sleep = FakeCluster(t=[(0, 7), (0, 8)]), Sleeps()
    cluster.stable = {T0: 3, T1: 3}
    asked = reader(cluster, sleep, **{"kafka.isolation.level": "read_committed"})
    assert asked.latest([T0, T1], StreamOffset({T0: 8, T1: 8})).offsets == {T0: 7, T1: 8}
    assert sleep == [1.0, 1.0]


def test_a_partition_that_is_deleted_before_its_high_watermark_is_asked_for_is_missing_not_an_error():
    cluster, sleep = FakeCluster(t=[(0, 8)]), Sleeps()
    asked, listing = reader(cluster, sleep, **{"kafka.isolation.level": "read_committed"}), cluster.offsets.list
    cluster.stable = {T0: 3}

    def deleted_after(wanted, isolation_level):
        found = listing(wanted, isolation_level)
        cluster.logs.pop("t")
        return found

    cluster.offsets.list = deleted_after
    assert asked.latest([T0], StreamOffset({T0: 8})).offsets == {}


# Failures: the client below tries again by itself until `kafka.default.api.timeout.ms`. What it raises then, or at once
# because no retry is due, is a failed attempt. As in the JVM connector's KafkaOffsetReaderAdmin.withRetries.

QUESTIONS = {
    "assigned": (METADATA, lambda asked: asked.assigned(), {T0, T1}),
    "list_offsets": (LIST_OFFSETS, lambda asked: asked.earliest([T0, T1]), {T0: 0, T1: 0}),
    "latest": (LIST_OFFSETS, lambda asked: asked.latest([T0, T1]).offsets, {T0: 100, T1: 100}),
    "offsets_for_times": (LIST_OFFSETS, lambda asked: asked.offsets_for_times({T0: 5}), {T0: None}),
    "high_watermarks": (LIST_OFFSETS, lambda asked: asked.high_watermarks([T0]), {T0: 100}),
    "committed": (OFFSET_FETCH, lambda asked: asked.committed("g", [T0]), {T0: 7}),
    "epoch_ends": (OFFSET_FOR_LEADER_EPOCH, lambda asked: asked.epoch_ends({T0: 0}, NOTHING, NOTHING), {T0: 100}),
}


def near_the_first_of_three():
    """Three brokers, and a cluster that is connected to the first alone."""
    kafka = FakeKafka(nodes=3, topics={"t": 2})
    cluster = FakeNet(kafka).cluster("broker-1:9092")
    cluster.topics.describe([])
    kafka.requests.clear()
    return kafka, cluster, Sleeps()


def brokers():
    kafka = FakeKafka(topics={"t": 2})
    kafka.committed = {("g", "t", 0): 7}
    return kafka, FakeNet(kafka)


def final_code(api):
    """A code that is not worth a retry to the client."""
    return 17 if api is METADATA else -1


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_is_asked_as_often_as_num_retries_says_until_it_succeeds(question):
    api, ask, answer = QUESTIONS[question]
    (kafka, net), sleep = brokers(), Sleeps()
    asked = reader(net.cluster(), sleep, **{"fetchOffset.retryIntervalMs": "700"})
    kafka.fault(api, Error(final_code(api)), Error(final_code(api)))
    assert ask(asked) == answer
    assert sleep == [0.7, 0.7]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("attempts", [1, 4])
def test_the_last_attempt_s_failure_is_raised(question, attempts):
    api, ask, _ = QUESTIONS[question]
    (kafka, net), sleep = brokers(), Sleeps()
    asked = reader(net.cluster(), sleep, **{"fetchOffset.numRetries": str(attempts)})
    kafka.fault(api, *[Error(final_code(api))] * attempts)
    with pytest.raises(BrokerError, match=r"UNKNOWN_SERVER_ERROR|INVALID_TOPIC_EXCEPTION"):
        ask(asked)
    assert sleep == [1.0] * (attempts - 1)  # the JVM connector's default


def test_each_attempt_has_the_client_s_whole_time():
    (_, net), sleep = brokers(), Sleeps()
    net.fates = {"bootstrap": "refused", "broker-1": "refused"}
    asked, begin = reader(net.cluster(default_api_timeout_ms=5_000), sleep), net.now
    with pytest.raises(BootstrapFailed, match="within 5"):
        asked.earliest([T0])
    assert net.now - begin == pytest.approx(15, rel=0.2)
    sleep.meanwhile = net.fates.clear
    assert asked.earliest([T0]) == {T0: 0}
    assert len(sleep) == 3


def test_servers_that_speak_something_else_are_asked_no_more():
    (kafka, net), sleep = brokers(), Sleeps()
    kafka.fault(API_VERSIONS, *[Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")] * 9)
    with pytest.raises(BootstrapHopeless, match="HTTP"):
        reader(net.cluster(), sleep).earliest([T0])
    assert sleep == []


def test_an_attempt_to_connect_that_failed_is_logged_once(caplog):
    (_, net), caplog.handler.level = brokers(), logging.WARNING
    net.fates = {"bootstrap": "refused"}
    with pytest.raises(BootstrapFailed):
        reader(net.cluster(default_api_timeout_ms=5_000)).earliest([T0])
    attempts = re.findall(r"attempt (\d+)\): Connection refused", caplog.text)
    assert len(attempts) == len(set(attempts)) == caplog.text.count("Connection refused") > 2


def test_a_pattern_that_matches_nothing_is_warned_of_until_it_matches_with_what_it_may_mean(caplog):
    cluster = FakeCluster(other=[(0, 5)])
    asked = reader(cluster, subscribePattern="^t")
    said = "option 'subscribePattern': no topic has a match of '^t' in its name, so nothing is read"
    for _ in range(2):
        assert asked.assigned() == set()
    (record,) = caplog.records
    assert (record.levelname, said in record.getMessage()) == ("WARNING", True)
    assert "lacks the right Describe looks like one that does not exist" in record.getMessage()
    cluster.logs["t"] = [(0, 5)]
    assert asked.assigned() == {T0}
    cluster.logs.pop("t")
    asked.assigned(StreamOffset({T0: 5}))
    assert [record.getMessage().count("lacks the right Describe") for record in caplog.records] == [1, 1, 1, 1]
    assert caplog.text.count(said) == 2  # between them: it is asked again, twice
    assert caplog.text.count("t-0, read already, do not exist any more") == 2


def test_partitions_that_are_gone_for_good_are_asked_for_again_once_and_again_after_they_came_back(caplog):
    """The position of a query whose topics are all gone has them at each trigger."""
    cluster = FakeCluster(t=[(0, 5)])
    asked, read = reader(cluster, subscribePattern="^t"), StreamOffset({T0: 5})
    gone = cluster.logs.pop("t")
    for _ in range(50):
        assert asked.assigned(read) == set()
    assert caplog.text.count("t-0, read already, do not exist any more") == 2
    cluster.logs["t"] = gone
    assert asked.assigned(read) == {T0}
    cluster.logs.pop("t")
    assert asked.assigned(read) == set()
    assert caplog.text.count("t-0, read already, do not exist any more") == 4


@pytest.mark.parametrize("error", [Error(29), Error(30), Error(35)])
def test_what_will_not_pass_is_raised_at_once(error):
    (kafka, net), sleep = brokers(), Sleeps()
    kafka.fault(LIST_OFFSETS, error)
    with pytest.raises(BrokerError, match=rf"\({error.code}\)"):
        reader(net.cluster(), sleep).latest([T0])
    assert not sleep


def test_a_partition_that_was_deleted_meanwhile_is_missing_in_every_answer():
    cluster = FakeCluster(t=[(0, 5), (2, 9)])
    asked = reader(cluster)
    assert asked.earliest([T0, T1, T2]) == {T0: 0, T1: 2}
    assert asked.latest([T0, T2]).offsets == {T0: 5}
    assert asked.offsets_for_times({T2: 1000}) == {}
    assert asked.epoch_ends({T1: 0, T2: 0}, NOTHING, NOTHING) == {T1: 9}


def test_an_offset_by_time_is_the_first_record_not_older_or_none():
    cluster = FakeCluster(t=[(0, 3), (0, 3)])
    cluster.timestamps = {T0: [1000, 2000, 3000], T1: [10, 20, 30]}
    assert reader(cluster).offsets_for_times({T0: 1001, T1: 1001}) == {T0: 1, T1: None}


def test_where_a_group_stands_is_none_where_it_committed_nothing():
    cluster = FakeCluster(t=[(0, 3), (0, 3)])
    cluster.committed = {("g", T0): 2, ("other", T1): 1}
    assert reader(cluster).committed("g", [T0, T1]) == {T0: 2, T1: None}


def test_an_epoch_that_the_leader_does_not_know_says_nothing():
    cluster = FakeCluster(t=[(0, 5)])
    cluster.ends_of_epochs = {(T0, 7): None}
    assert reader(cluster).epoch_ends({T0: 7}, NOTHING, NOTHING) == {}


def before_it_grew(row):
    return {**row, "partitions": row["partitions"][:1]}


def before_it_was_made_again(row):
    return {**row, "topic_id": uuid.UUID(int=7)}


@pytest.mark.parametrize("subscription", [{"subscribe": "t"}, {"subscribePattern": "t"}, {"assign": '{"t": [0, 1]}'}])
@pytest.mark.parametrize("old", [before_it_grew, before_it_was_made_again])
def test_a_broker_that_is_cut_off_from_the_controllers_is_asked_once_however_near_it_is(subscription, old):
    # The client has one connection, to that broker, and would rather use it than make another.
    kafka, cluster, sleep = near_the_first_of_three()
    asked = reader(cluster, sleep, **subscription)
    read = StreamOffset({T0: 100, T1: 100}, {"t": kafka.topics["t"].topic_id})
    kafka.old_news[1] = old
    assert asked.assigned(read) == {T0, T1}
    assert asked.topic_ids({T0}) == read.topic_ids
    first, second = (one.node_id for one in kafka.asked(METADATA))
    assert (first, sleep) == (1, [1.0])
    assert second in (2, 3)


def test_a_driver_that_knows_the_old_topic_lists_the_ends_of_the_one_made_again_where_there_are_no_ids():
    kafka = FakeKafka(nodes=3, topics={"t": 1})
    kafka.versions[METADATA.key] = (0, 9)  # Kafka 2.4 to 2.7
    kafka.topics["t"].epochs[0] = 5
    net, sleep = FakeNet(kafka), Sleeps()
    asked = reader(net.cluster(), sleep)
    asked.assigned()
    read = asked.latest([T0]).listed
    kafka.topics["t"].epochs[0] = 0
    begun = net.now
    asked.assigned(read)
    found = asked.latest([T0], read)
    assert (read.leader_epochs, found.leader_epochs) == ({T0: 5}, {T0: 0})
    assert sleep == [1.0, 1.0]  # a leader of before would say the same
    assert net.now - begun < 2


def with_an_error(kafka, name):
    """From now on each list of all topics has LEADER_NOT_AVAILABLE at this one."""
    row_of = kafka._topic_row
    kafka._topic_row = lambda asked: row_of(asked) | ({"error_code": 5, "partitions": []} if asked == name else {})


def test_a_topic_that_has_an_error_in_the_list_of_all_topics_is_not_taken_for_deleted():
    kafka, sleep = FakeKafka(nodes=3, topics={"t": 1, "u": 1}), Sleeps()
    asked = reader(FakeNet(kafka).cluster(), sleep, subscribePattern="[tu]")
    read = asked.latest(asked.assigned()).listed
    with_an_error(kafka, "u")
    assert asked.assigned(read) == {T0, TP("u", 0)}
    assert not sleep


@pytest.mark.parametrize("pattern", ["[tu]", "t"])
def test_a_query_by_pattern_does_not_begin_without_a_topic_that_has_an_error(pattern):
    kafka = FakeKafka(nodes=3, topics={"t": 1, "u": 1})
    with_an_error(kafka, "u")
    asked = reader(FakeNet(kafka).cluster(), subscribePattern=pattern)
    if pattern == "t":
        assert asked.assigned() == {T0}
        return
    with pytest.raises(DeadlineExceeded, match=r"topic 'u' in the list of all topics: LEADER_NOT_AVAILABLE"):
        asked.assigned()


def test_an_id_that_one_broker_alone_tells_is_not_believed():
    kafka, cluster, sleep = near_the_first_of_three()
    kafka.old_news[1] = before_it_was_made_again
    ids = {"t": kafka.topics["t"].topic_id}
    assert reader(cluster, sleep).current_topic_ids([T0], StreamOffset({T0: 100}, ids)) == ids
    assert sleep == [1.0]


def test_a_bootstrap_server_that_is_cut_off_is_not_asked_again_as_the_broker_that_it_is():
    kafka = FakeKafka(nodes=3, topics={"t": 2})
    kafka.old_news[1] = before_it_grew
    asked = reader(FakeNet(kafka).cluster("broker-1:9092"), **{"fetchOffset.numRetries": "2"})
    assert asked.assigned(StreamOffset({T0: 100, T1: 100})) == {T0, T1}


def test_a_partition_read_already_is_not_believed_gone_because_one_broker_lags_behind():
    cluster, sleep = FakeCluster(t=[(0, 5)]), Sleeps()
    sleep.meanwhile = lambda: cluster.logs.update(t=[(0, 5), (0, 5)])
    assert reader(cluster, sleep).assigned(StreamOffset({T0: 1, T1: 1})) == {T0, T1}
    assert sleep == [1.0]


def test_another_topic_id_is_not_believed_because_one_broker_lags_behind():
    cluster, sleep, topic_id = FakeCluster(t=[(0, 5)]), Sleeps(), uuid.uuid4()
    cluster.topic_ids["t"] = uuid.uuid4()
    sleep.meanwhile = lambda: cluster.topic_ids.update(t=topic_id)
    assert reader(cluster, sleep).assigned(StreamOffset({T0: 1}, {"t": topic_id})) == {T0}
    assert sleep == [1.0]


@pytest.mark.parametrize("subscription", [{"subscribePattern": "t"}, {"assign": '{"t":[0,1]}'}, {"subscribe": "t"}])
def test_a_partition_that_stays_gone_is_believed_gone(subscription):
    cluster, sleep = FakeCluster(t=[(0, 5)]), Sleeps()

    assert reader(cluster, sleep, **subscription).assigned(StreamOffset({T0: 1, T1: 1})) == {T0}
    assert sleep == [1.0, 1.0]


def test_a_partition_that_is_not_subscribed_any_more_is_not_asked_for_again():
    sleep = Sleeps()
    assert reader(FakeCluster(t=[(0, 5)]), sleep).assigned(StreamOffset({T0: 1, TP("left", 0): 1})) == {T0}
    assert not sleep


def test_high_watermarks_are_those_of_readers_without_transactions():
    cluster = FakeCluster(t=[(0, 5)])
    assert reader(cluster, **{"kafka.isolation.level": "read_committed"}).high_watermarks([T0]) == {T0: 5}
    assert cluster.isolation_levels == {IsolationLevel.READ_UNCOMMITTED}


def test_the_error_of_a_misspelt_topic_names_the_most_similar_one():
    cluster = FakeCluster(events=[(0, 1)], orders=[(0, 1)])
    said = r"^option 'subscribe': topic 'evnets' \(did you mean 'events'\?\): "
    with pytest.raises(UnknownTopicOrPartition, match=said):
        reader(cluster, subscribe="evnets").assigned()


def test_a_misspelt_topic_stays_the_error_where_the_topics_cannot_be_listed():
    cluster = FakeCluster(events=[(0, 1)])

    def refused():
        raise DeadlineExceeded("Metadata: 60000 ms have passed")

    cluster.topics.list = refused
    with pytest.raises(UnknownTopicOrPartition, match=r"^option 'subscribe': topic 'evnets': UNKNOWN_TOPIC"):
        reader(cluster, subscribe="evnets").assigned()
