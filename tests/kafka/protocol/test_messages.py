"""Every message in every version: what we write comes back, and bytes that are not a message are a ProtocolError."""

from __future__ import annotations

import contextlib
import random
import uuid

import pytest
from message_bodies import EVERY_VERSION, MESSAGES, at_length, full_body, named, versions, with_defaults
from peak_memory import peak_bytes

from kafkasource.errors import ProtocolError
from kafkasource.kafka.protocol.apis import API_VERSIONS, APIS, FETCH, FIND_COORDINATOR, LIST_OFFSETS, METADATA, PRODUCE
from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, STRING, Array, Field

# A test of its own for each version would cost ten times what it does.
every_message = pytest.mark.parametrize("message", MESSAGES, ids=named)
versions_at_length = pytest.mark.parametrize(("message", "version"), at_length(EVERY_VERSION), ids=named)

# Worked out by hand from the field tables of https://kafka.apache.org/protocol.
FETCH_V4_RESPONSE = bytes.fromhex(
    "00000000"  # throttle_time_ms
    "00000001" "0001" "74"  # responses: one, topic "t"
    "00000001" "00000002" "0000"  # partitions: one, partition_index 2, error_code 0
    "000000000000000a" "0000000000000009"  # high_watermark 10, last_stable_offset 9
    "00000001" "0000000000000005" "0000000000000003"  # aborted_transactions: producer_id 5 from offset 3
    "00000003" "616263"  # records
)  # fmt: skip
FETCH_V16_RESPONSE = bytes.fromhex(
    "00000000" "0000" "00000000"  # throttle_time_ms, error_code, session_id
    "02" "00112233445566778899aabbccddeeff"  # responses: one, topic_id
    "02" "00000002" "0006"  # partitions: one, partition_index 2, error_code NOT_LEADER_OR_FOLLOWER
    "000000000000000a" "0000000000000009" "0000000000000001"  # high_watermark, last_stable_offset, log_start_offset
    "00" "ffffffff"  # aborted_transactions null, preferred_read_replica -1
    "00"  # records null
    "02" "01" "09" "00000003" "00000007" "00" "63" "02" "abcd"  # tag 1: current_leader 3, epoch 7; unknown tag 99
    "00"  # no tags of the topic
    "01" "00" "0d" "02" "00000003" "02" "68" "00002384" "00" "00"  # tag 0: node_endpoints, one: node 3 at h:9092
)  # fmt: skip


def test_a_fetch_response_in_the_old_form_is_read() -> None:
    (topic,) = FETCH.response.decode(4, FETCH_V4_RESPONSE)["responses"]
    (partition,) = topic["partitions"]
    assert (topic["topic"], partition["partition_index"], partition["error_code"]) == ("t", 2, 0)
    assert (partition["high_watermark"], partition["last_stable_offset"]) == (10, 9)
    assert partition["aborted_transactions"] == [{"producer_id": 5, "first_offset": 3}]
    assert partition["records"] == b"abc"
    assert partition["log_start_offset"] == -1  # not in version 4: its default


def test_a_flexible_fetch_response_with_tags_is_read() -> None:
    body = FETCH.response.decode(16, FETCH_V16_RESPONSE)
    (topic,) = body["responses"]
    (partition,) = topic["partitions"]
    assert topic["topic_id"] == uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    assert partition["error_code"] == 6
    assert partition["current_leader"] == {"leader_id": 3, "leader_epoch": 7}
    assert partition["diverging_epoch"] == {"epoch": -1, "end_offset": -1}
    assert (partition["aborted_transactions"], partition["records"]) == (None, None)
    assert body["node_endpoints"] == [{"node_id": 3, "host": "h", "port": 9092, "rack": None}]


@pytest.mark.parametrize("tags", ["00", "016302abcd"], ids=["no tags", "an unknown tag"])
def test_rows_of_numbers_are_read_with_and_without_tags(tags: str) -> None:
    def row(index: str, offset: str, tags: str) -> str:
        return index + "0000" + "ffffffffffffffff" + offset + "00000007" + tags  # error_code, timestamp, leader_epoch

    rows = row("00000000", "000000000000000a", "00") + row("00000001", "000000000000000b", tags)
    topic = "020274" + "03" + rows + "00"  # topics: one, "t"; partitions: two; no tags of the topic
    body = LIST_OFFSETS.response.decode(7, bytes.fromhex("00000000" + topic + "00"))
    common = {"error_code": 0, "old_style_offsets": [], "timestamp": -1, "leader_epoch": 7}
    first, second = body["topics"][0]["partitions"]
    assert (first, second) == (
        {**common, "partition_index": 0, "offset": 10},
        {**common, "partition_index": 1, "offset": 11},
    )
    assert first["old_style_offsets"] is not second["old_style_offsets"]


@pytest.mark.parametrize("left_out", ["", "current_leader_epoch"], ids=["all fields", "a field at its default"])
def test_rows_of_numbers_are_written_with_all_fields_and_with_defaults(left_out: str) -> None:
    rows = [
        {"partition_index": index, "current_leader_epoch": epoch, "timestamp": -1} for index, epoch in ((0, -1), (1, 7))
    ]
    rows[0].pop(left_out, None)
    row = "00000000ffffffffffffffffffffffff00", "0000000100000007ffffffffffffffff00"
    topic = "0274" + "03" + "".join(row) + "00"  # name "t"; partitions: two; no tags of the topic
    written = LIST_OFFSETS.request.encode(7, {"topics": [{"name": "t", "partitions": rows}], "isolation_level": 1})
    assert written.hex() == "ffffffff0102" + topic + "00"


@pytest.mark.parametrize(
    "wrong", [{"timestamp": "now"}, {"timestamp": 1 << 63}, {"other": 1}], ids=["a type", "a range", "a name"]
)
def test_a_row_of_numbers_that_cannot_be_written_is_an_error(wrong: dict[str, object]) -> None:
    right = {"partition_index": 0, "current_leader_epoch": 7, "timestamp": -1}
    topic = {"name": "t", "partitions": [right, right | wrong]}
    with pytest.raises(ProtocolError, match=next(iter(wrong)) if "other" in wrong else "cannot write"):
        LIST_OFFSETS.request.encode(7, {"topics": [topic]})


def test_requests_are_the_bytes_of_the_protocol_guide() -> None:
    all_topics = METADATA.request.encode(1, {"topics": None})
    assert all_topics.hex() == "ffffffff"
    latest = {"topics": [{"name": "t", "partitions": [{"partition_index": 2, "timestamp": -1}]}]}
    assert LIST_OFFSETS.request.encode(1, latest).hex() == (
        "ffffffff" "00000001" "0001" "74" "00000001" "00000002" "ffffffffffffffff"
    )  # fmt: skip
    software = {"client_software_name": "kafkasource", "client_software_version": "0.1"}
    assert API_VERSIONS.request.encode(3, software) == b"\x0ckafkasource\x040.1\x00"


@every_message
def test_a_body_that_sets_everything_comes_back_in_every_version(message: Message) -> None:
    for version in versions(message):
        body = full_body(message, version)
        read = message.decode(version, message.encode(version, body))
        assert (version, read) == (version, with_defaults(message.fields, body))


@every_message
def test_an_empty_body_is_all_defaults_in_every_version(message: Message) -> None:
    for version in versions(message):
        body = message.decode(version, message.encode(version, {}))
        assert (version, body) == (version, {f.name: f.default_value() for f in message.fields})
        assert (version, message.encode(version, body)) == (version, message.encode(version, {}))


@every_message
def test_cut_short_anywhere_or_with_bytes_after_it_is_refused_in_every_version(message: Message) -> None:
    for version in versions(message):
        raw = message.encode(version, full_body(message, version))
        for length in range(len(raw)):
            with pytest.raises(ProtocolError, match=rf"{message.name} v{version}: "):
                message.decode(version, raw[:length])
        with pytest.raises(ProtocolError, match=rf"{message.name} v{version}: .*2 bytes too many"):
            message.decode(version, raw + b"\x00\x00")


# Counts, lengths and other numbers in each form that the protocol has for them.
LIES = [
    *(n.to_bytes(size, "big", signed=True) for size in (1, 2, 4) for n in (-128, -2, -1, 0, 1, 2, 3, 127)),
    *(n.to_bytes(size, "big") for size in (2, 4) for n in (1 << 8 * size - 1, (1 << 8 * size - 1) - 1)),
    *(bytes.fromhex(varint) for varint in ("8000", "8100", "8300", "ffffffff07", "ffffffff0f", "ffffffffff")),
]


@pytest.mark.slow
@versions_at_length
def test_a_lie_anywhere_is_refused_or_reads_as_something_that_can_be_said(message: Message, version: int) -> None:
    raw = message.encode(version, full_body(message, version))
    chance = random.Random(f"{message.name} {version}")
    for pos in chance.sample(range(len(raw)), min(len(raw), 300)):
        for lie in chance.sample(LIES, 4):
            try:
                body = message.decode(version, raw[:pos] + lie + raw[pos + len(lie) :])
            except ProtocolError:
                continue
            assert message.decode(version, message.encode(version, body)) == body, (pos, lie)


@pytest.mark.parametrize("message", MESSAGES, ids=named)
def test_a_version_we_do_not_speak_is_refused(message: Message) -> None:
    for version in (message.versions[0] - 1, message.versions[1] + 1):
        with pytest.raises(ProtocolError, match="we speak versions"):
            message.encode(version, {})
        with pytest.raises(ProtocolError, match="we speak versions"):
            message.decode(version, b"")


def test_what_a_version_cannot_say_is_an_error() -> None:
    batched = {"coordinator_keys": ["g"]}
    assert FIND_COORDINATOR.request.encode(4, batched)
    with pytest.raises(ProtocolError, match=r"coordinator_keys = .* cannot be said"):
        FIND_COORDINATOR.request.encode(3, batched)
    assert FIND_COORDINATOR.request.encode(3, {"key": "g", "coordinator_keys": []})  # the default says nothing


def test_what_may_be_ignored_is_dropped_where_it_cannot_be_said() -> None:
    assert FETCH.request.encode(4, {"rack_id": "r1"}) == FETCH.request.encode(4, {})


def test_a_misspelt_field_is_an_error_at_any_depth() -> None:
    with pytest.raises(ProtocolError, match="no such field: topic"):
        METADATA.request.encode(4, {"topic": []})
    with pytest.raises(ProtocolError, match="topics: no such field: nam"):
        METADATA.request.encode(4, {"topics": [{"nam": "t"}]})


@pytest.mark.parametrize(
    "body",
    [
        {"topics": {}},
        {"replica_id": "one"},
        {"topics": [None]},
        {"topics": [7]},
        {"topics": 7},
        {"topics": None},
        {"topics": [{"name": 7}]},
        {"topics": [{"name": "t", "partitions": [{"timestamp": 2**63}]}]},
    ],
)
def test_a_body_of_the_wrong_shape_is_a_protocol_error(body: dict[str, object]) -> None:
    with pytest.raises(ProtocolError, match="ListOffsetsRequest v5: "):
        LIST_OFFSETS.request.encode(5, body)


def test_default_values_are_not_shared_between_bodies() -> None:
    first, second = (FETCH.response.decode(16, FETCH_V16_RESPONSE) for _ in range(2))
    first["responses"][0]["partitions"][0]["diverging_epoch"]["epoch"] = 5
    first["node_endpoints"].clear()
    assert second == FETCH.response.decode(16, FETCH_V16_RESPONSE)
    old = FETCH.response.decode(4, FETCH_V4_RESPONSE)
    old["node_endpoints"].append("mine")
    assert FETCH.response.decode(4, FETCH_V4_RESPONSE)["node_endpoints"] == []


def test_records_are_views_of_what_came() -> None:
    raw = bytearray(FETCH_V4_RESPONSE)
    records = FETCH.response.decode(4, raw)["responses"][0]["partitions"][0]["records"]
    assert isinstance(records, memoryview)
    raw[-1] = ord("z")
    assert records == b"abz"


def test_a_value_that_grows_a_tag_past_one_length_byte_comes_back() -> None:
    endpoints = [{"node_id": n, "host": "h" * 200, "port": 1, "rack": None} for n in range(3)]
    raw = PRODUCE.response.encode(10, {"node_endpoints": endpoints})
    assert PRODUCE.response.decode(10, raw)["node_endpoints"] == endpoints


def test_numbers_that_do_not_sit_side_by_side_keep_their_places() -> None:
    message = Message("Mixed", api_key=99, versions=(0, 1), flexible_since=1, fields=[
        Field("a", INT16), Field("b", INT32, since=1), Field("c", STRING), Field("d", INT16), Field("e", Array(INT16)),
    ])  # fmt: skip
    body = {"a": 1, "c": "x", "d": 2, "e": [3, 4]}
    assert message.encode(0, body).hex() == "000100017800020000000200030004"
    assert message.encode(1, body | {"b": 5}).hex() == "00010000000502780002030003000400"


@pytest.mark.parametrize("message", MESSAGES, ids=named)
@pytest.mark.parametrize("flexible", [False, True])
def test_no_count_or_length_allocates_what_it_claims(message: Message, flexible: bool) -> None:
    """Each place in a message in turn is overwritten with the largest count, in both forms."""
    version = message.versions[1] if flexible else message.flexible_since - 1
    if version < 0:
        return  # flexible from the first version on
    raw = message.encode(version, full_body(message, version))
    message.decode(version, raw)  # compiled before we measure

    def decode_all() -> None:
        for pos in range(0, len(raw), 3):
            for claim in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07"):
                with contextlib.suppress(ProtocolError):
                    message.decode(version, raw[:pos] + claim + raw[pos + len(claim) :])

    assert peak_bytes(decode_all, 1 << 20) <= 1 << 20


def test_apis_are_what_their_messages_say() -> None:
    for key, api in APIS.items():
        assert (api.key, api.request.api_key, api.response.api_key) == (key, key, key)
        assert api.request.versions == api.response.versions
        assert (api.request.name, api.response.name) == (api.name + "Request", api.name + "Response")
