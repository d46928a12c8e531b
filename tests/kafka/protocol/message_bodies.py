"""Bodies for tests, made from the schemas."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from kafkasource.kafka.protocol.apis import APIS
from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import Array, Body, Field, Struct, Type

MESSAGES = [message for api in APIS.values() for message in (api.request, api.response)]


def versions(message: Message) -> range:
    return range(message.versions[0], message.versions[1] + 1)


EVERY_VERSION = [(message, version) for message in MESSAGES for version in versions(message)]


def named(value: object) -> str:
    return value.name if isinstance(value, Message) else str(value)


def at_length(cases: Sequence[tuple[Message, int]]) -> list[Any]:
    """For tests that go through much: `make test` has the newest version of each message in either encoding (KIP-482
    brought the flexible one), `make extended` all of them.
    """
    return [
        pytest.param(m, v, marks=() if v in (m.versions[1], m.flexible_since - 1) else pytest.mark.extended)
        for m, v in cases
    ]


def full_body(message: Message, version: int) -> Body:
    """Every field set to a value of its own that is not the default, every array of two elements."""
    numbers = itertools.count(1)

    def of_type(kind: Type) -> Any:
        if isinstance(kind, Array):
            return [of_type(kind.element) for _ in range(2)]
        if isinstance(kind, Struct):
            return {f.name: of_type(f.type) for f in kind.fields if f.carried_by(version)}
        n = next(numbers)
        return {
            "bool": True,
            "string": f"å {n}",
            "uuid": uuid.UUID(int=n),
            "bytes": b"bytes" * n,
            "records": b"records" * n,
        }.get(kind.name, n)

    return {f.name: of_type(f.type) for f in message.fields if f.carried_by(version)}


def with_defaults(fields: Sequence[Field], body: Body) -> Body:
    """What decoding must give for a body: the fields that were left out, or not carried, have their defaults."""
    return {f.name: _filled(f, body[f.name]) if f.name in body else f.default_value() for f in fields}


def _filled(f: Field, value: Any) -> Any:
    kind = f.type.element if isinstance(f.type, Array) else f.type
    if value is None or not isinstance(kind, Struct):
        return value
    if isinstance(f.type, Array):
        return [with_defaults(kind.fields, each) for each in value]
    return with_defaults(kind.fields, value)
