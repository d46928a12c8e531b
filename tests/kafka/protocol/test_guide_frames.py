"""The APIs of the protocol guide, frame by frame: ours are those of Kafka's own classes and of kafka-python.

The guide tells the versions of Kafka 0.8 and 0.9. Their frames, with values as the guide describes them, are read and
written again by the classes of Kafka 0.8.2.2 and 0.9.0.1, whose schemas are Java code; and written by Kafka's 3.9, the
last that knows them, and by kafka-python. Versions since then: every one that a Kafka or kafka-python knows.
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from java_programs import ask_java
from kafka_specs import RELEASES, spec, versions
from message_bodies import full_body
from test_kafka_classes import bytes_from_kafka
from test_peer_codec import peer_class, to_peer

from kafkasource.kafka.protocol.apis import (
    DESCRIBE_GROUPS,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    SYNC_GROUP,
    Api,
)
from kafkasource.kafka.protocol.frames import FrameReader, decode_response, encode_request, peek_correlation_id
from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import Array, Body, Field, Struct

pytestmark = [pytest.mark.peers, pytest.mark.slow]

OLD_PROGRAM = Path(__file__).with_name("OldKafkaClasses.java")
CORRELATION_ID, CLIENT_ID = 7, "klient å"  # as in KafkaClasses.java
MEMBER, MEMBER_2 = "member-1f", "member-2e"
ROUND_ROBIN = "roundrobin"
SUBSCRIPTION = bytes.fromhex("000000000001000174ffffffff")  # consumer protocol v0: topic "t"
ASSIGNMENT = bytes.fromhex("000000000001000174000000020000000000000001ffffffff")  # t-0, t-1


def message_set(*values: bytes) -> bytes:
    """Messages v0 as the guide describes them: offset, size, crc, magic, attributes, null key, value."""
    out = b""
    for offset, value in enumerate(values):
        covered = struct.pack(">BBii", 0, 0, -1, len(value)) + value
        out += struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered)) + covered
    return out


MESSAGES = message_set(b"a", b"", b"c" * 99)


def topics(**row: Any) -> list[Body]:
    return [{"name": "t", "partitions": [{"partition_index": 1, **row}]}, {"name": "temperatur-å", "partitions": []}]


# What is said in each version from the first to the one named here: the guide's last, or the last of Kafka 0.9. Fields
# that a version does not carry are left out there. First the request, then the response.
GUIDE: list[tuple[Api, int, Body, Body]] = [
    (
        METADATA,
        0,
        {"topics": [{"name": "t"}, {"name": "temperatur-å"}]},
        {
            "brokers": [{"node_id": 1, "host": "broker-1.example", "port": 9092}],
            "topics": [
                {
                    "error_code": 0,
                    "name": "t",
                    "partitions": [
                        {
                            "error_code": 5,
                            "partition_index": 1,
                            "leader_id": -1,
                            "replica_nodes": [1, 2],
                            "isr_nodes": [],
                        }
                    ],
                },
                {"error_code": 3, "name": "temperatur-å", "partitions": []},
            ],
        },
    ),
    (
        PRODUCE,
        1,
        {
            "acks": -1,
            "timeout_ms": 30_000,
            "topic_data": [{"name": "t", "partition_data": [{"index": 1, "records": MESSAGES}]}],
        },
        {
            "responses": [
                {"name": "t", "partition_responses": [{"index": 1, "error_code": 0, "base_offset": 1 << 40}]},
                {"name": "u", "partition_responses": [{"index": 0, "error_code": 6, "base_offset": -1}]},
            ],
            "throttle_time_ms": 250,
        },
    ),
    (
        FETCH,
        1,
        {
            "replica_id": -1,
            "max_wait_ms": 500,
            "min_bytes": 1,
            "topics": [
                {
                    "topic": "t",
                    "partitions": [{"partition": 1, "fetch_offset": 1 << 40, "partition_max_bytes": 1 << 20}],
                }
            ],
        },
        {
            "throttle_time_ms": 250,
            "responses": [
                {
                    "topic": "t",
                    "partitions": [
                        {
                            "partition_index": 1,
                            "error_code": 0,
                            "high_watermark": (1 << 40) + 3,
                            "records": message_set(b"a", b"b")[:-1],  # the last one cut
                        },
                        {"partition_index": 2, "error_code": 1, "high_watermark": -1, "records": b""},
                    ],
                }
            ],
        },
    ),
    (
        LIST_OFFSETS,
        0,
        {"replica_id": -1, "topics": topics(timestamp=-1, max_num_offsets=3)},
        {"topics": topics(error_code=0, old_style_offsets=[1 << 40, 77, 0])},
    ),
    (
        FIND_COORDINATOR,
        0,
        {"key": "group-å"},
        {"error_code": 0, "node_id": 1, "host": "broker-1.example", "port": 9092},
    ),
    (
        OFFSET_COMMIT,
        2,
        {
            "group_id": "group-å",
            "generation_id_or_member_epoch": 3,
            "member_id": MEMBER,
            "retention_time_ms": 86_400_000,
            "topics": topics(committed_offset=1 << 40, commit_timestamp=1_700_000_000_000, committed_metadata="why"),
        },
        {"topics": topics(error_code=22)},
    ),
    (
        OFFSET_FETCH,
        1,
        {"group_id": "group-å", "topics": [{"name": "t", "partition_indexes": [0, 1]}]},
        {"topics": topics(committed_offset=-1, metadata="", error_code=0)},
    ),
    (
        JOIN_GROUP,
        0,
        {
            "group_id": "group-å",
            "session_timeout_ms": 30_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [
                {"name": "range", "metadata": SUBSCRIPTION},
                {"name": ROUND_ROBIN, "metadata": SUBSCRIPTION},
            ],
        },
        {
            "error_code": 0,
            "generation_id": 3,
            "protocol_name": "range",
            "leader": MEMBER,
            "member_id": MEMBER,
            "members": [
                {"member_id": MEMBER, "metadata": SUBSCRIPTION},
                {"member_id": MEMBER_2, "metadata": SUBSCRIPTION},
            ],
        },
    ),
    (
        SYNC_GROUP,
        0,
        {
            "group_id": "group-å",
            "generation_id": 3,
            "member_id": MEMBER,
            "assignments": [
                {"member_id": MEMBER, "assignment": ASSIGNMENT},
                {"member_id": MEMBER_2, "assignment": b""},
            ],
        },
        {"error_code": 0, "assignment": ASSIGNMENT},
    ),
    (HEARTBEAT, 0, {"group_id": "group-å", "generation_id": 3, "member_id": MEMBER}, {"error_code": 27}),
    (LEAVE_GROUP, 0, {"group_id": "group-å", "member_id": MEMBER}, {"error_code": 25}),
    (LIST_GROUPS, 0, {}, {"error_code": 0, "groups": [{"group_id": "group-å", "protocol_type": "consumer"}]}),
    (
        DESCRIBE_GROUPS,
        0,
        {"groups": ["group-å", "g"]},
        {
            "groups": [
                {
                    "error_code": 0,
                    "group_id": "group-å",
                    "group_state": "Stable",
                    "protocol_type": "consumer",
                    "protocol_data": "range",
                    "members": [
                        {
                            "member_id": MEMBER,
                            "client_id": "klient",
                            "client_host": "/127.0.0.1",
                            "member_metadata": SUBSCRIPTION,
                            "member_assignment": ASSIGNMENT,
                        }
                    ],
                }
            ]
        },
    ),
]

# The newest version that each release of the guide's time has of the APIs it has in the guide's form.
OLD_VERSIONS = {
    "0.8.2.2": {PRODUCE: 0, FETCH: 0, LIST_OFFSETS: 0, METADATA: 0, OFFSET_COMMIT: 1, OFFSET_FETCH: 1,
                FIND_COORDINATOR: 0},
    "0.9.0.1": {PRODUCE: 1, FETCH: 1, LIST_OFFSETS: 0, METADATA: 0, OFFSET_COMMIT: 2, OFFSET_FETCH: 1,
                FIND_COORDINATOR: 0, JOIN_GROUP: 0, HEARTBEAT: 0, LEAVE_GROUP: 0, SYNC_GROUP: 0, DESCRIBE_GROUPS: 0,
                LIST_GROUPS: 0},
}  # fmt: skip


def carried(fields: Any, body: Body, version: int) -> Body:
    """What of a body the version can say."""
    kept: Body = {}
    for f in fields:
        if f.name in body and f.carried_by(version):
            kept[f.name] = _carried(f, body[f.name], version)
    return kept


def _carried(f: Field, value: Any, version: int) -> Any:
    kind = f.type.element if isinstance(f.type, Array) else f.type
    if not isinstance(kind, Struct):
        return value
    if isinstance(f.type, Array):
        return [carried(kind.fields, each, version) for each in value]
    return carried(kind.fields, value, version)


def guide_frames(api: Api, version: int, request: Body, response: Body) -> tuple[Body, bytes, Body, bytes]:
    """Both bodies as the version says them, and the frames; the header of a response has four bytes in these."""
    asked, answered = carried(api.request.fields, request, version), carried(api.response.fields, response, version)
    body = CORRELATION_ID.to_bytes(4, "big") + api.response.encode(version, answered)
    return asked, encode_request(api, version, CORRELATION_ID, CLIENT_ID, asked), answered, framed(body)


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


OF_THE_GUIDE = [
    pytest.param(api, version, request, response, id=f"{api.name}-{version}")
    for api, last, request, response in GUIDE
    for version in range(last + 1)
]


@pytest.mark.parametrize(("api", "version", "request_", "response"), OF_THE_GUIDE)
def test_the_guides_frames_are_those_of_kafka_python(api: Api, version: int, request_: Body, response: Body) -> None:
    asked, ours, answered, their_answer = guide_frames(api, version, request_, response)
    peer = to_peer(peer_class(api.request), asked, version)
    peer.with_header(correlation_id=CORRELATION_ID, client_id=CLIENT_ID)
    assert ours == bytes(peer.encode(header=True, framed=True))

    peer = to_peer(peer_class(api.response), answered, version)
    peer.with_header(correlation_id=CORRELATION_ID)
    assert their_answer == bytes(peer.encode(header=True, framed=True))


def test_the_guides_frames_are_those_of_the_last_kafka_that_has_them() -> None:
    said: list[tuple[Message, int, Body]] = []
    ours = []
    for api, last, request, response in GUIDE:
        for version in range(last + 1):
            asked, frame, answered, answer = guide_frames(api, version, request, response)
            said += [(api.request, version, asked), (api.response, version, answered)]
            ours += [frame, answer]
    theirs = bytes_from_kafka("3.9.2", said, framed=True)
    for (message, version, _), mine, raw in zip(said, ours, theirs, strict=True):
        assert mine == raw, f"{message.name} v{version}"


def positional(fields: Any, body: Body, version: int) -> list[Any]:
    """A body without its names, which were others in old classes: values in the order of the wire."""
    values = []
    for f in fields:
        if f.carried_by(version):
            values.append(_positional(f, body.get(f.name, f.default_value()), version))
    return values


def _positional(f: Field, value: Any, version: int) -> Any:
    kind = f.type.element if isinstance(f.type, Array) else f.type
    if isinstance(kind, Struct):
        rows = [positional(kind.fields, each, version) for each in value]
        return [row[0] if len(row) == 1 else row for row in rows]  # a struct of one value is that value
    return value.hex() if isinstance(value, bytes) else value


@pytest.mark.parametrize("release", OLD_VERSIONS)
def test_kafka_of_the_guides_time_reads_these_frames_and_writes_the_same(release: str) -> None:
    served = OLD_VERSIONS[release]
    commands: list[tuple[object, ...]] = [("versions", api.key) for api in served]
    expected: list[Any] = [str(version) for version in served.values()]
    for api, last, request, response in GUIDE:
        for version in range(min(last, served.get(api, -1)) + 1):
            asked, frame, answered, answer = guide_frames(api, version, request, response)
            for kind, message, body, raw in (
                ("request", api.request, asked, frame[4:]),
                ("response", api.response, answered, answer[4:]),
            ):
                commands.append((kind, api.key, version, raw.hex()))
                header = [api.key, version, CORRELATION_ID, CLIENT_ID] if kind == "request" else [CORRELATION_ID]
                expected.append([header, positional(message.fields, body, version), raw.hex()])
    printed = ask_java(OLD_PROGRAM, commands, release)
    found: list[Any] = [
        line if line.isdigit() else [*values_of(line.rpartition(" ")[0]), line.rpartition(" ")[2]] for line in printed
    ]
    assert found == expected


def values_of(text: str) -> list[Any]:
    """Two JSON documents one after the other."""
    decoder = json.JSONDecoder()
    header, end = decoder.raw_decode(text)
    return [header, json.loads(text[end:])]


@pytest.mark.parametrize("release", [pytest.param(RELEASES[0], marks=pytest.mark.extended), *RELEASES[1:]])
def test_frames_of_every_later_version_are_kafkas(release: str) -> None:
    """With every field set. Bodies alone, of all APIs and with nulls too: test_kafka_classes."""
    said = [
        (message, version, full_body(message, version))
        for api, *_ in GUIDE
        for message in (api.request, api.response)
        for version in range(message.versions[0], message.versions[1] + 1)
        if version in versions(spec(release, message.name)["validVersions"])
    ]
    theirs = bytes_from_kafka(release, said, framed=True)
    apis = {message: api for api, *_ in GUIDE for message in (api.request, api.response)}
    for (message, version, body), raw in zip(said, theirs, strict=True):
        api = apis[message]
        if message is api.request:
            assert encode_request(api, version, CORRELATION_ID, CLIENT_ID, body) == raw, f"{message.name} v{version}"
        else:
            (frame,) = FrameReader(1 << 20).feed(raw)
            assert peek_correlation_id(frame) == CORRELATION_ID
            read = decode_response(api, version, frame)
            assert raw.endswith(message.encode(version, read)), f"{message.name} v{version}"
            assert read == message.decode(version, message.encode(version, body)), f"{message.name} v{version}"
