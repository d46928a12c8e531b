"""Groups and settings, asked of brokers in this process that answer as they are told."""

import re
import uuid

import pytest
from fake_broker import CLOSE, Answer, FakeKafka, FakeNet

from kafkasource.errors import (
    BrokerError,
    DeadlineExceeded,
    KafkaSourceError,
    ProtocolError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    UnsupportedApiVersion,
)
from kafkasource.kafka import ClientConfig, Cluster, TopicPartition
from kafkasource.kafka.protocol.apis import (
    ALTER_CONFIGS,
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    DESCRIBE_LOG_DIRS,
    FIND_COORDINATOR,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_GROUPS,
    OFFSET_DELETE,
)


@pytest.fixture
def kafka():
    return FakeKafka(nodes=2, topics={"t": 2})


@pytest.fixture
def admin(kafka):
    with Cluster(ClientConfig.of("bootstrap:9092"), **FakeNet(kafka).parts()) as admin:
        yield admin


def listed(*names):
    row = {"protocol_type": "consumer", "group_state": "Stable", "group_type": "classic"}
    return Answer({"error_code": 0, "groups": [{"group_id": name, **row} for name in names]})


def described(group="g", state="Stable", code=0, members=()):
    row = {"error_code": code, "group_id": group, "group_state": state, "protocol_type": "consumer"}
    return Answer({"groups": [{**row, "protocol_data": "range", "members": list(members)}]})


MEMBER = {
    "member_id": "m-1",
    "group_instance_id": None,
    "client_id": "c",
    "client_host": "/10.0.0.1",
    "member_metadata": b"",
    "member_assignment": b"\x00\x03",
}


def test_every_broker_is_asked_for_its_groups(kafka, admin):
    kafka.fault(LIST_GROUPS, listed("b"), listed("a"))
    assert [(each.group, each.state, each.type) for each in admin.groups.list()] == [
        ("a", "Stable", "classic"),
        ("b", "Stable", "classic"),
    ]
    assert {request.node_id for request in kafka.asked(LIST_GROUPS)} == {1, 2}


def test_a_coordinator_that_loads_is_asked_again_for_its_groups(kafka, admin):
    kafka.fault(LIST_GROUPS, Answer({"error_code": 14, "groups": []}), listed("a"), listed("b"))
    assert [each.group for each in admin.groups.list()] == ["a", "b"]


class Listing(FakeKafka):
    """Each broker coordinates one group."""

    def __init__(self):
        super().__init__(nodes=2)
        self.code_of_2 = 0

    def _list_groups(self, request):
        (row,) = listed(f"of-{request.node_id}").body["groups"]
        code = self.code_of_2 if request.node_id == 2 else 0
        return {"error_code": code, "groups": [] if code else [row]}


@pytest.mark.parametrize("trouble", [14, 15, "refused", "blackhole"])
def test_a_coordinator_that_is_away_or_loads_for_long_costs_a_listing_seconds_and_its_own_groups(trouble):
    """Java's ListGroupsResult has valid() beside errors() for that."""
    kafka = Listing()
    net = FakeNet(kafka)
    admin = net.cluster()
    if trouble in (14, 15):
        kafka.code_of_2 = trouble
    else:
        net.fates["broker-2"] = trouble
    begun = net.now
    groups, unreachable = admin.groups.list_reachable()
    assert ([each.group for each in groups], list(unreachable)) == (["of-1"], [2])
    assert net.now - begun < 12
    with pytest.raises(DeadlineExceeded, match="ListGroups"):
        admin.groups.list()


def test_where_no_broker_lists_its_groups_the_listing_fails():
    net = FakeNet(Listing())
    admin = net.cluster()
    admin.topics.list()
    net.fates.update(dict.fromkeys(["broker-1", "broker-2", "bootstrap"], "refused"))
    for transport in net.live():
        transport.reset = True
    with pytest.raises(DeadlineExceeded, match="ListGroups"):
        admin.groups.list_reachable()


def test_a_group_is_described_by_its_coordinator_wherever_that_moved(kafka, admin):
    kafka.fault(DESCRIBE_GROUPS, described(code=16), CLOSE, described(members=[MEMBER]))
    group = admin.groups.describe(["g"])["g"]
    assert (group.state, group.assignor) == ("Stable", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.host, member.assignment) == ("m-1", "c", "10.0.0.1", b"\x00\x03")
    assert len(kafka.asked(FIND_COORDINATOR)) == 3


@pytest.mark.parametrize("answer", [described(state="Dead"), described(code=69)])
def test_a_group_that_does_not_exist_is_none_in_old_words_and_new(kafka, admin, answer):
    kafka.fault(DESCRIBE_GROUPS, answer)
    assert admin.groups.describe(["g"]) == {"g": None}


def assigned(**topics):
    return {
        "topic_partitions": [
            {"topic_id": uuid.UUID(int=1), "topic_name": name, "partitions": each} for name, each in topics.items()
        ]
    }


def described_by_coordinator(code=0, **member):
    row = {
        **{"member_id": "m-1", "instance_id": "i", "member_epoch": 2, "client_id": "c", "client_host": "/10.0.0.1"},
        **{"subscribed_topic_names": ["t"], **member},
    }
    group = {"error_code": code, "group_id": "g", "group_state": "Reconciling", "assignor_name": "uniform"}
    return Answer({"groups": [{**group, "group_epoch": 3, "assignment_epoch": 3, "members": [row]}]})


@pytest.mark.parametrize("unknown", [described(state="Dead"), described(code=69)])
def test_a_group_whose_coordinator_assigns_tells_what_each_has_and_waits_for(kafka, admin, unknown):
    kafka.fault(DESCRIBE_GROUPS, unknown)
    having = {"assignment": assigned(t=[1]), "target_assignment": assigned(t=[0, 1], u=[5])}
    kafka.fault(CONSUMER_GROUP_DESCRIBE, described_by_coordinator(code=16), described_by_coordinator(**having))
    group = admin.groups.describe(["g"])["g"]
    assert (group.state, group.protocol_type, group.assignor, group.type) == (
        *("Reconciling", "consumer", "uniform"),
        "consumer",
    )
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.client_id, member.host) == ("m-1", "i", "c", "10.0.0.1")
    assert member.assignment == {TopicPartition("t", 1)}
    assert member.to_come == {TopicPartition("t", 0), TopicPartition("u", 5)}


def test_where_groups_of_the_newer_protocol_are_not_served_there_are_none(kafka, admin):
    kafka.fault(CONSUMER_GROUP_DESCRIBE, described_by_coordinator(code=35))  # Kafka 3.7 with the feature off
    assert admin.groups.describe(["g"]) == {"g": None}
    del kafka.versions[CONSUMER_GROUP_DESCRIBE.key]
    with Cluster(ClientConfig.of("bootstrap:9092"), **FakeNet(kafka).parts()) as older:
        assert older.groups.describe(["g"]) == {"g": None}
    assert len(kafka.asked(CONSUMER_GROUP_DESCRIBE)) == 1


class HalfUpgraded(FakeKafka):
    """One broker is of Kafka 3.6 still, without ConsumerGroupDescribe, and coordinates the group `old`."""

    def __init__(self, old_id, new_id):
        super().__init__(nodes=2)
        self.old_id = old_id
        self.coordinators = {"old": old_id, "g": new_id}

    def handle(self, node_id, frame):
        every = self.versions
        if node_id == self.old_id:
            self.versions = {key: each for key, each in every.items() if key != CONSUMER_GROUP_DESCRIBE.key}
        try:
            return super().handle(node_id, frame)
        finally:
            self.versions = every


@pytest.mark.parametrize(("old_id", "new_id"), [(1, 2), (2, 1)])
def test_while_brokers_are_upgraded_a_coordinator_of_the_old_release_hides_no_group_of_others(old_id, new_id):
    """An old coordinator has no group of the newer protocol, so what it says by the older API is all there is."""
    kafka = HalfUpgraded(old_id, new_id)
    kafka.fault(LIST_GROUPS, listed(), listed())
    kafka.fault(DESCRIBE_GROUPS, described("old", "Dead"), described("g", "Dead"))
    kafka.fault(CONSUMER_GROUP_DESCRIBE, described_by_coordinator(assignment=assigned(), target_assignment=assigned()))
    with Cluster(ClientConfig.of("bootstrap:9092"), **FakeNet(kafka).parts()) as admin:
        admin.groups.list()  # it connects to both, so the client knows what each serves
        found = admin.groups.describe(["old", "g"])
    assert found["old"] is None
    assert found["g"] is not None
    assert found["g"].state == "Reconciling"
    assert [request.node_id for request in kafka.asked(CONSUMER_GROUP_DESCRIBE)] == [new_id]
    assert not kafka.refused


def test_what_the_acls_hide_is_an_error_and_not_none(kafka, admin):
    kafka.fault(DESCRIBE_GROUPS, described(code=30))
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        admin.groups.describe(["g"])


def test_of_groups_to_delete_each_has_its_own_outcome(kafka, admin):
    def answer(group, code):
        return Answer({"results": [{"group_id": group, "error_code": code}]})

    kafka.fault(DELETE_GROUPS, answer("busy", 68), answer("done", 0))
    outcome = admin.groups.delete(["busy", "done"])
    assert (outcome["busy"].name, outcome["done"]) == ("NON_EMPTY_GROUP", None)


def test_an_offset_that_cannot_be_forgotten_is_an_error(kafka, admin):
    row = {"partition_index": 0, "error_code": 86}
    kafka.fault(OFFSET_DELETE, Answer({"error_code": 0, "topics": [{"name": "t", "partitions": [row]}]}))
    with pytest.raises(BrokerError, match="GROUP_SUBSCRIBED_TO_TOPIC"):
        admin.groups.delete_offsets("g", [TopicPartition("t", 0)])


DONE = {"error_code": 0, "error_message": None, "resource_type": 2, "resource_name": "t"}


def settings_of_t(*settings):
    """An answer to DescribeConfigs: (name, value, source)."""
    rows = [
        {
            **{"name": name, "value": value, "read_only": False, "config_source": source, "is_sensitive": False},
            **{"synonyms": [], "config_type": 1, "documentation": None},
        }
        for name, value, source in settings
    ]
    return {"results": [{**DONE, "configs": rows}]}


def test_settings_tell_where_they_come_from(kafka, admin):
    kafka.fault(DESCRIBE_CONFIGS, Answer(settings_of_t(("b", "2", 4), ("a", "1", 1), ("c", None, 5))))
    assert admin.topics.settings(["t"]) == {"t": [("a", "1", "topic"), ("b", "2", "broker"), ("c", None, "default")]}


def answered(name, code):
    return {"error_code": code, "error_message": None, "resource_type": 2, "resource_name": name, "configs": []}


def test_settings_that_a_user_may_not_see_are_an_error_or_left_out_as_the_caller_wants_it(kafka, admin):
    kafka.fault(DESCRIBE_CONFIGS, *[Answer({"results": [answered("t", 0), answered("u", 29)]})] * 2)
    found, refused = admin.topics.settings_or_refusals(["t", "u"])
    assert (found, refused.keys()) == ({"t": []}, {"u"})
    assert "grant DescribeConfigs" in str(refused["u"])
    with pytest.raises(TopicAuthorizationFailed, match="grant DescribeConfigs"):
        admin.topics.settings(["t", "u"])


def test_an_answer_without_the_topic_that_was_asked_for_does_not_say_that_it_has_no_settings(kafka, admin):
    kafka.fault(DESCRIBE_CONFIGS, *[Answer({"results": []})] * 2)
    with pytest.raises(ProtocolError, match="DescribeConfigs: no answer for t"):
        admin.topics.settings(["t"])
    with pytest.raises(ProtocolError, match="DescribeConfigs: no answer for t"):
        admin.topics.settings_or_refusals(["t"])


def test_settings_of_a_topic_that_no_broker_knows_are_asked_for_no_longer_than_news_travels(kafka):
    kafka.fault(DESCRIBE_CONFIGS, *[Answer({"results": [answered("t", 0), answered("gone", 3)]})] * 500)
    net = FakeNet(kafka)
    with Cluster(ClientConfig.of("bootstrap:9092"), **net.parts()) as admin:
        began_s = net.now
        found, refused = admin.topics.settings_or_refusals(["t", "gone"])
        assert (found, refused.keys()) == ({"t": []}, {"gone"})
        assert 5 <= net.now - began_s < 10
        with pytest.raises(UnknownTopicOrPartition, match="gone"):
            admin.topics.settings(["t", "gone"])


def test_a_setting_is_set_and_another_put_back_to_its_default(kafka, admin):
    kafka.fault(INCREMENTAL_ALTER_CONFIGS, Answer({"responses": [DONE]}))
    admin.topics.change_settings("t", {"retention.ms": "1", "segment.ms": None})
    (asked,) = kafka.asked(INCREMENTAL_ALTER_CONFIGS)
    (resource,) = asked.body["resources"]
    assert (resource["resource_type"], resource["resource_name"]) == (2, "t")
    assert [(each["name"], each["config_operation"], each["value"]) for each in resource["configs"]] == [
        ("retention.ms", 0, "1"),
        ("segment.ms", 1, None),
    ]


def test_where_only_all_settings_can_be_replaced_the_others_are_sent_again(kafka, admin):
    """AlterConfigs puts back to the default what it does not name (KIP-133). WarpStream has no other request."""
    del kafka.versions[INCREMENTAL_ALTER_CONFIGS.key]
    kafka.fault(DESCRIBE_CONFIGS, Answer(settings_of_t(("kept", "1", 1), ("gone", "2", 1), ("brokers", "3", 4))))
    kafka.fault(ALTER_CONFIGS, Answer({"responses": [DONE]}))
    admin.topics.change_settings("t", {"new": "4", "gone": None}, validate_only=True)
    (asked,) = kafka.asked(ALTER_CONFIGS)
    assert asked.body == {
        "resources": [
            {
                "resource_type": 2,
                "resource_name": "t",
                "configs": [{"name": "kept", "value": "1"}, {"name": "new", "value": "4"}],
            }
        ],
        "validate_only": True,
    }


def test_a_value_that_nobody_shows_is_not_put_back_to_its_default(kafka, admin):
    del kafka.versions[INCREMENTAL_ALTER_CONFIGS.key]
    kafka.fault(DESCRIBE_CONFIGS, Answer(settings_of_t(("secret", None, 1))))
    with pytest.raises(KafkaSourceError, match="do not show the value of secret: give it, too"):
        admin.topics.change_settings("t", {"new": "4"})
    assert not kafka.asked(ALTER_CONFIGS)


def test_a_setting_that_the_broker_refuses_is_told_in_its_words(kafka, admin):
    no = {"error_code": 40, "error_message": "Unknown topic config name: x", "resource_type": 2, "resource_name": "t"}
    kafka.fault(INCREMENTAL_ALTER_CONFIGS, Answer({"responses": [no]}))
    with pytest.raises(BrokerError, match="Unknown topic config name: x"):
        admin.topics.change_settings("t", {"x": "1"})


def test_an_old_broker_is_told_from_one_without_groups(kafka, admin):
    kafka.become("0.8.2")
    with pytest.raises(UnsupportedApiVersion, match="ListGroups"):
        admin.groups.list()


def log_dirs(*partitions, code=0, folder_code=0):
    rows = [{"partition_index": n, "partition_size": size, "is_future_key": moves} for n, size, moves in partitions]
    folder = {"error_code": folder_code, "log_dir": "/data", "topics": [{"name": "t", "partitions": rows}]}
    return Answer({"error_code": code, "results": [folder] if partitions else []})


FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def sizes(admin):
    admin.topics.describe(["t"])
    return admin.log_sizes([FIRST, SECOND])


def test_each_leader_says_how_large_its_own_replicas_are(kafka, admin):
    kafka.fault(DESCRIBE_LOG_DIRS, log_dirs((0, 7, False), (0, 3, True)), log_dirs((1, 5, False)))
    assert sizes(admin) == ({FIRST: 7, SECOND: 5}, None)
    asked = {request.node_id: request.body["topics"] for request in kafka.asked(DESCRIBE_LOG_DIRS)}
    assert asked == {1: [{"topic": "t", "partitions": [0]}], 2: [{"topic": "t", "partitions": [1]}]}


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (log_dirs(code=31), r"grant Describe on the cluster"),
        (log_dirs(), r"grant Describe on the cluster"),  # brokers before 3.2 give no error
        (log_dirs((1, 5, False), folder_code=56), r"broker 2 does not say how large all of its logs are"),
        (CLOSE, r"broker-2"),
    ],
)
def test_a_size_that_a_broker_does_not_tell_is_missing_with_the_reason(kafka, admin, second, why):
    kafka.fault(DESCRIBE_LOG_DIRS, log_dirs((0, 7, False)), second)
    found = sizes(admin)
    assert found.sizes == {FIRST: 7}
    assert re.search(why, found.unknown)


def test_brokers_before_1_0_do_not_say_how_large_logs_are(kafka, admin):
    del kafka.versions[DESCRIBE_LOG_DIRS.key]
    found = sizes(admin)
    assert (found.sizes, found.unknown) == (
        {},
        "broker 1 does not offer DescribeLogDirs (Apache Kafka: from 1.0 on)",
    )
