"""Primitives against bytes worked out by hand from https://kafka.apache.org/protocol."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from peak_memory import peak_bytes

from kafkasource.errors import ProtocolError
from kafkasource.kafka.protocol.primitives import (
    COPY_BELOW_BYTES,
    MAX_MEMORY_BYTES,
    MAX_STRING_BYTES,
    MAX_TAGS,
    ZERO_UUID,
    ByteReader,
    ByteWriter,
)

SAMPLES: list[tuple[str, Any, str]] = [
    ("int8", -2, "fe"),
    ("int16", -2, "fffe"),
    ("int32", 1_000_000, "000f4240"),
    ("int64", -(2**63), "8000000000000000"),
    ("uint16", 65535, "ffff"),
    ("uint32", 2**32 - 1, "ffffffff"),
    ("float64", 1.5, "3ff8000000000000"),
    ("boolean", True, "01"),
    ("boolean", False, "00"),
    ("uuid", uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"), "00112233445566778899aabbccddeeff"),
    ("uuid", ZERO_UUID, "00" * 16),
    ("unsigned_varint", 0, "00"),
    ("unsigned_varint", 127, "7f"),
    ("unsigned_varint", 128, "8001"),
    ("unsigned_varint", 300, "ac02"),
    ("unsigned_varint", 2**32 - 1, "ffffffff0f"),
    ("varint", -1, "01"),
    ("varint", 1, "02"),
    ("varint", 2**31 - 1, "feffffff0f"),
    ("varint", -(2**31), "ffffffff0f"),
    ("varlong", 2**63 - 1, "feffffffffffffffff01"),
    ("varlong", -(2**63), "ffffffffffffffffff01"),
    ("string", "å", "0002c3a5"),
    ("string", "", "0000"),
    ("nullable_string", None, "ffff"),
    ("nullable_string", "a", "000161"),
    ("compact_string", "a", "0261"),
    ("compact_string", "", "01"),
    ("compact_nullable_string", None, "00"),
    ("bytes_", b"ab", "000000026162"),
    ("nullable_bytes", None, "ffffffff"),
    ("compact_bytes", b"ab", "036162"),
    ("compact_nullable_bytes", None, "00"),
]

a_sample = pytest.mark.parametrize(("kind", "value", "hexed"), SAMPLES)


def reading(kind: str) -> Callable[[ByteReader], Any]:
    read: Callable[[ByteReader], Any] = getattr(ByteReader, kind)
    return read


@a_sample
def test_a_sample_is_read(kind: str, value: Any, hexed: str) -> None:
    reader = ByteReader(bytes.fromhex(hexed))
    assert reading(kind)(reader) == value
    reader.finish()


@a_sample
def test_a_sample_is_written(kind: str, value: Any, hexed: str) -> None:
    writer = ByteWriter()
    getattr(writer, kind)(value)
    assert writer.getvalue().hex() == hexed


@a_sample
def test_a_sample_cut_short_is_refused(kind: str, value: Any, hexed: str) -> None:
    raw = bytes.fromhex(hexed)
    for length in range(len(raw)):
        with pytest.raises(ProtocolError):
            reading(kind)(ByteReader(raw[:length]))


@a_sample
def test_bytes_after_a_sample_are_left_alone_and_refused_at_the_end(kind: str, value: Any, hexed: str) -> None:
    reader = ByteReader(bytes.fromhex(hexed) + b"\x01")
    assert reading(kind)(reader) == value
    assert reader.remaining == 1
    with pytest.raises(ProtocolError, match="1 bytes too many"):
        reader.finish()


@pytest.mark.parametrize(
    ("kind", "hexed"),
    [
        ("string", "ffff"),  # null where there must be a string
        ("compact_string", "00"),
        ("bytes_", "ffffffff"),
        ("compact_bytes", "00"),
        ("nullable_string", "fffe00"),  # a length below null's
        ("nullable_bytes", "80000000"),
        ("nullable_bytes", "fffffffe0000"),
        ("string", "0002c328"),  # not UTF-8
        ("string", "0003eda080"),  # a surrogate
        ("compact_string", "868002" + "61" * (MAX_STRING_BYTES + 6)),  # longer than Java reads
        ("unsigned_varint", "ffffffff1f"),  # above 32 bits
        ("unsigned_varint", "8080808080" + "01"),
        ("varlong", "ffffffffffffffffff03"),  # above 64 bits
        ("varlong", "80808080808080808080" + "01"),
    ],
)
def test_what_no_kafka_writes_is_refused(kind: str, hexed: str) -> None:
    with pytest.raises(ProtocolError):
        reading(kind)(ByteReader(bytes.fromhex(hexed)))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int8", 128),
        ("int16", -32769),
        ("int32", 2**31),
        ("int64", "1"),
        ("int64", None),
        ("uint32", -1),
        ("unsigned_varint", -1),
        ("unsigned_varint", 2**32),
        ("varint", 2**31),
        ("varlong", 2**63),
        ("string", None),
        ("string", b"a"),
        ("string", "\ud800"),
        ("string", "å" * 16384),
        ("uuid", "00112233-4455-6677-8899-aabbccddeeff"),
        ("bytes_", "a"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(kind: str, value: Any) -> None:
    with pytest.raises(ProtocolError):
        getattr(ByteWriter(), kind)(value)


@pytest.mark.parametrize("compact", [False, True])
def test_a_count_is_checked_against_the_bytes_that_are_left(compact: bool) -> None:
    for count in (3, 100, 2**31 - 1):
        writer = ByteWriter()
        writer.array_length(count, compact=compact)
        reader = ByteReader(writer.getvalue() + bytes(8))
        with pytest.raises(ProtocolError, match=f"array of {count} elements"):
            reader.array_length(compact=compact, element_bytes=4)


def test_a_negative_count_other_than_null_is_refused() -> None:
    assert ByteReader(b"\xff\xff\xff\xff").array_length(compact=False, element_bytes=1) is None
    with pytest.raises(ProtocolError):
        ByteReader(b"\xff\xff\xff\xfe").array_length(compact=False, element_bytes=1)


def test_an_array_may_be_as_long_as_the_bytes_that_are_there() -> None:
    count = 1_000_000
    assert ByteReader(count.to_bytes(4, "big") + bytes(count)).array_length(compact=False, element_bytes=1) == count


def test_the_memory_of_one_message_is_bounded() -> None:
    count, each = 1 << 14, 1 << 10
    reader = ByteReader(count.to_bytes(4, "big") * 17 + bytes(count))
    for _ in range(16):
        assert reader.array_length(compact=False, element_bytes=1, element_memory_bytes=each) == count
    assert reader.memory_bytes == 256 << 20 == MAX_MEMORY_BYTES
    with pytest.raises(ProtocolError, match=r"16384 elements.*272 MiB of memory, above our limit of 256"):
        reader.array_length(compact=False, element_bytes=1, element_memory_bytes=each)


def test_unknown_tags_are_skipped() -> None:
    ByteReader(bytes.fromhex("020502abcd0700")).skip_tagged_fields()


@pytest.mark.parametrize(
    "hexed",
    [
        "0207000500",  # descending
        "0205000500",  # twice the same
        "010503abcd",  # longer than what is left
        "0105ffffffff0f",
        f"{MAX_TAGS + 1:02x}" + "".join(f"{tag:02x}00" for tag in range(MAX_TAGS + 1)),
    ],
)
def test_tags_out_of_order_or_bounds_are_refused(hexed: str) -> None:
    with pytest.raises(ProtocolError):
        ByteReader(bytes.fromhex(hexed)).skip_tagged_fields()


def test_a_tagged_value_keeps_to_its_size() -> None:
    for size in (1, 3):  # the value takes 2
        reader = ByteReader(bytes([1, 0, size]) + bytes(8))
        with pytest.raises(ProtocolError):
            reader.tagged_fields(lambda tag, reader=reader: reader.int16() == 0)  # type: ignore[misc]


def test_bytes_are_read_as_views_and_large_ones_written_as_views() -> None:
    source = bytearray(b"\x00\x00\x00\x02ab")
    view = ByteReader(source).bytes_()
    source[4] = ord("x")
    assert view == b"xb"

    records = bytearray(COPY_BELOW_BYTES)
    writer = ByteWriter()
    writer.int8(1)
    writer.bytes_(records)
    writer.int8(2)
    before, piece, after = writer.parts()
    records[0] = 9
    assert (before, after) == (b"\x01\x00\x00\x10\x00", b"\x02")
    assert piece == records


def test_a_claimed_length_allocates_nothing() -> None:
    def read_all() -> None:
        for kind, raw in [("bytes_", "7fffffff"), ("compact_bytes", "ffffffff07"), ("compact_string", "ffff01")]:
            with pytest.raises(ProtocolError):
                reading(kind)(ByteReader(bytes.fromhex(raw) + bytes(100)))

    assert peak_bytes(read_all, 64 * 1024) <= 64 * 1024
