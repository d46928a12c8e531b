"""What an answer may change in the cache, and when it is time to ask again."""

import uuid

import pytest

from kafkasource.errors import ClusterMismatch, LeaderNotAvailable, ProtocolError
from kafkasource.kafka.config import ClientConfig, backoff_ms
from kafkasource.kafka.network.metadata import Metadata
from kafkasource.types import Node, TopicPartition

T0 = TopicPartition("t", 0)
ID, OTHER_ID = uuid.UUID(int=7), uuid.UUID(int=8)


@pytest.fixture
def metadata():
    return Metadata(
        ClientConfig.of("b:1", retry_backoff_ms=100, retry_backoff_max_ms=1000, metadata_max_age_ms=300_000)
    )


def answer(*topics, brokers=(1, 2), cluster_id="c", controller_id=1, error_code=0):
    nodes = [{"node_id": node, "host": f"h{node}", "port": 9092, "rack": None} for node in brokers]
    body = {"brokers": nodes, "cluster_id": cluster_id, "controller_id": controller_id, "topics": list(topics)}
    return {**body, "error_code": error_code}


def topic(*leaders, name="t", code=0, epoch=0, topic_id=ID):
    partitions = [
        {
            "error_code": 0,
            "partition_index": i,
            "leader_id": leader,
            "leader_epoch": epoch,
            "replica_nodes": [1, 2],
            "isr_nodes": [1],
        }
        for i, leader in enumerate(leaders)
    ]
    row = {"error_code": code, "name": name, "topic_id": topic_id, "is_internal": False}
    return {**row, "partitions": partitions}


def test_nothing_known_is_asked_for_at_once(metadata):
    assert metadata.time_to_next_update(0) == 0


def test_after_an_answer_the_next_question_is_due_at_max_age(metadata):
    metadata.update(answer(), 1000)
    assert metadata.time_to_next_update(1000) == 300_000
    assert metadata.time_to_next_update(101_000) == 200_000
    assert metadata.time_to_next_update(999_000) == 0


def test_a_requested_update_waits_for_the_backoff_only(metadata):
    metadata.update(answer(), 1000)
    assert metadata.request_update() == metadata.version
    assert metadata.time_to_next_update(1000) == 100
    assert metadata.time_to_next_update(1100) == 0


def test_failures_are_asked_again_later_and_later(metadata):
    waits = []
    for now in range(0, 60_000, 10_000):
        metadata.failed(now, 0.5)
        waits.append(metadata.time_to_next_update(now))
    assert waits == [100, 200, 400, 800, 1000, 1000]


def test_a_new_topic_does_not_wait_for_the_backoff_of_others(metadata):
    metadata.update(answer(), 1000)
    assert metadata.want(["t"])
    assert metadata.time_to_next_update(1000) == 0
    metadata.update(answer(topic(1)), 1001)
    assert not metadata.want(["t"])
    assert metadata.time_to_next_update(1001) == 300_000


def test_a_topic_wanted_while_a_question_is_under_way_is_asked_for_after_it_once(metadata):
    metadata.want(["t"])
    metadata.update(answer(), 1000)
    assert metadata.time_to_next_update(1000) == 0
    metadata.update(answer(), 1001)
    assert metadata.time_to_next_update(1001) == 300_000


def test_an_answer_with_topic_errors_is_not_repeated_in_a_tight_loop(metadata):
    waits = []
    for now in (1000, 11_000, 21_000):
        metadata.update(answer(topic(code=5)), now, 0.5)
        metadata.request_update()
        waits.append(metadata.time_to_next_update(now))
    assert waits == [100, 200, 400]


# Who says which epoch, in turn, with the last one's leader; broker -1 is a bootstrap server, any of the brokers.
TOLD = {
    "an older epoch does not replace a newer one": ([(1, 5), (1, 4)], 5),
    "a newer one replaces an older one": ([(1, 5), (1, 4), (1, 6)], 6),
    "an older one counts once two brokers give it": ([(1, 5), *[(1, 0)] * 3, (2, 0)], 0),
    "brokers agree only while none gives the newer one": ([(1, 5), *[(1, 4), (2, 5)] * 20], 5),
    "a broker that alone can be asked is not believed at once": ([(2, 5), *[(1, 0)] * 4], 5),
    "it is when it stays with it": ([(2, 5), *[(1, 0)] * 5], 0),  # as franz-go: maxEpochRewinds
    "nor is a bootstrap server": ([(2, 5), *[(-1, 0)] * 4], 5),
    "but in the end": ([(2, 5), *[(-1, 0)] * 5], 0),
}


@pytest.mark.parametrize("topic_id", [None, ID])
@pytest.mark.parametrize("told", TOLD.values(), ids=TOLD)
def test_an_older_leader_epoch_is_doubted(metadata, told, topic_id):
    """A topic made again where there are no ids; or an epoch that some broker made up."""
    answers = {
        epoch: answer(topic(1 + epoch % 2, epoch=epoch, topic_id=topic_id), brokers=(1, 2, 3)) for _, epoch in told[0]
    }
    for node_id, epoch in told[0]:
        metadata.update(answers[epoch], 0, node_id=node_id)  # one object where brokers have given the same bytes
    assert metadata.partition(T0).leader_epoch == told[1]
    assert metadata.leader_id(T0) == 1 + told[1] % 2


def test_partitions_that_an_answer_with_an_older_epoch_leaves_out_are_gone(metadata):
    metadata.update(answer(topic(1, 1, epoch=5)), 0, node_id=1)
    for node_id in (1, 2):
        metadata.update(answer(topic(2, epoch=0)), 1, node_id=node_id)
    assert metadata.topic("t").topic_partitions == [T0]


def test_a_broker_that_is_alone_is_believed_at_once(metadata):
    metadata.update(answer(topic(1, epoch=5, topic_id=None), brokers=(1,)), 0, node_id=1)
    metadata.update(answer(topic(1, epoch=0, topic_id=None), brokers=(1,)), 1, node_id=1)
    assert metadata.partition(T0).leader_epoch == 0


def test_an_id_that_only_some_brokers_know_does_not_make_it_another_topic(metadata):
    metadata.update(answer(topic(1, epoch=5)), 0, node_id=1)  # an upgrade from 2.7: this broker is new
    metadata.update(answer(topic(2, epoch=4, topic_id=None)), 1, node_id=2)
    assert (metadata.leader_id(T0), metadata.partition(T0).leader_epoch) == (1, 5)


def test_a_recreated_topic_starts_with_its_own_epochs(metadata):
    metadata.update(answer(topic(1, epoch=5)), 0)
    metadata.update(answer(topic(2, epoch=0, topic_id=OTHER_ID)), 1)
    assert (metadata.leader_id(T0), metadata.topic("t").topic_id) == (2, OTHER_ID)


def test_leader_epochs_of_brokers_before_2_4_do_not_count(metadata):
    metadata.update(answer(topic(1, epoch=5)), 0)
    metadata.update(answer(topic(2, epoch=4)), 1, epochs_hold=False)  # a rolling upgrade: the other broker is older
    assert (metadata.leader_id(T0), metadata.partition(T0).leader_epoch) == (2, None)
    metadata.update(answer(topic(1, epoch=6)), 2)
    assert (metadata.leader_id(T0), metadata.partition(T0).leader_epoch) == (1, 6)


@pytest.mark.parametrize("code", [5, 29, 7])
def test_an_error_of_a_topic_does_not_evict_what_is_known_of_it(metadata, code):
    metadata.update(answer(topic(1)), 0)
    metadata.update(answer(topic(code=code)), 1)
    assert metadata.leader_id(T0) == 1
    assert metadata.topic_errors == {"t": code}
    metadata.update(answer(topic(1)), 2)
    assert metadata.topic_errors == {}


def test_a_topic_that_does_not_exist_any_more_is_dropped(metadata):
    metadata.update(answer(topic(1)), 0)
    metadata.update(answer(topic(code=3)), 1)
    assert metadata.topic("t") is None


def test_an_answer_about_other_topics_leaves_a_topic_alone(metadata):
    metadata.update(answer(topic(1)), 0)
    metadata.update(answer(topic(1, name="u")), 1)
    assert metadata.leader_id(T0) == 1


def test_an_answer_about_all_topics_ends_what_is_known_of_those_it_does_not_name(metadata):
    metadata.update(answer(topic(1), topic(1, name="u"), topic(name="v", code=29)), 0, of_all=True)
    assert (metadata.known, metadata.topic_errors) == (2, {"v": 29})
    metadata.update(answer(topic(1)), 1, of_all=True)
    assert metadata.known == 1
    assert metadata.topic_errors == {}
    assert metadata.leader_id(T0) == 1


def test_a_wanted_topic_is_kept_where_an_answer_about_all_does_not_name_it(metadata):
    """A broker that has just started may not know it yet. Whoever wants it asks by name, and hears of its end so."""
    metadata.want(["t"])
    metadata.update(answer(topic(1, epoch=5)), 0)
    metadata.update(answer(topic(1, name="u")), 1, of_all=True)
    assert metadata.partition(T0).leader_epoch == 5
    metadata.update(answer(topic(name="t", code=5)), 2)
    metadata.update(answer(topic(1, name="u")), 3, of_all=True)
    assert metadata.topic_errors == {"t": 5}


def test_a_wanted_topic_that_is_gone_by_both_answers_is_not_asked_for_any_more(metadata):
    """A query by pattern names its topics where one of them was deleted while it planned."""
    metadata.want(["t", "u"])
    metadata.update(answer(topic(1), topic(1, name="u")), 0)
    metadata.update(answer(topic(1), topic(name="u", code=3)), 1)
    assert metadata.wanted == ["t", "u"]
    metadata.update(answer(), 2, of_all=True)
    assert (metadata.wanted, metadata.topic_errors) == (["t"], {})
    assert metadata.leader_id(T0) == 1


def test_an_answer_that_has_been_to_a_question_about_some_topics_may_come_to_one_about_all(metadata):
    metadata.update(answer(topic(1), topic(1, name="u")), 0, of_all=True)
    only_t = answer(topic(1))
    metadata.update(only_t, 1)
    assert metadata.known == 2
    metadata.update(only_t, 2, of_all=True)
    assert metadata.known == 1


def test_a_leader_that_is_none_or_not_registered_is_none(metadata):
    metadata.update(answer(topic(-1, 9, 2)), 0)
    assert [metadata.leader_id(TopicPartition("t", i)) for i in range(4)] == [None, None, 2, None]
    assert metadata.topic("t").topic_partitions == [TopicPartition("t", i) for i in range(3)]


def test_two_brokers_on_one_address_stay_two(metadata):
    body = answer(topic(1, 2))
    body["brokers"] = [{"node_id": node, "host": "nat", "port": 1, "rack": None} for node in (1, 2)]
    metadata.update(body, 0)
    assert metadata.nodes() == [Node(1, "nat", 1), Node(2, "nat", 1)]


def test_another_cluster_is_refused_and_changes_nothing(metadata):
    metadata.update(answer(topic(1)), 0)
    with pytest.raises(ClusterMismatch, match=r"cluster d .* cluster c .*kafka.bootstrap.servers"):
        metadata.update(answer(topic(2), cluster_id="d"), 1)
    assert metadata.leader_id(T0) == 1


def test_a_broker_that_knows_no_brokers_is_not_believed(metadata):
    metadata.update(answer(topic(1)), 0)
    with pytest.raises(LeaderNotAvailable) as caught:
        metadata.update(answer(brokers=()), 1000)
    assert caught.value.retriable
    assert metadata.leader_id(T0) == 1


def test_rebootstrap_required_is_remembered(metadata):
    with pytest.raises(LeaderNotAvailable):
        metadata.update(answer(error_code=129, brokers=()), 0)
    assert metadata.rebootstrap


@pytest.mark.parametrize(("host", "port"), [("", 9092), ("h" * 256, 9092), ("h\n", 1), ("h", 0), ("h", 70_000)])
def test_an_advertised_address_that_cannot_be_one_names_the_setting(metadata, host, port):
    body = answer(brokers=(1,))
    body["brokers"][0].update(host=host, port=port)
    with pytest.raises(ProtocolError, match=r"advertised\.listeners"):
        metadata.update(body, 0)


def test_one_address_that_cannot_be_one_leaves_the_other_brokers_of_use(metadata, caplog):
    body = answer(topic(2, 1))
    body["brokers"][0].update(host="", port=0)
    for _ in range(3):
        metadata.update(body, 0)
    assert metadata.nodes() == [Node(2, "h2", 9092)]
    assert [metadata.leader_id(TopicPartition("t", i)) for i in (0, 1)] == [2, None]
    assert ["advertised.listeners" in text for text in caplog.messages] == [True]  # once


@pytest.mark.parametrize(("random", "factor"), [(0.0, 0.8), (0.5, 1.0), (0.999999, 1.2)])
def test_backoff_doubles_to_the_cap_and_is_spread(random, factor):
    waits = [backoff_ms(attempt, 50, 1000, random) for attempt in (0, 1, 2, 10, 100_000)]
    assert waits == pytest.approx([wait * factor for wait in (50, 100, 200, 1000, 1000)], rel=1e-4)


def test_the_same_answer_renews_what_is_known_and_brings_back_what_was_forgotten(metadata):
    body = answer(topic(1))
    metadata.update(body, 1000)
    metadata.update(body, 2000)
    assert (metadata.version, metadata.leader_id(T0)) == (2, 1)
    assert metadata.time_to_next_update(2000) == 300_000
    metadata.forget(["t"])
    assert metadata.leader_id(T0) is None
    metadata.update(body, 3000)
    assert metadata.leader_id(T0) == 1


def test_an_answer_that_comes_back_after_another_is_taken_again(metadata):
    one, two = answer(topic(1, epoch=5)), answer(topic(2, epoch=5))
    for body, leader in ((one, 1), (two, 2), (one, 1)):
        metadata.update(body, 1000)
        assert metadata.leader_id(T0) == leader


def test_a_wanted_topic_that_nobody_uses_is_forgotten_after_max_idle(metadata):
    """As `metadata.max.idle.ms` of Java's producer; one that was deleted was asked about for ever."""
    metadata.max_idle_ms = 300_000
    metadata.want(["t", "deleted"])
    metadata.update(answer(topic(1), topic(name="deleted", code=3)), 0)
    assert metadata.topic_errors == {"deleted": 3}
    for minute in (1, 2, 3, 4):
        metadata.use("t")
        metadata.update(answer(topic(1), topic(name="deleted", code=3)), 60_000 * minute)
        assert metadata.wanted == ["deleted", "t"]
    metadata.update(answer(topic(1), topic(name="deleted", code=3)), 300_000)
    assert metadata.wanted == ["t"]
    assert (metadata.topic_errors, metadata.topic("t").name) == ({}, "t")
    metadata.update(answer(topic(1)), 539_999)
    assert metadata.wanted == ["t"]
    metadata.update(answer(topic(1)), 540_000)
    assert (metadata.wanted, metadata.topic("t")) == ([], None)
    metadata.want(["t"])  # the next row
    metadata.update(answer(topic(1)), 541_000)
    assert metadata.topic("t") is not None


def test_what_batches_wait_for_is_not_forgotten(metadata):
    metadata.max_idle_ms = 300_000
    for minute in range(0, 30, 5):
        metadata.want(["t"])  # the sender, while it holds batches of a topic without a leader
        metadata.update(answer(topic(name="t", code=3)), 60_000 * minute)
    assert metadata.wanted == ["t"]


def test_an_idle_topic_that_a_list_of_all_topics_names_is_known_until_the_next_list(metadata):
    metadata.max_idle_ms = 300_000
    metadata.want(["t"])
    everything = answer(topic(1))
    metadata.update(everything, 0)
    metadata.update(everything, 300_000, of_all=True)
    assert metadata.wanted == []
    assert metadata.leader_id(T0) == 1
    metadata.update(answer(), 300_001, of_all=True)
    assert metadata.topic("t") is None
