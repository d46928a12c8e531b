"""Bodies for tests, made from the schemas: random ones for hypothesis, and one that sets every field."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import strategies as st

from kafkasource.kafka.protocol.apis import APIS
from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import Array, Body, Field, Primitive, Struct, Type

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


def _whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": _whole(8),
    "int16": _whole(16),
    "int32": _whole(32),
    "int64": _whole(64),
    "uuid": st.uuids(),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.just("å" * 100),
    "bytes": st.binary(max_size=40),
    "records": st.binary(max_size=40),
}


def bodies(message: Message, version: int) -> st.SearchStrategy[Body]:
    """Bodies with every field that the version carries."""
    return _structs(message.fields, version)


def _structs(fields: Sequence[Field], version: int) -> st.SearchStrategy[Body]:
    return st.fixed_dictionaries({f.name: _values(f, version) for f in fields if f.carried_by(version)})


def _values(f: Field, version: int) -> st.SearchStrategy[Any]:
    values = _of_type(f.type, version)
    return st.none() | values if f.nullable_in(version) else values


def _of_type(kind: Type, version: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, Primitive):
        return _PRIMITIVES[kind.name]
    if isinstance(kind, Struct):
        return _structs(kind.fields, version)
    return st.lists(_of_type(kind.element, version), max_size=3)


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
            "string": f"string {n}",
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
