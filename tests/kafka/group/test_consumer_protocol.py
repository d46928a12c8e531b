"""The bytes that group members exchange: Kafka's own, both ways, and nothing worse than ProtocolError for others."""

import pytest
from group_wire import ask_kafka, shown, subscription_text, tps
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.errors import ProtocolError
from kafkasource.kafka.group.consumer_protocol import Assignment, Subscription

# From Kafka 4.3.1's ConsumerProtocol.
SUBSCRIPTION_V3 = bytes.fromhex(
    "000300000002000174000175000000010000000002000174000000010000000200017500000002000000000000000100000004000172"
)
ASSIGNMENT_V3 = bytes.fromhex("0003000000020001750000000200000001000000000001740000000100000002ffffffff")

SUBSCRIPTIONS = [
    Subscription(("t",)),
    Subscription(()),
    Subscription(("t", "u"), b"\x00", tps("t:2,u:0,u:1"), 4, "r"),
    Subscription(("topic.with-all_9",), None, tps("topic.with-all_9:0"), None, "eu-west-1a"),
    Subscription(("a",), bytes(300), (), 0, None),
    Subscription(("a",), None, tps("b:7"), 2**31 - 1, "e"),
]
PARTITIONS = ["-", "t:0", "u:1,t:2,u:0", "t:2147483647"]


def test_known_bytes_are_read_and_written():
    assert Subscription(("t", "u"), b"\x00", tps("t:2,u:0,u:1"), 4, "r").encode() == SUBSCRIPTION_V3
    assert Subscription.decode(SUBSCRIPTION_V3) == Subscription(("t", "u"), b"\x00", tps("t:2,u:0,u:1"), 4, "r")
    assert Assignment(tps("u:1,t:2,u:0")).encode() == ASSIGNMENT_V3
    assert Assignment.decode(ASSIGNMENT_V3) == Assignment(tps("u:1,u:0,t:2"))


@pytest.mark.peers
@pytest.mark.slow
def test_bytes_of_every_version_are_those_of_kafkas_own_class():
    versioned = [(version, each) for version in range(4) for each in SUBSCRIPTIONS]
    placed = [(version, each, data) for version in range(4) for each in PARTITIONS for data in (None, b"\x07")]
    theirs = ask_kafka(
        [["subscription", version, subscription_text(each)] for version, each in versioned]
        + [["assignment", version, each, "-" if data is None else data.hex()] for version, each, data in placed]
    )
    ours = [each.encode(version) for version, each in versioned]
    ours += [Assignment(tps(each), data).encode(version) for version, each, data in placed]
    assert [each.hex() for each in ours] == theirs


@pytest.mark.peers
@pytest.mark.slow
def test_kafkas_own_class_reads_what_we_write():
    commands = [["read-subscription", each.encode().hex()] for each in SUBSCRIPTIONS if each.topics]
    commands += [["read-assignment", Assignment(tps(each)).encode().hex()] for each in PARTITIONS]
    expected = [subscription_text(each) for each in SUBSCRIPTIONS if each.topics]
    expected += ["- -", "t:0 -", "u:1,u:0,t:2 -", "t:2147483647 -"]
    assert ask_kafka(commands) == expected


@pytest.mark.parametrize("version", [4, 9, 32767])
def test_of_a_newer_version_the_known_fields_are_read(version):
    newer = version.to_bytes(2, "big") + SUBSCRIPTION_V3[2:] + b"a field of tomorrow"
    assert Subscription.decode(newer) == Subscription.decode(SUBSCRIPTION_V3)
    assert Assignment.decode(version.to_bytes(2, "big") + ASSIGNMENT_V3[2:] + b"?") == Assignment.decode(ASSIGNMENT_V3)


def test_whom_the_leader_did_not_speak_of_has_nothing():
    assert Assignment.decode(b"") == Assignment(())


@pytest.mark.parametrize(("kind", "whole"), [(Subscription, SUBSCRIPTION_V3), (Assignment, ASSIGNMENT_V3)])
def test_bytes_cut_short_are_a_protocol_error(kind, whole):
    for size in range(1, len(whole)):
        with pytest.raises(ProtocolError):
            kind.decode(whole[:size])


def test_a_negative_version_is_a_protocol_error():
    for kind in (Subscription, Assignment):
        with pytest.raises(ProtocolError, match="version -1"):
            kind.decode(b"\xff\xff" + bytes(20))


def test_a_count_without_its_bytes_allocates_nothing():
    with pytest.raises(ProtocolError):
        Assignment.decode(b"\x00\x00\x7f\xff\xff\xff" + bytes(6))


@given(data=st.binary(max_size=60) | st.binary(max_size=20).map(lambda tail: SUBSCRIPTION_V3[:20] + tail))
def test_any_bytes_are_read_or_are_a_protocol_error(data):
    for kind in (Subscription, Assignment):
        try:
            found = kind.decode(data)
        except ProtocolError:
            continue
        assert shown(getattr(found, "partitions", ()))
