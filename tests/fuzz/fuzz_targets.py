"""What is fed with bad input, each from the bytes of a wire or a file up to plain values.

A target makes one input from a random.Random and feeds it; it raises nothing but the package's own errors, within a
second of processor time and the memory that the runner leaves it. `True`: the input was taken.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import lying_authentication
import lying_avro
import lying_json
import lying_log
import lying_protobuf
import lying_security
import lying_sink
from frame_mutations import Frame, damaged, damaged_records, fetched_records, frames, with_records
from lying_broker import ask
from lying_group import belong

from kafkasource.errors import KafkaSourceError
from kafkasource.exactly_once.decision import last_decision
from kafkasource.exactly_once.names import unpack_transactions
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.fetch.messages import read_response
from kafkasource.kafka.group.assignors import ASSIGNORS, assignors_named
from kafkasource.kafka.group.consumer_protocol import Assignment, Subscription
from kafkasource.kafka.group.membership import Membership, Terms
from kafkasource.kafka.group.states import MemberState
from kafkasource.kafka.network.connection import Connection
from kafkasource.kafka.network.metadata import Metadata
from kafkasource.kafka.protocol.apis import API_VERSIONS, FETCH, METADATA
from kafkasource.kafka.protocol.frames import decode_response
from kafkasource.kafka.records.batches import decode_all, next_fetch_offset
from kafkasource.source.plan import offsets
from kafkasource.source.plan.positions import parse_offsets
from kafkasource.source.plan.subscription import parse_subscription
from kafkasource.types import TopicPartition

MOST_DECOMPRESSED_BYTES = 1 << 20
CONFIG = ClientConfig.of("127.0.0.1:1", client_id="fuzz")


@dataclass(frozen=True)
class Target:
    name: str
    share: int  # of all inputs
    feed: Callable[[random.Random], bool]


def frame(rng: random.Random) -> bool:
    """A real response, damaged: decoded, and what it says taken in."""
    real, other = rng.choice(frames()), rng.choice(frames())
    body = decode_response(real.api, real.version, damaged(rng, real.data, other.data))
    if real.api is METADATA:
        metadata = Metadata(CONFIG)
        metadata.update(body, 0)
        str(metadata)
    elif real.api is FETCH and body["responses"]:
        name = body["responses"][0]["topic"] or "t"
        tp, topic_id = TopicPartition(name, 0), body["responses"][0]["topic_id"]
        take_records(read_response(body, tp, 0, topic_id).records, ())
    return True


def records(rng: random.Random) -> bool:
    """A real Fetch response whose records are damaged under right CRCs."""
    fetched = rng.choice(fetched_records())
    whole = with_records(fetched, damaged_records(rng, fetched.records))
    topics = decode_response(FETCH, fetched.frame.version, whole)["responses"]
    partition = topics[0]["partitions"][0]
    aborted = [(one["producer_id"], one["first_offset"]) for one in partition["aborted_transactions"] or ()]
    return take_records(partition["records"], aborted if rng.random() < 0.5 else (), rng.choice((0, 0, 0, 3, 1 << 40)))


def take_records(data: Any, aborted: Any, start_offset: int = 0) -> bool:
    ahead = next_fetch_offset(data)
    assert ahead is None or ahead >= 0
    rows, expected = 0, start_offset
    for decoded in decode_all(
        data,
        topic="t",
        partition=0,
        start_offset=start_offset,
        end_offset=(1 << 63) - 1,
        include_headers=True,
        max_decompressed_bytes=MOST_DECOMPRESSED_BYTES,
        aborted_transactions=aborted,
    ):
        for batch in decoded.batches:
            batch.validate(full=True)
            rows += batch.num_rows
            if batch.num_rows:
                assert batch["offset"][0].as_py() >= expected
                expected = batch["offset"][-1].as_py() + 1
        assert decoded.next_offset >= expected
    return rows > 0


def conversation(rng: random.Random) -> bool:
    """A stream of answers as a connection receives it: damaged, in pieces of any size."""
    asked = [rng.choice(negotiable_frames()) for _ in range(rng.randrange(1, 4))]
    connection = Connection("a broker", "fuzz", 1 << 20)
    connection.negotiate()
    stream = [versions_answer(asked)] + [each.data for each in asked]
    whole = b"".join(
        len(data).to_bytes(4, "big") + number.to_bytes(4, "big") + data[4:] for number, data in enumerate(stream)
    )
    unharmed = 4 + len(stream[0])
    whole = whole[:unharmed] + damaged(rng, whole[unharmed:])
    taken = connection.receive(whole[:unharmed])
    assert connection.ready
    for each in asked:
        connection.send(each.api, {}, each, max_version=None)
    pos, responses = unharmed, 0
    while pos < len(whole) and taken.error is None:
        size = rng.choice((1, 3, 17, 1000, 100_000))
        taken = connection.receive(whole[pos : pos + size])
        responses += len(taken.responses)
        pos += size
    assert connection.pending_bytes <= len(whole)
    return responses == len(asked)


@cache
def negotiable_frames() -> tuple[Frame, ...]:
    return tuple(each for each in frames() if each.version <= each.api.stable_versions[1])


def versions_answer(asked: list[Frame]) -> bytes:
    """As if the broker served each API in the one version of which a frame comes; of two the last one's."""
    keys = [
        {"api_key": key, "min_version": version, "max_version": version}
        for key, version in {each.api.key: each.version for each in asked}.items()
    ]
    return bytes(4) + API_VERSIONS.response.encode(API_VERSIONS.versions[1], {"api_keys": keys})


def members(rng: random.Random) -> bool:
    """What other members of a group say through the coordinator."""
    owned = tuple(TopicPartition(rng.choice(("t", "u", "å")), number) for number in range(rng.randrange(4)))
    user_data = rng.choice((None, b"", b"x" * 40))
    if rng.random() < 0.5:
        said = Subscription(("t", "u"), user_data, owned, rng.choice((None, 0, 7)), rng.choice((None, "r")))
        Subscription.decode(damaged(rng, said.encode(rng.randrange(4))))
    else:
        Assignment.decode(damaged(rng, Assignment(owned, user_data).encode()))
    return True


COUNTS = {"t": 3, "u": 5, "å": 1}
TERMS = Terms(("t",), assignors_named(ASSIGNORS), 45_000, 300_000, 3_000)


def rebalances(rng: random.Random) -> bool:
    """The leader of a group whose members say what they like; what it decides holds together all the same."""
    membership = Membership(TERMS, 0)
    membership.tick(0)
    membership.take_actions()
    answer = {
        "leader": "me",
        "member_id": rng.choice(("me", "me", "me", "", "you")),
        "generation_id": rng.choice((1, 7, 0, -1, (1 << 31) - 1)),
        "protocol_name": rng.choice((*ASSIGNORS, *ASSIGNORS, "sticky", "", None)),
        "skip_assignment": rng.random() < 0.1,
        "members": [said_by(rng, f"member-{number}") for number in range(rng.randrange(6))],
    }
    membership.joined(answer, 1)
    if membership.leading is None:
        return False
    placed = membership.assignments(COUNTS)
    given = [tp for assignment in placed.values() for tp in assignment.partitions]
    assert len(given) == len(set(given))
    assert all(0 <= tp.partition < COUNTS[tp.topic] for tp in given)
    for member_id, assignment in placed.items():
        topics = membership.leading[member_id].subscription.topics
        assert all(tp.topic in topics for tp in assignment.partitions)
        Assignment.decode(assignment.encode())
    assigned = Assignment(tuple(given)).encode()
    membership.synced(Assignment.decode(damaged(rng, assigned) if rng.random() < 0.3 else assigned), 2)
    membership.poll(3)
    return True


def said_by(rng: random.Random, member_id: str) -> dict[str, Any]:
    topics = tuple(rng.choice((*COUNTS, "v", "")) for _ in range(rng.randrange(4)))
    places = [(rng.choice((*COUNTS, "v")), rng.choice((0, 1, 2, 4, 99, -1))) for _ in range(rng.randrange(4))]
    owned = tuple(TopicPartition(*place) for place in places)
    user_data = rng.choice((None, b"", bytes.fromhex("00000007"), b"x", b"\xff" * 8))
    metadata = Subscription(topics, user_data, owned, rng.choice((None, 0, 7)), None).encode(rng.randrange(4))
    metadata = damaged(rng, metadata) if rng.random() < 0.1 else metadata
    return {"member_id": member_id, "group_instance_id": rng.choice((None, None, "", "i")), "metadata": metadata}


DOCUMENTS = (
    '{"t":{"0":23,"1":7},"@1;t/2b1yVQz0RZmGV9kUS9nT6A/0-1=5":{}}',
    '{"t":{"0":23},"@2;t/2b1yVQz0RZmGV9kUS9nT6A/0=5|t/2b1yVQz0RZmGV9kUS9nT6A/0=5/0=12,1-2=0":{}}',
    '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}',
    '{"topicA":[0,1],"topicB":[2,4]}',
    '{"t":"earliest","u":{"0":9223372036854775807}}',
)
NESTED = ("[" * 2000, '{"a":' * 2000, "[" * 400 + "]" * 400)
PIECES = (*NESTED, *'"{}[]-@/;=', "9" * 5000, "1e999", "NaN", "\\ud800", "\x00")


def documents(rng: random.Random) -> bool:
    """Checkpoints and options: JSON that somebody edited."""
    text = list(rng.choice(DOCUMENTS))
    for _ in range(rng.randrange(1, 4)):
        pos = rng.randrange(len(text))
        text[pos : pos + rng.randrange(3)] = [rng.choice((*PIECES, chr(rng.randrange(32, 127))))]
    document = "".join(text)
    readers: tuple[Callable[[], Any], ...] = (
        lambda: parse_offsets("startingOffsets", document),
        lambda: parse_subscription({"assign": document, "subscribe": None, "subscribePattern": None}),
        lambda: offsets.from_json(parsed(document)),
    )
    rng.choice(readers)()
    return True


def parsed(document: str) -> Any:
    """As Spark hands over what was in the checkpoint."""
    try:
        return json.loads(document)
    except (ValueError, RecursionError):
        raise KafkaSourceError("not JSON") from None


DECISION = (
    "kafkasource/1 number=8 kind=stream query=q batch=7 rows=3 content=0000000000000003 tv=2 part=0/1 transactions=2 "
)
TRANSACTIONS = bytes.fromhex("00d00f00020000000000000001000201040000000000000002")


def decisions(rng: random.Random) -> bool:
    """The text beside an offset that says what a transaction decided, and the transactions packed in it."""
    if rng.random() < 0.5:
        unpack_transactions(damaged(rng, TRANSACTIONS), rng.choice((0, 1, 2, 2, 3, 100_000)))
        return True
    text = DECISION + base64.b85encode(TRANSACTIONS).decode()
    committed: Mapping[TopicPartition, tuple[int, str]] = {
        TopicPartition("t", 0): (7, damaged(rng, text.encode()).decode("latin-1"))
    }
    return last_decision(committed) is not None


def answers(rng: random.Random) -> bool:
    """Right frames with wrong words, to every question that the client asks."""
    ask(rng)
    return True


def reads(rng: random.Random) -> bool:
    """A task's read of brokers that lie: all rows, or an error."""
    assert lying_log.read(rng) == lying_log.ROWS
    return True


def memberships(rng: random.Random) -> bool:
    """A member of a group whose coordinator lies."""
    return belong(rng) is MemberState.CLOSED


def writes(rng: random.Random) -> bool:
    """A task's writes to brokers that lie."""
    return lying_sink.write(rng) > 0


TARGETS = (
    Target("frame", 40, frame),
    Target("records", 25, records),
    Target("conversation", 8, conversation),
    Target("members", 3, members),
    Target("rebalances", 3, rebalances),
    Target("documents", 4, documents),
    Target("decisions", 1, decisions),
    Target("answers", 1, answers),
    Target("reads", 2, reads),
    Target("memberships", 1, memberships),
    Target("writes", 1, writes),
    Target("authentications", 2, lying_authentication.authenticate),
    Target("credentials", 2, lying_authentication.read_credentials),
    Target("stores", 2, lying_security.read_stores),
    Target("tokens", 1, lying_security.take_token),
    Target("logins", 1, lying_security.log_in),
    Target("encryption", 1, lying_security.encrypt),
    Target("avro", 3, lying_avro.decode),
    Target("avro schemas", 1, lying_avro.read_schema),
    Target("protobuf", 2, lying_protobuf.decode),
    Target("json", 2, lying_json.decode),
    Target("json types", 1, lying_json.read_schema),
)
