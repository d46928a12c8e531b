"""The message index: names the message of its schema that a record is. Confluent's serializers write it behind the id.

A count and that many numbers, all zigzag varints of 32 bits: the first counts the file's messages from 0, each further
one the messages within. The first message of a file, `[0]`, is a single byte 00.
"""

from __future__ import annotations

from typing import TypeAlias

from kafkasource.formats.protobuf.parse import MOST_DEPTH

MessageIndex: TypeAlias = tuple[int, ...] | int
"""A tuple as Confluent's serializers write it; a number as Glue's do: the place among all messages, by full name."""

_MOST_BYTES = 5  # of a number


def message_index_of(data: bytes, pos: int = 0) -> tuple[MessageIndex, int] | None:
    """(index, pos of the message behind it); None where the bytes are not an index."""
    count, pos = _signed(data, pos)
    if not 0 <= count <= MOST_DEPTH:
        return None
    if count == 0:
        return (0,), pos
    found: list[int] = []
    for _ in range(count):
        number, pos = _signed(data, pos)
        if number < 0:
            return None
        found.append(number)
    return tuple(found), pos


def place_of(data: bytes, pos: int) -> tuple[MessageIndex, int] | None:
    """Read what Glue's serializers write; else as `message_index_of`."""
    number, pos = _number(data, pos)
    return (number, pos) if 0 <= number < 1 << 31 else None


def _signed(data: bytes, pos: int) -> tuple[int, int]:
    """(number, next pos). Below 0 where it is that, or is cut, or has too many bytes."""
    raw, pos = _number(data, pos)
    number = (raw >> 1) ^ -(raw & 1)
    return (number if raw >= 0 and number < 1 << 31 else -1), pos


def _number(data: bytes, pos: int) -> tuple[int, int]:
    """(number, next pos). Below 0 where it is cut, or has too many bytes."""
    raw = 0
    for count, byte in enumerate(data[pos : pos + _MOST_BYTES]):
        raw |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return raw, pos + count + 1
    return -1, pos


def index_bytes(index: tuple[int, ...]) -> bytes:
    """Return the bytes that Confluent's serializers write."""
    if index == (0,):
        return b"\0"
    return b"".join(varint(2 * number) for number in (len(index), *index))


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
