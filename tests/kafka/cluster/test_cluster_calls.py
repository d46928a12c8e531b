"""The blocking calls: retries, leaders, coordinators, deadlines, and what a user reads when they fail."""

import os
import pickle
import subprocess
import sys
import threading
import uuid
from dataclasses import dataclass
from functools import partial

import pytest
from fake_broker import (
    CLOSE,
    SILENCE,
    WRONG_CORRELATION_ID,
    Answer,
    Cut,
    Error,
    FakeKafka,
    FakeNet,
    FakeTopic,
    Flip,
    Raw,
    serve,
)

from kafkasource.errors import (
    AnswerTooLarge,
    BootstrapFailed,
    BrokerError,
    ClientClosed,
    ClusterMismatch,
    DeadlineExceeded,
    ProtocolError,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from kafkasource.kafka.cluster import cache
from kafkasource.kafka.cluster.cache import close_clusters, shared_cluster
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.offsets import EARLIEST, LATEST, EpochEnd, ListedOffset
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol import primitives
from kafkasource.kafka.protocol.apis import (
    API_VERSIONS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_GROUPS,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
)
from kafkasource.options import parse
from kafkasource.types import IsolationLevel, ProducerId, TopicPartition

T = [TopicPartition("t", i) for i in range(4)]


@pytest.fixture
def kafka():
    return FakeKafka(nodes=3, topics={"t": 4, "u": 1})


@pytest.fixture
def net(kafka):
    return FakeNet(kafka)


# Topics.


def test_partitions_of_asks_anew_each_time_so_that_added_partitions_show(net, kafka):
    cluster = net.cluster()
    assert cluster.topics.describe(["u"])["u"].topic_partitions == [TopicPartition("u", 0)]
    kafka.topics["u"].leaders.append(2)
    assert len(cluster.topics.describe(["u"])["u"].partitions) == 2


class OfRaft(FakeKafka):
    """Each broker says of the controller what it likes (KafkaApis.handleTopicMetadataRequest of Kafka 4.3: a random
    broker that is alive), and knows of topics what it has heard."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.heard = {}

    def _metadata(self, request):
        topics = self.heard.get(request.node_id)
        now, self.topics = self.topics, self.topics if topics is None else topics
        body = super()._metadata(request)
        self.topics = now
        return {**body, "controller_id": request.node_id}


def list_from(cluster, node_id):
    """The names of all topics, as this broker tells them."""
    pending = cluster.network.refresh_metadata(node_id, None)
    cluster.caller.wait(pending)
    return [topic["name"] for topic in pending.result()["topics"]]


def test_the_same_topics_are_taken_once_whichever_broker_tells_them_and_whoever_is_the_controller():
    cluster = FakeNet(OfRaft(nodes=3, topics={"t": 4})).cluster()
    cluster.topics.list()
    before = cluster.metadata.topic("t")
    for node_id in (1, 2, 3, 1):
        list_from(cluster, node_id)
        assert cluster.metadata.topic("t") is before
        assert cluster.metadata.controller_id == node_id


def test_a_broker_that_lags_behind_takes_back_no_leader_and_hides_no_topic_for_longer_than_its_own_answer():
    kafka = OfRaft(nodes=2, topics={"t": 1, "new": 1})
    kafka.topics["t"] = FakeTopic([2], epochs={0: 5})
    kafka.heard[1] = {"t": FakeTopic([1], kafka.topics["t"].topic_id, epochs={0: 4})}
    cluster = FakeNet(kafka).cluster()
    cluster.topics.list()
    for _ in range(3):
        assert list_from(cluster, 2) == ["t", "new"]
        assert cluster.metadata.topic("new").name == "new"
        assert list_from(cluster, 1) == ["t"]
        assert cluster.leaders.of(TopicPartition("t", 0)) == 2


def test_a_missing_topic_is_none_after_the_time_that_news_of_it_may_take(net):
    cluster = net.cluster()
    start = net.now
    found = cluster.topics.describe(["t", "nope"])
    assert found["nope"] is None
    assert len(found["t"].partitions) == 4
    assert 5 <= net.now - start < 7


def test_a_broker_that_is_still_starting_does_not_make_topics_vanish(net, kafka):
    nobody = {"brokers": [], "cluster_id": None, "controller_id": -1, "topics": []}
    missing = {"error_code": 3, "name": "t", "partitions": []}
    kafka.fault(METADATA, Answer(nobody | {"topics": [missing]}), Answer(nobody), Answer(nobody))
    assert net.cluster().topics.describe(["t"])["t"] is not None
    assert len(net.cluster().topics.list()) == 2


def test_a_topic_created_a_moment_ago_is_waited_for(net, kafka):
    cluster = net.cluster()
    net.later(2, lambda: kafka.topics.update(new=FakeTopic([1])))
    assert cluster.topics.describe(["new"])["new"] is not None
    assert net.now < 1004


def test_a_topic_without_permission_is_an_error_at_once(net, kafka):
    kafka.fault(METADATA, Error(29))
    kafka.fault(METADATA, Error(29))
    start = net.now
    with pytest.raises(TopicAuthorizationFailed, match="topic 't'"):
        net.cluster().topics.describe(["t"])
    assert net.now == start


@pytest.mark.parametrize("code", [-1, 7, 8, 13, 44, 129, 999])
def test_a_code_of_a_topic_that_says_nothing_final_is_asked_about_again(net, kafka, code):
    """Java's producer and librdkafka wait for the topic; only its name (17) and a permission (29) are final there."""
    kafka.fault(METADATA, Error(0), Error(code), Error(code))
    cluster = net.cluster()
    cluster.topics.describe([])
    assert cluster.topics.describe(["t"])["t"] is not None
    kafka.fault(METADATA, Error(code))
    assert net.cluster().leaders.of(T[0]) == 1


@pytest.mark.parametrize("code", [17, 29])
def test_an_invalid_name_and_a_missing_permission_are_final(net, kafka, code):
    kafka.fault(METADATA, *[Error(code)] * 3)
    with pytest.raises(BrokerError):
        net.cluster().topics.describe(["t"])
    assert net.now == 1000


def test_all_topics_come_with_the_internal_ones_flagged(net, kafka):
    kafka.topics["__consumer_offsets"] = FakeTopic([1], internal=True)
    found = net.cluster().topics.list()
    assert {topic.name: topic.internal for topic in found} == {"t": False, "u": False, "__consumer_offsets": True}


def test_all_topics_leave_out_one_for_which_a_broker_reports_an_error_with_a_warning(net, kafka, caplog):
    def row(name, code):
        topic_id = uuid.UUID(int=code + 1)
        return {"error_code": code, "name": name, "topic_id": topic_id, "is_internal": False, "partitions": []}

    cluster = net.cluster()
    cluster.topics.list()
    brokers = [{"node_id": 1, "host": "broker-1", "port": 9092, "rack": None}]
    said = {"brokers": brokers, "cluster_id": None, "controller_id": 1}
    kafka.fault(METADATA, Answer(said | {"topics": [row("whole", 0), row("new", 5), row("gone", 3)]}))
    assert [topic.name for topic in cluster.topics.list()] == ["whole"]
    (warning,) = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert warning.endswith("(LEADER_NOT_AVAILABLE): new")


def with_error(kafka, name, code, answers):
    """The next `answers` of Metadata have this error of a topic."""
    row_of, left = kafka._topic_row, [None] * answers

    def row(asked):
        found = row_of(asked)
        if asked != name or not left:
            return found
        left.pop()
        return {**found, "error_code": code, "partitions": []}

    kafka._topic_row = row


@pytest.mark.parametrize("code", [5, -1, 7])  # LEADER_NOT_AVAILABLE, UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT
def test_an_error_of_a_known_topic_does_not_take_it_out_of_the_list(net, kafka, code):
    cluster = net.cluster()
    before = cluster.topics.list()
    with_error(kafka, "u", code, answers=100)
    assert cluster.topics.list() == before


def test_a_wanted_topic_with_an_error_is_asked_for_again_and_then_listed(net, kafka):
    with_error(kafka, "u", 5, answers=4)
    found = net.cluster().topics.list(wanted="u".__eq__)
    assert {topic.name for topic in found} == {"t", "u"}


@pytest.mark.parametrize(("code", "error"), [(5, DeadlineExceeded), (29, TopicAuthorizationFailed)])
def test_a_wanted_topic_whose_error_stays_is_an_error_and_not_an_absence(net, kafka, code, error):
    with_error(kafka, "u", code, answers=1000)
    with pytest.raises(error, match="topic 'u' in the list of all topics"):
        net.cluster(default_api_timeout_ms=5_000).topics.list(wanted="u".__eq__)
    assert [topic.name for topic in net.cluster().topics.list(wanted="t".__eq__)] == ["t"]


def test_an_internal_topic_with_an_error_is_in_nobodys_way(net, kafka):
    kafka.topics["__consumer_offsets"] = FakeTopic([1], internal=True)
    with_error(kafka, "__consumer_offsets", 5, answers=1000)
    assert len(net.cluster().topics.list(wanted=lambda name: True)) == 2


def test_no_request_ever_lets_a_broker_create_a_topic(net, kafka):
    cluster = net.cluster()
    cluster.topics.describe(["nope"], propagation_ms=0)
    with pytest.raises(UnknownTopicOrPartition):
        cluster.leaders.of(TopicPartition("nope", 0))
    assert not any(request.body["allow_auto_topic_creation"] for request in kafka.asked(METADATA))


def test_created_topics_have_leaders_when_the_call_returns_and_deleted_ones_are_forgotten(net):
    cluster = net.cluster()
    cluster.topics.create(["x", "y"], partitions=3)
    assert {cluster.leaders.of(TopicPartition("x", i)) for i in range(3)} == {1, 2, 3}
    cluster.topics.delete(["x"])
    assert cluster.metadata.topic_id("x") is None
    with pytest.raises(TopicAlreadyExists, match="'y'"):
        cluster.topics.create(["y"])


def test_a_deleted_topic_is_gone_when_the_call_returns_though_news_of_it_travels(net, kafka):
    cluster = net.cluster()
    old, kafka._delete_topics = kafka.topics["u"], lambda request: {"responses": [{"name": "u", "error_code": 0}]}
    net.later(1, lambda: kafka.topics.pop("u"))
    cluster.topics.delete(["u"])
    assert "u" not in kafka.topics
    kafka.topics["u"] = old  # a broker that never hears of it, or a new topic of the name
    start = net.now
    cluster.topics.delete(["u"])
    assert 4 < net.now - start < 7


def test_a_topic_whose_creation_lost_its_answer_counts_as_created(net, kafka):
    kafka.fault(CREATE_TOPICS, Cut(0))
    net.cluster().topics.create(["x"])
    assert len(kafka.asked(CREATE_TOPICS)) == 2


@dataclass
class Late:
    """A controller that does what it is asked for, and answers REQUEST_TIMED_OUT for topic x: a leader was slow."""

    kafka: FakeKafka

    def __post_init__(self):
        for name in ("_create_topics", "_delete_topics", "_create_partitions"):
            setattr(self.kafka, name, partial(self._once, name, getattr(self.kafka, name, self._add)))

    def _once(self, name, do, request):
        setattr(self.kafka, name, do)
        (rows,) = (answer := do(request)).values()
        for row in rows:
            row["error_code"] = row["error_code"] or (7 if row["name"] == "x" else 0)
        return answer

    def _add(self, request):
        rows = []
        for asked in request.body["topics"]:
            leaders = self.kafka.topics[asked["name"]].leaders
            rows.append({"name": asked["name"], "error_code": 0 if asked["count"] > len(leaders) else 37})
            leaders += [1] * (asked["count"] - len(leaders))
        return {"results": rows}


def test_what_a_controller_did_though_it_waited_no_longer_is_done(net, kafka):
    """KafkaApis answers so where timeout_ms is over, and goes on; the next attempt finds it done."""
    Late(kafka)
    cluster = net.cluster()
    cluster.topics.create(["w", "x"])
    cluster.topics.add_partitions({"w": 2, "x": 2})
    assert kafka.topics["x"].leaders == [1, 1]
    cluster.topics.delete(["w", "x"])
    assert not {"w", "x"} & kafka.topics.keys()
    assert [len(kafka.asked(api)) for api in (CREATE_TOPICS, CREATE_PARTITIONS, DELETE_TOPICS)] == [2, 2, 2]


class OneAtATime(FakeKafka):
    """A quota lets one topic of a request through (KIP-599)."""

    def _create_topics(self, request):
        first, *others = request.body["topics"]
        (row,) = super()._create_topics(request._replace(body={"topics": [first]}))["topics"]
        refused = [{"name": each["name"], "error_code": 89, "error_message": "quota"} for each in others]
        return {"topics": [row, *refused]}


def test_of_several_topics_only_those_that_are_not_made_yet_are_asked_for_again():
    """As Java's AdminClient does: each request counts against the quota, and a topic may be deleted by then."""
    kafka = OneAtATime()
    cluster = FakeNet(kafka).cluster()
    cluster.topics.create(["x", "y", "z"])
    asked = [[topic["name"] for topic in request.body["topics"]] for request in kafka.asked(CREATE_TOPICS)]
    assert asked == [["x", "y", "z"], ["y", "z"], ["z"]]


@pytest.mark.parametrize("names", [["bad", "busy", "good"], ["busy", "good", "bad"]])
def test_a_refusal_for_good_is_raised_at_once_and_beside_errors_that_pass(net, kafka, names):
    codes = {"bad": 17, "busy": 89, "good": 0}
    rows = [{"name": name, "error_code": codes[name], "error_message": None} for name in names]
    kafka.fault(CREATE_TOPICS, Answer({"topics": rows}))
    with pytest.raises(BrokerError, match=r"INVALID_TOPIC_EXCEPTION.*'bad'|'bad'.*INVALID_TOPIC_EXCEPTION"):
        net.cluster().topics.create(names)
    assert len(kafka.asked(CREATE_TOPICS)) == 1


def test_a_topic_that_there_was_before_is_an_error_also_where_another_one_took_long(net, kafka):
    Late(kafka)
    with pytest.raises(TopicAlreadyExists, match="'u'"):
        net.cluster().topics.create(["x", "u"])


def test_a_topic_that_there_was_before_does_not_count_as_created_where_another_answer_was_lost(net, kafka):
    kafka.fault(METADATA, Cut(0))  # the question who the controller is
    with pytest.raises(TopicAlreadyExists, match="'u'"):
        net.cluster().topics.create(["u"])


# Offsets of logs.


def test_offsets_are_listed_with_one_request_per_leader(net, kafka):
    wanted = {T[0]: EARLIEST, T[1]: LATEST, T[2]: LATEST, T[3]: LATEST}
    found = net.cluster().offsets.list(wanted, IsolationLevel.READ_COMMITTED)
    assert found == {T[0]: ListedOffset(0, None, 0), **{tp: ListedOffset(100, None, 0) for tp in T[1:]}}
    asked = kafka.asked(LIST_OFFSETS)
    assert sorted(request.node_id for request in asked) == [1, 2, 3]
    assert {request.body["isolation_level"] for request in asked} == {1}


@pytest.mark.parametrize("last_version", [0, 4, 10])
@pytest.mark.parametrize("symbol", [EARLIEST, LATEST])
def test_an_answer_without_the_end_of_a_log_is_asked_for_again(net, kafka, last_version, symbol):
    kafka.versions[LIST_OFFSETS.key] = (0, last_version)
    row = {"partition_index": 0, "error_code": 0, "timestamp": -1, "offset": -1, "old_style_offsets": []}
    kafka.fault(LIST_OFFSETS, Answer({"topics": [{"name": "t", "partitions": [row]}]}))
    assert net.cluster().offsets.list({T[0]: symbol})[T[0]].offset == {EARLIEST: 0, LATEST: 100}[symbol]


class ChangingController(FakeKafka):
    """`late`: a node that was the controller, and has not heard that another one is."""

    controller, late = 1, None

    def _metadata(self, request):
        named = request.node_id if request.node_id == self.late else self.controller
        return super()._metadata(request) | {"controller_id": named}

    def _create_topics(self, request):
        if request.node_id == self.controller:
            return super()._create_topics(request)
        return {"topics": [{"name": topic["name"], "error_code": 41} for topic in request.body["topics"]]}

    def _delete_topics(self, request):
        if request.node_id == self.controller:
            return super()._delete_topics(request)
        return {"responses": [{"name": topic["name"], "error_code": 41} for topic in request.body["topics"]]}


@pytest.mark.parametrize("all_know", [True, False])
def test_a_controller_that_has_changed_is_found_at_once(all_know):
    """The old one lives on, so that no lost connection tells of it."""
    kafka = ChangingController(nodes=3, topics={"t": 1})
    cluster = FakeNet(kafka).cluster()
    cluster.brokers()
    for controller, change, api in ((2, "create", CREATE_TOPICS), (3, "delete", DELETE_TOPICS)):
        before = kafka.controller
        kafka.controller, kafka.late = controller, None if all_know else before
        getattr(cluster.topics, change)(["new"])
        assert [request.node_id for request in kafka.asked(api)] == [before, controller]


def test_a_client_that_lists_all_topics_remembers_those_that_there_are(net, kafka):
    cluster = net.cluster()
    for day in range(10):
        kafka.topics = {"t": kafka.topics["t"], f"job-{day}": FakeTopic([1])}
        cluster.topics.list()
    assert [topic.name for topic in cluster.metadata.topics()] == ["t", "job-9"]


def test_a_timestamp_after_the_last_record_has_no_offset(net):
    assert net.cluster().offsets.list({T[0]: 1_700_000_000_000})[T[0]].offset is None


def test_a_leader_that_moves_after_all_topics_were_listed_is_found(net, kafka):
    cluster = net.cluster(default_api_timeout_ms=20_000)
    cluster.topics.list()  # as a query by pattern does, which names none of them
    kafka.move_leader("t", 1, 3)
    assert len(cluster.offsets.list(dict.fromkeys(T, LATEST))) == 4


def test_a_moved_leader_is_found_and_only_its_partition_asked_again(net, kafka):
    cluster = net.cluster()
    cluster.offsets.list(dict.fromkeys(T, LATEST))
    kafka.requests.clear()
    kafka.move_leader("t", 1, 3)
    assert len(cluster.offsets.list(dict.fromkeys(T, LATEST))) == 4
    again = kafka.asked(LIST_OFFSETS)[-1]
    assert again.node_id == 3
    (asked,) = again.body["topics"][0]["partitions"]
    assert (asked["partition_index"], asked["current_leader_epoch"]) == (1, 1)


@pytest.mark.parametrize("code", [5, 6, 7, 9, 13, 56, 74, 75, 78, 100])
def test_a_retriable_error_is_retried(net, kafka, code):
    cluster = net.cluster()
    kafka.fault(LIST_OFFSETS, Error(code))
    assert cluster.offsets.list({T[0]: LATEST})[T[0]].offset == 100


@pytest.mark.parametrize("fault", [CLOSE, WRONG_CORRELATION_ID, Cut(7), Raw(b"\xff" * 8), Flip(0), Flip(7)])
def test_a_broken_answer_is_retried_on_a_new_connection(net, kafka, fault):
    cluster = net.cluster()
    cluster.topics.describe(["t"])
    kafka.fault(LIST_OFFSETS, fault)
    assert cluster.offsets.list({T[0]: LATEST})[T[0]].offset == 100


def test_a_silent_broker_is_given_up_and_the_question_put_again(net, kafka):
    cluster = net.cluster(request_timeout_ms=3000)
    kafka.fault(LIST_OFFSETS, SILENCE)
    assert cluster.offsets.list({T[0]: LATEST})[T[0]].offset == 100
    assert 1003 <= net.now < 1005


def test_an_attempt_without_an_answer_does_not_hide_that_the_listener_closed_on_the_one_before(net, kafka):
    kafka.fault(METADATA, CLOSE, *[SILENCE] * 100)
    with pytest.raises(DeadlineExceeded, match=r"; before it: .*'kafka\.security\.protocol'"):
        net.cluster(default_api_timeout_ms=20_000).topics.list()


def test_a_fatal_error_is_not_retried(net, kafka):
    kafka.fault(LIST_OFFSETS, Error(29))
    with pytest.raises(TopicAuthorizationFailed, match="t-0"):
        net.cluster().offsets.list({T[0]: LATEST})
    assert len(kafka.asked(LIST_OFFSETS)) == 1


def test_a_partition_that_does_not_exist_is_an_error_after_a_while(net):
    start = net.now
    with pytest.raises(UnknownTopicOrPartition, match="u-7"):
        net.cluster().offsets.list({TopicPartition("u", 7): LATEST})
    assert net.now - start < 8


def test_a_partition_that_stays_without_leader_ends_at_the_deadline_which_says_so(net, kafka):
    kafka.topics["u"].leaders[0] = -1
    start = net.now
    with pytest.raises(DeadlineExceeded, match=r"u-0.*default\.api\.timeout\.ms.*LEADER_NOT_AVAILABLE"):
        net.cluster(default_api_timeout_ms=20_000).offsets.list({TopicPartition("u", 0): LATEST})
    assert 18 <= net.now - start <= 20


def test_leader_epochs_end_where_each_leader_says_or_are_unknown(net, kafka):
    kafka.topics["t"].epoch_ends = {(0, 3): 40, (1, 3): -1}
    found = net.cluster().offsets.epoch_ends({T[0]: 3, T[1]: 3, T[2]: 0})
    assert found == {T[0]: EpochEnd(3, 40), T[1]: EpochEnd(None, None), T[2]: EpochEnd(0, 100)}
    asked = kafka.asked(OFFSET_FOR_LEADER_EPOCH)
    assert sorted(request.node_id for request in asked) == [1, 2, 3]
    assert {request.body["replica_id"] for request in asked} == {-1}  # -2, the default, is a debugger


def test_an_epochs_end_is_asked_of_the_new_leader_where_it_moved(net, kafka):
    cluster = net.cluster()
    cluster.offsets.list({T[1]: LATEST})
    kafka.move_leader("t", 1, 3)
    kafka.topics["t"].epoch_ends[1, 0] = 60
    assert cluster.offsets.epoch_ends({T[1]: 0}) == {T[1]: EpochEnd(0, 60)}
    (asked,) = kafka.asked(OFFSET_FOR_LEADER_EPOCH)[-1].body["topics"][0]["partitions"]
    assert asked == {"partition": 1, "current_leader_epoch": 1, "leader_epoch": 0}


# Groups and producers.


def test_the_coordinator_is_found_once_and_again_when_it_moved(net, kafka):
    cluster = net.cluster()
    cluster.groups.commit("g", {T[0]: 5})
    cluster.groups.commit("g", {T[0]: 6})
    assert len(kafka.asked(FIND_COORDINATOR)) == 1
    kafka.coordinator = 2
    cluster.groups.commit("g", {T[0]: 7})
    assert [request.node_id for request in kafka.asked(OFFSET_COMMIT)] == [1, 1, 1, 2]
    assert kafka.committed == {("g", "t", 0): 7}


@pytest.mark.parametrize("code", [14, 15, 16])
def test_a_coordinator_that_is_not_ready_is_waited_for(net, kafka, code):
    kafka.fault(FIND_COORDINATOR, Error(15))
    kafka.fault(OFFSET_COMMIT, Error(code))
    net.cluster().groups.commit("g", {T[0]: 5})
    assert kafka.committed == {("g", "t", 0): 5}


@pytest.mark.parametrize("code", [-1, 999])
def test_a_coordinator_that_a_broker_fails_to_find_for_an_unknown_reason_is_asked_for_again(net, kafka, code):
    kafka.fault(FIND_COORDINATOR, Error(code))
    net.cluster().groups.commit("g", {T[0]: 5})
    assert kafka.committed == {("g", "t", 0): 5}


@pytest.mark.parametrize("last_version", [7, 9])
def test_committed_offsets_are_fetched_and_those_below_zero_are_none(net, kafka, last_version):
    kafka.versions[OFFSET_FETCH.key] = (1, last_version)
    kafka.committed.update({("g", "t", 0): 5, ("g", "t", 1): -7})
    assert net.cluster().groups.committed_offsets("g", T[:3]) == {T[0]: 5, T[1]: None, T[2]: None}


@pytest.mark.parametrize("last_version", [2, 7, 9])
@pytest.mark.parametrize("wanted", [None, T[:2]])
def test_a_group_that_its_coordinator_does_not_know_has_committed_nothing(net, kafka, last_version, wanted):
    """Apache's brokers answer without an error; franz-go's kfake says GROUP_ID_NOT_FOUND."""
    kafka.versions[OFFSET_FETCH.key] = (1, last_version)
    row = {"group_id": "new", "topics": [], "error_code": 69}
    kafka.fault(OFFSET_FETCH, Answer({"groups": [row]} if last_version >= 8 else {"topics": [], "error_code": 69}))
    assert net.cluster().groups.committed("new", wanted) == dict.fromkeys(wanted or ())


def test_all_committed_offsets_of_a_group_come_from_a_server_without_list_groups(net, kafka):
    del kafka.versions[LIST_GROUPS.key]
    kafka.committed[("g", "t", 0)] = 5
    assert net.cluster().groups.committed_offsets("g", T[:1]) == {T[0]: 5}
    assert {tp: one.offset for tp, one in net.cluster().groups.committed("g").items()} == {T[0]: 5}


@pytest.mark.parametrize("rows", [[], [{"group_id": "other", "topics": [], "error_code": 0}]])
def test_an_answer_without_the_group_that_was_asked_for_is_no_proof_that_it_has_committed_nothing(net, kafka, rows):
    kafka.fault(OFFSET_FETCH, Answer({"groups": rows}))
    with pytest.raises(ProtocolError, match="OffsetFetch of 'g': the answer does not name the group"):
        net.cluster().groups.committed("g", T[:2])


def test_a_group_with_live_members_and_a_negative_offset_are_errors(net, kafka):
    kafka.fault(OFFSET_COMMIT, Error(25))
    cluster = net.cluster()
    with pytest.raises(UnknownMemberId, match=r"kafka\.group\.id"):
        cluster.groups.commit("g", {T[0]: 5})
    with pytest.raises(ValueError, match="negative"):
        cluster.groups.commit("g", {T[0]: -5})


def test_a_producer_id_is_any_brokers_or_the_coordinators(net, kafka):
    cluster = net.cluster()
    assert cluster.transactions.init_producer_id() == ProducerId(1, 0)
    kafka.coordinator = 3
    kafka.fault(INIT_PRODUCER_ID, Error(51))
    assert cluster.transactions.init_producer_id("tx") == ProducerId(3, 0)  # the second was answered with 51
    assert kafka.asked(INIT_PRODUCER_ID)[-1].node_id == 3


# Bootstrap.


def test_when_nobody_can_be_reached_each_server_is_named_with_its_reason(net):
    net.fates.update({"a": "refused", "b": "unreachable"})
    net.hosts["c"] = []
    cluster = net.cluster("a:1,b:2,c:3", default_api_timeout_ms=60_000)
    start = net.now
    with pytest.raises(BootstrapFailed) as raised:
        cluster.topics.describe(["t"])
    assert 50 <= net.now - start <= 61
    text = str(raised.value)
    assert "a:1: Connection refused (errno 111)" in text
    assert "b:2: no connection in time" in text
    assert "c:3: cannot resolve the name: Name or service not known" in text
    assert "kafka.bootstrap.servers" in text
    assert "kafka.default.api.timeout.ms" in text
    assert str(pickle.loads(pickle.dumps(raised.value))) == text


def test_a_server_that_takes_the_connection_and_says_nothing_is_named_with_what_it_may_be(net, kafka):
    kafka.fault(API_VERSIONS, *[SILENCE] * 100)
    kafka.fault(DESCRIBE_GROUPS, *[SILENCE] * 100)  # what a broker from before ApiVersions would answer
    with pytest.raises(BootstrapFailed) as raised:
        net.cluster(default_api_timeout_ms=5000).topics.describe([])
    assert (
        "bootstrap:9092: connected, but no answer to ApiVersions: is it a port of Kafka's, or a listener with TLS"
        " (then set kafka.security.protocol=SSL)?"
    ) in str(raised.value)


def test_a_call_says_how_often_it_was_tried_and_what_for(net, kafka):
    kafka.fault(METADATA, *[SILENCE] * 100)
    said = r"^the list of brokers: not done by the cluster at bootstrap:9092 within 5000 ms and 1 attempt \("
    with pytest.raises(DeadlineExceeded, match=said):
        net.cluster(default_api_timeout_ms=5000).topics.describe([])


def test_a_question_for_versions_that_reaches_no_broker_any_more_says_where_it_looked(net):
    cluster = net.cluster(default_api_timeout_ms=5000)
    cluster.topics.describe([])
    net.fates.update(dict.fromkeys(("bootstrap", "broker-1", "broker-2", "broker-3"), "refused"))
    cluster.network.rest()
    with pytest.raises(DeadlineExceeded) as raised:
        cluster.supports(METADATA, 4)
    assert "versions of Metadata" in str(raised.value)
    assert "bootstrap:9092" in str(raised.value)
    assert "Connection refused" in str(raised.value)


def test_one_living_bootstrap_server_is_enough(net):
    net.fates.update({"a": "refused", "b": "refused"})
    assert net.cluster("a:1,b:2,bootstrap:9092").topics.describe(["t"])["t"] is not None
    assert net.now < 1001


def test_a_cluster_that_starts_late_is_waited_for(net):
    net.fates["bootstrap"] = "refused"
    net.later(30, net.fates.clear)
    assert net.cluster().topics.describe(["t"])["t"] is not None
    assert 1030 <= net.now < 1033


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"), (b"\x15\x03\x03\0\2\2\x50", "kafka.security.protocol")],
)
def test_a_server_that_does_not_speak_kafka_fails_at_once(net, kafka, data, text):
    kafka.fault(API_VERSIONS, Raw(data), Raw(data))
    start = net.now
    with pytest.raises(BootstrapFailed, match=text):
        net.cluster().topics.describe(["t"])
    assert net.now - start < 1


@pytest.mark.parametrize("fault", [WRONG_CORRELATION_ID, Flip(0), Flip(7), Raw(b"\xff" * 8)])
@pytest.mark.parametrize("first", [0, 1])  # connection: to the bootstrap server, to the leader
def test_damage_while_versions_are_negotiated_is_retried(net, kafka, first, fault):
    cluster = net.cluster(socket_connection_setup_timeout_ms=1000)
    if first:
        cluster.topics.describe(["t"])
    kafka.fault(API_VERSIONS, fault)
    assert cluster.offsets.list({T[0]: LATEST})[T[0]].offset == 100


def test_an_advertised_address_that_nobody_can_reach_is_in_the_error(net):
    net.fates["broker-1"] = "refused"
    with pytest.raises(DeadlineExceeded, match=r"broker 1 at broker-1:9092.*advertised\.listeners"):
        net.cluster(default_api_timeout_ms=5000).offsets.list({T[0]: LATEST})


@pytest.mark.parametrize("timeout_ms", [100, 1000, 2000, 3000, 4000, 5000])  # other last errors
def test_brokers_that_are_gone_for_good_are_named_with_the_option_that_waits_longer(net, kafka, timeout_ms):
    cluster = net.cluster(default_api_timeout_ms=timeout_ms)
    cluster.topics.describe(["t"])
    net.fates.update(dict.fromkeys(["bootstrap", "broker-1", "broker-2", "broker-3"], "refused"))
    kafka.fault(METADATA, CLOSE)
    with pytest.raises(DeadlineExceeded, match=r"kafka\.default\.api\.timeout\.ms.*(broker-\d|bootstrap):9092"):
        cluster.topics.describe(["t"])


def test_brokers_of_two_clusters_are_never_mixed(net, kafka):
    cluster = net.cluster()
    cluster.topics.describe(["t"])
    kafka.cluster_id = "another"
    with pytest.raises(ClusterMismatch):
        cluster.topics.describe(["t"])
    with pytest.raises(ClusterMismatch):
        cluster.offsets.list({T[0]: LATEST})


@pytest.mark.parametrize("known", [["u"], []])
def test_an_answer_that_is_too_large_for_us_is_an_error_at_once(net, kafka, monkeypatch, known):
    """It was fetched again until the deadline. Also where nothing is known yet, when bytes that make no sense are no
    error: another bootstrap server may answer."""
    kafka.topics["t"] = FakeTopic([1] * 1000)
    cluster = net.cluster()
    for name in known:
        cluster.topics.describe([name])
    monkeypatch.setattr(primitives, "MAX_MEMORY_BYTES", 100_000)
    monkeypatch.setitem(vars(METADATA.response), "memory_factor", 0)
    kafka.requests.clear()
    start = net.now
    with pytest.raises(AnswerTooLarge, match=r"Metadata response .* array of 1000 elements"):
        cluster.topics.list()
    assert net.now == start
    assert len([asked for asked in kafka.asked(METADATA) if asked.body["topics"] is None]) == 1


def test_close_ends_the_call_of_another_thread_that_waits_for_a_broker_without_an_answer():
    kafka, asked, errors = FakeKafka(topics={"t": 1}), threading.Event(), []
    with serve(kafka) as (host, port):
        config = ClientConfig.of(f"{host}:{port}", request_timeout_ms=600_000, default_api_timeout_ms=600_000)
        cluster = Cluster(config)
        cluster.topics.list()
        kafka._metadata = lambda request: asked.set()  # and no answer

        def call():
            try:
                cluster.topics.list()
            except ClientClosed as error:
                errors.append(error)

        threads = [threading.Thread(target=each, daemon=True) for each in (call, cluster.close)]
        threads[0].start()
        assert asked.wait(60)
        threads[1].start()
        for thread in threads:
            thread.join(20)
        assert [thread.is_alive() for thread in threads] == [False, False]
        assert len(errors) == 1


# What is kept, and what crosses processes.


def test_the_config_comes_from_the_options_and_crosses_processes():
    written = {"kafka.bootstrap.servers": "a:1,[::1]:2", "kafka.request.timeout.ms": "7", "kafka.client.id": "me"}
    config = ClientConfig.from_options(parse(written, "source"))
    assert config.bootstrap_servers == (("a", 1), ("::1", 2))
    assert (config.request_timeout_ms, config.client_id) == (7, "me")
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(pickle.loads(pickle.dumps(config))) == hash(config)


def test_a_config_with_secrets_crosses_processes_and_never_prints_them():
    written = {
        "kafka.bootstrap.servers": "a:1",
        "kafka.security.protocol": "sasl_ssl",
        "kafka.ssl.key.password": "hunter1",
        "kafka.ssl.keystore.location": "/a/keystore.pem",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": "kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="alice" password="hunter2";',
    }
    parsed = parse(written, "source")
    config = ClientConfig.from_options(parsed)
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(pickle.loads(pickle.dumps(config))) == hash(config)
    for text in (repr(parsed), repr(config), str(config.security), repr(pickle.loads(pickle.dumps(parsed)))):
        assert "hunter" not in text


def test_a_vendors_name_sets_the_protocol_and_a_protocol_that_is_given_counts():
    cloud = {
        "kafka.bootstrap.servers": "pkc-1.eu.confluent.cloud:9092",
        "kafka.auth": "confluent",
        "kafka.sasl.username": "key",
        "kafka.sasl.password": "secret",
    }

    def protocol(**more):
        return ClientConfig.from_options(parse({**cloud, **more}, "source")).security.protocol

    assert protocol() == "SASL_SSL"
    assert protocol(**{"kafka.security.protocol": "sasl_plaintext"}) == "SASL_PLAINTEXT"


def test_a_cluster_is_kept_per_config_and_does_not_pickle():
    config, other = ClientConfig.of("a:1"), ClientConfig.of("a:2")
    first = shared_cluster(config)
    assert shared_cluster(ClientConfig.of("a:1")) is first
    assert shared_cluster(other) is not first
    with pytest.raises(TypeError, match="ClientConfig"):
        pickle.dumps(first)
    close_clusters()
    assert shared_cluster(config) is not first
    close_clusters()


def test_after_a_broker_of_another_cluster_has_answered_the_next_who_asks_gets_a_new_cluster(wait, kafka):
    cluster = shared_cluster(ClientConfig.of("bootstrap:1"))
    cluster.topics.list()
    kafka.cluster_id = "another"
    with pytest.raises(ClusterMismatch):
        cluster.topics.list()
    kafka.cluster_id = "fake-cluster"
    assert len(shared_cluster(cluster.config).topics.list()) == 2
    with pytest.raises(ClusterMismatch):
        cluster.topics.list()  # who holds it mixes nothing
    wait(301)
    shared_cluster(cluster.config)
    assert not has_sockets(cluster)


def test_a_forked_child_does_not_use_its_parents_cluster():
    config = ClientConfig.of("a:1")
    before = shared_cluster(config)
    child = os.fork()
    if child == 0:
        os._exit(0 if shared_cluster(config) is not before else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert shared_cluster(config) is before
    close_clusters()


def test_a_process_that_ends_closes_its_shared_clusters():
    code = (
        "from kafkasource.kafka.cluster.cache import shared_cluster\n"
        "from kafkasource.kafka.config import ClientConfig\n"
        "shared_cluster(ClientConfig.of('a:1'))"
    )
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, check=True)
    assert "ResourceWarning" not in done.stderr


@pytest.fixture
def wait(monkeypatch, kafka):
    """The clusters that this process keeps are of fake brokers; moves their clocks on, in seconds."""
    nets, waited = [], [0]

    def made(config):
        nets.append(FakeNet(kafka))
        nets[-1].now += waited[0]
        return Cluster(config, **nets[-1].parts())

    def wait(seconds):
        waited[0] += seconds
        for net in nets:
            net.now += seconds

    close_clusters()
    monkeypatch.setattr(cache, "Cluster", made)
    yield wait
    close_clusters()


def has_sockets(cluster):
    return cluster.network.poller.is_open


def test_a_cluster_that_nobody_has_used_for_five_minutes_goes_when_another_is_asked_for(wait):
    first, second = (shared_cluster(ClientConfig.of(f"bootstrap:{port}")) for port in (1, 2))
    assert first.topics.list()
    wait(200)
    assert second.topics.list()
    wait(101)
    assert shared_cluster(second.config) is second
    assert shared_cluster(first.config) is not first


def test_of_more_than_eight_clusters_those_go_that_were_unused_for_longest(wait):
    made = []
    for port in range(1, 21):
        made.append(shared_cluster(ClientConfig.of(f"bootstrap:{port}")))
        made[-1].topics.list()
        wait(1)
    assert all(shared_cluster(one.config) is one for one in made[-8:])
    assert [has_sockets(one) for one in made] == [False] * 12 + [True] * 8


def test_a_cluster_in_use_stays_and_one_that_went_is_used_on_by_who_holds_it(wait, monkeypatch):
    monkeypatch.setattr(cache, "_MOST_CLUSTERS", 1)
    first = shared_cluster(ClientConfig.of("bootstrap:1"))
    node = first.topics.list() and next(iter(first.metadata.nodes())).node_id
    asked = first.caller.send(node, METADATA, {"topics": []})  # its answer is not here yet
    wait(20)
    second = shared_cluster(ClientConfig.of("bootstrap:2"))
    assert shared_cluster(first.config) is first
    first.caller.wait(asked)
    assert asked.result()
    wait(400)
    shared_cluster(ClientConfig.of("bootstrap:3"))
    assert not has_sockets(first)
    first.caller.wakeup()
    assert first.caller.poll(60_000) == []  # the next poll, and at once
    assert first.topics.list()
    assert second.topics.list()
    wait(400)
    shared_cluster(ClientConfig.of("bootstrap:3"))
    assert not has_sockets(first)
    assert not has_sockets(second)
