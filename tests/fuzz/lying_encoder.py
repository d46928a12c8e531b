"""Messages written straight from their tables, so that any one length, count or tag in them can be a lie.

Nothing of the package's own writer is used: told the truth it must write the same bytes (a test compares). What
encloses a lie stays true: the size of a tagged field is that of what is written in it.

    place       each number that says how much follows: count of an array, length of a string or of bytes, number of
                tagged fields, tag, size of a tagged field
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import Array, Body, Field, Primitive, Struct, Type

WIDTHS = {"varint": 0, "int16": 2, "int32": 4}
EDGES = (
    -(1 << 31),
    -(1 << 15),
    -129,
    -2,
    -1,
    0,
    1,
    2,
    63,
    64,
    65,
    127,
    128,
    255,
    1 << 14,
    (1 << 15) - 1,
    100_000,
    100_001,
    (1 << 31) - 1,
)
FIXED = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uint16": ">H", "uint32": ">I", "float64": ">d"}


@dataclass(frozen=True)
class Place:
    """One number as it stands on the wire: the compact form of a length of 3 is 4."""

    what: str
    form: str  # varint, int16, int32
    honest: int


def unsigned_varint(value: int) -> bytes:
    """Of any value from 0; more than 32 bits take more than five bytes."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def lies(place: Place) -> list[bytes]:
    """What to write instead: neighbours, edges, what no varint may be."""
    numbers = {*EDGES, place.honest - 1, place.honest + 1, place.honest * 2} - {place.honest}
    if place.form == "varint":
        plain = [unsigned_varint(number) for number in sorted(numbers) if number >= 0]
        true = unsigned_varint(place.honest)
        padded = true[:-1] + bytes([true[-1] | 0x80, 0])  # the same number in one byte more
        return [*plain, padded, unsigned_varint(1 << 32), b"\xff" * 5, b"\x80" * 5 + b"\x01", b"\xff" * 11]
    bits = 8 * WIDTHS[place.form]
    return sorted({(number % (1 << bits)).to_bytes(bits // 8, "big") for number in numbers})


class LyingEncoder:
    """`encode` writes a body; the number at `places[lie_at]` becomes `lie`."""

    def __init__(self, version: int, flexible: bool, lie_at: int | None = None, lie: bytes = b"") -> None:
        self.places: list[Place] = []
        self._version = version
        self._flexible = flexible
        self._lie_at = lie_at
        self._lie = lie

    def encode(self, fields: Sequence[Field], body: Body) -> bytes:
        out = b"".join(
            self._value(f.type, body.get(f.name, f.default_value()))
            for f in fields
            if self._carries(f) and f.tag is None
        )
        if not self._flexible:
            return out
        tagged = [f for f in fields if f.tag is not None and self._carries(f)]
        present = sorted((f for f in tagged if not f.is_default(body.get(f.name, f.default_value()))), key=_tag)
        out += self._number("number of tagged fields", "varint", len(present))
        for f in present:
            out += self._number("tag", "varint", _tag(f))
            size_at = len(self.places)
            self.places.append(Place("size of a tagged field", "varint", 0))  # its number comes before what is in it
            value = self._value(f.type, body[f.name])
            self.places[size_at] = Place("size of a tagged field", "varint", len(value))
            out += (self._lie if size_at == self._lie_at else unsigned_varint(len(value))) + value
        return out

    def _carries(self, f: Field) -> bool:
        return f.carried_by(self._version)

    def _number(self, what: str, form: str, value: int) -> bytes:
        self.places.append(Place(what, form, value))
        if len(self.places) - 1 == self._lie_at:
            return self._lie
        return unsigned_varint(value) if form == "varint" else value.to_bytes(WIDTHS[form], "big", signed=True)

    def _length(self, what: str, plain_form: str, length: int) -> bytes:
        """-1 is null."""
        return self._number(what, "varint", length + 1) if self._flexible else self._number(what, plain_form, length)

    def _value(self, kind: Type, value: Any) -> bytes:
        if isinstance(kind, Array):
            counted = self._length("count", "int32", -1 if value is None else len(value))
            return counted + b"".join(self._value(kind.element, each) for each in value or ())
        if isinstance(kind, Struct):
            assert isinstance(value, Mapping)
            return self.encode(kind.fields, dict(value))
        return self._primitive(kind, value)

    def _primitive(self, kind: Primitive, value: Any) -> bytes:
        if kind.name in FIXED:
            return struct.pack(FIXED[kind.name], value)
        if kind.name == "bool":
            return b"\x01" if value else b"\x00"
        if kind.name == "uuid":
            return bytes(value.bytes)
        data = value.encode() if isinstance(value, str) else value
        form = "int16" if kind.name == "string" else "int32"
        return self._length(f"length of {kind.name}", form, -1 if data is None else len(data)) + (data or b"")


def _tag(f: Field) -> int:
    assert f.tag is not None
    return f.tag


def encoded(message: Message, version: int, body: Body) -> tuple[bytes, list[Place]]:
    encoder = LyingEncoder(version, message.is_flexible(version))
    return encoder.encode(message.fields, body), encoder.places


def encoded_with_a_lie(message: Message, version: int, body: Body, lie_at: int, lie: bytes) -> bytes:
    return LyingEncoder(version, message.is_flexible(version), lie_at, lie).encode(message.fields, body)
