"""A broker whose frames are right and whose words are not: one or two values of an answer are others.

`LyingKafka` is the brokers of tests/fake_broker.py. `CALLS` is what the client asks them; whatever they say, each ends
with a value or with an error of the package, in time (of a clock that is not the wall's).
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from fake_broker import FakeKafka, FakeNet, Request
from message_bodies import full_body, with_defaults

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.schema import Array, Body, Field, Primitive, Struct
from kafkasource.types import IsolationLevel, ProducerId, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = "a transaction"
TEXTS = ("", "t", "u", "x" * 300, "broker-1", "\n\x1b[31m", "å", "{}")
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def call(name: str, *arguments: Any, **more: Any) -> Callable[[Cluster], Any]:
    return lambda client: attrgetter(name)(client)(*arguments, **more)


CALLS: tuple[Callable[[Cluster], Any], ...] = (
    call("brokers"),
    call("topics.describe", ["t"]),
    call("topics.list"),
    call("offsets.list", {T0: -1, T1: -2}, IsolationLevel.READ_COMMITTED),
    call("offsets.list", {T0: 1_700_000_000_000}),
    call("offsets.epoch_ends", {T0: 0, T1: 0}),
    call("groups.commit", "g", {T0: 5}),
    call("groups.committed", "g", [T0, T1]),
    call("groups.committed", "g"),
    call("topics.create", ["new"], partitions=2),
    call("topics.delete", ["t"]),
    call("transactions.init_producer_id"),
    call("transactions.init_producer_id", ID),
    call("transactions.init_producer_ids", [ID, "b"]),
    call("transactions.version"),
    call("transactions.add_partitions", ID, ProducerId(1000, 0), [T0]),
    call("transactions.add_offsets", ID, ProducerId(1000, 0), "g"),
    call("transactions.commit_offsets", ID, ProducerId(1000, 0), "g", {T0: (5, "why")}, 1),
    call("transactions.end", ID, ProducerId(1000, 0), True, 2),
    call("transactions.end_each", [(ID, ProducerId(1000, 0))], False, 1),
    call("transactions.list", ""),
    call("transactions.describe", [ID]),
    call("transactions.producers", [T0]),
    call("transactions.abort", ID),
    call("groups.list"),
    call("groups.describe", ["g"]),
    call("groups.delete", ["g"]),
    call("groups.delete_offsets", "g", [T0]),
    call("topics.settings", ["t"]),
    call("topics.change_settings", "t", {"retention.ms": "1"}),
    call("offsets.delete_records", {T0: 5}),
    call("topics.add_partitions", {"t": 3}),
)


class LyingKafka(FakeKafka):
    """Speaks some versions only, and lies now and then."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(nodes=2, topics={"t": 2, "u": 1})
        self.rng = rng
        for key, (low, high) in self.versions.items():
            if rng.random() < 0.3:
                self.versions[key] = (low, rng.randint(low, high))
        if rng.random() < 0.1:
            self.become(rng.choice(("0.8.2", "0.9.0")))

    def answer(self, request: Request) -> dict | None:
        if hasattr(self, "_" + _snake(request.api.name)):
            body = super().answer(request)
        else:  # an API that the fake brokers do not know
            body = full_body(request.api.response, request.version) if self.rng.random() < 0.8 else {}
        if body is None or self.rng.random() < 0.5:
            return body
        fields = request.api.response.fields
        return with_lies(self.rng, fields, request.version, with_defaults(fields, body))


def _snake(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")


def with_lies(rng: random.Random, fields: Any, version: int, body: Body) -> Body:
    """The body, of which one or two values are replaced; what the version does not carry is left out."""
    body = said(fields, version, body)
    for _ in range(rng.choice((1, 1, 2))):
        places = list(places_in(fields, version, body))
        if not places:
            break
        owner, f = rng.choice(places)
        owner[f.name] = lie_about(rng, f, version, owner[f.name])
    return body


def said(fields: Any, version: int, body: Body) -> Body:
    """A copy that the version can say."""
    return {f.name: _said(f, version, body[f.name]) for f in fields if f.carried_by(version) and f.name in body}


def _said(f: Field, version: int, value: Any) -> Any:
    kind = f.type.element if isinstance(f.type, Array) else f.type
    if isinstance(kind, Struct) and value is not None:
        if isinstance(f.type, Array):
            return [said(kind.fields, version, each) for each in value]
        return said(kind.fields, version, value)
    return list(value) if isinstance(value, list) else value


def places_in(fields: Any, version: int, body: Body) -> Iterator[tuple[Body, Field]]:
    """Every field of every struct, with what it is a field of."""
    for f in fields:
        if f.name not in body:
            continue
        yield body, f
        kind, value = f.type.element if isinstance(f.type, Array) else f.type, body[f.name]
        if isinstance(kind, Struct) and value is not None:
            for each in value if isinstance(f.type, Array) else [value]:
                yield from places_in(kind.fields, version, each)


def lie_about(rng: random.Random, f: Field, version: int, value: Any) -> Any:
    if f.nullable_in(version) and rng.random() < 0.3:
        return None
    if isinstance(f.type, Array):
        rows = list(value or ())
        ways = ([], rows[:-1], rows[::-1], rows + rows, rows * 20)
        return rng.choice(ways)
    if f.name == "throttle_time_ms":  # obeyed however long it is, so that 24 days would be many rounds of polls
        return rng.choice((-(1 << 31), -1, 1, 5_000))
    return _other(rng, f.type, value) if isinstance(f.type, Primitive) else value


def _other(rng: random.Random, kind: Primitive, value: Any) -> Any:
    if kind.name in BITS:
        top = 1 << BITS[kind.name] - 1
        edges = (-top, -2, -1, 0, 1, 2, 3, 7, 14, 15, 16, 27, 51, 88, 100, top - 1)
        return rng.choice(
            (*(edge for edge in edges if -top <= edge < top), max(value - 1, -top), min(value + 1, top - 1))
        )
    if kind.name == "string":
        return rng.choice(TEXTS)
    if kind.name == "uuid":
        return rng.choice((uuid.UUID(int=0), uuid.UUID(int=1)))
    if kind.name == "bool":
        return not value
    return rng.choice((b"", b"\x00", b"\xff" * 9))


def ask(rng: random.Random) -> None:
    """One to three calls on a new client."""
    net = FakeNet(LyingKafka(rng), seed=rng.random())
    client = Cluster(ClientConfig.of("bootstrap:9092", client_id="fuzz"), **net.parts())
    try:
        for one in rng.sample(CALLS, rng.choice((1, 1, 2, 3))):
            one(client)
    finally:
        client.close()
