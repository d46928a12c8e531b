"""Records to columns: what is bad is null and says why, nothing else moves, and memory is what the caller allows.

Bytes are written out by hand, as the specification has them.
"""

from __future__ import annotations

import json
import struct
from array import array
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pyarrow as pa
import pytest

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.decode import AvroDecoder
from kafkasource.formats.avro.parse import parse_schema
from kafkasource.formats.decoding import opcodes
from kafkasource.formats.decoding.decode import NOT_DECODED

MANY_BYTES = 16 << 20
FIVE = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "int"}},
    ],
}


def zigzag(number):
    raw, out = (number << 1) ^ (number >> 63), bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def text(value):
    return zigzag(len(value.encode())) + value.encode()


def five(number, name="n", note=None, tags=(1, -1)):
    noted = b"\0" if note is None else b"\2" + text(note)
    listed = zigzag(len(tags)) + b"".join(map(zigzag, tags)) if tags else b""
    return zigzag(number) + text(name) + struct.pack("<d", number / 2) + noted + listed + b"\0"


def row(number, name="n", note=None, tags=(1, -1)):
    return {"id": number, "name": name, "price": number / 2, "note": note, "tags": list(tags)}


def decoder(reader, *writers):
    return AvroDecoder(
        parse_schema(json.dumps(reader)), [parse_schema(json.dumps(writer)) for writer in writers or [reader]]
    )


def decoded(reader, *records, writer=None, most_bytes=MANY_BYTES):
    return decoder(reader, writer or reader).decode(pa.array(records, pa.binary()), most_bytes)


def values(piece):
    piece.array.validate(full=True)
    return piece.array.to_pylist()


def reasons(piece):
    return [(fault.row, fault.place, fault.code) for fault in piece.faults()]


def test_a_record_is_read_behind_its_prefix_and_null_stays_null():
    column = pa.array([b"xxxxx" + five(7, note="hi"), None, b"yyyyy" + five(-1, "é" * 40, tags=())], pa.binary())
    piece = decoder(FIVE).decode(column, MANY_BYTES, skip_bytes=5)
    assert values(piece) == [row(7, note="hi"), None, row(-1, "é" * 40, tags=())]
    assert (piece.bad, piece.end, reasons(piece)) == (0, 3, [])


def test_a_slice_of_a_column_is_read_from_where_it_begins():
    column = pa.array([five(n) if n % 3 else None for n in range(20)], pa.binary()).slice(5, 10)
    piece = decoder(FIVE).decode(column, MANY_BYTES, start=2)
    assert values(piece) == [row(n) if n % 3 else None for n in range(7, 15)]
    assert piece.end == 10


def test_every_cut_record_is_null_and_no_other_row_moves():
    whole = five(300, "name", "note")
    for size in range(len(whole)):
        piece = decoded(FIVE, five(1), whole[:size], five(2, "two", "b"), whole)
        assert values(piece) == [row(1), None, row(2, "two", "b"), row(300, "name", "note")]
        ((bad, place, code),) = reasons(piece)
        assert (bad, place.startswith("$")) == (1, True)
        assert code in (opcodes.CUT, opcodes.BAD_LENGTH, opcodes.BAD_COUNT)


@pytest.mark.parametrize(
    ("schema", "record", "place", "code"),
    [
        ("int", zigzag(1 << 31), "$", opcodes.BAD_VARINT),
        ("int", b"\x80\x80\x80\x80\x80\x00", "$", opcodes.BAD_VARINT),
        ("long", b"\xff" * 9 + b"\x02", "$", opcodes.BAD_VARINT),
        ("long", b"\x80" * 10 + b"\x00", "$", opcodes.BAD_VARINT),
        ("boolean", b"\x02", "$", opcodes.BAD_BOOLEAN),
        ("string", zigzag(-1), "$", opcodes.BAD_LENGTH),
        ("string", zigzag((1 << 63) - 1) + b"x", "$", opcodes.BAD_LENGTH),
        ("string", b"\x04\xc3\x28", "$", opcodes.BAD_UTF8),
        ("string", b"\x06\xed\xa0\x80", "$", opcodes.BAD_UTF8),
        ("null", b"\0", "$", opcodes.TRAILING),
        (["null", "int"], b"\x04", "$", opcodes.BAD_BRANCH),
        (["int", "string"], b"\x01", "$", opcodes.BAD_BRANCH),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "$", opcodes.BAD_SYMBOL),
        ({"type": "array", "items": "int"}, zigzag(5) + b"\0", "$[]", opcodes.BAD_COUNT),
        ({"type": "array", "items": "null"}, zigzag(1 << 40), "$[]", opcodes.BAD_COUNT),
        ({"type": "array", "items": "int"}, zigzag(-(1 << 63)) + b"\0\0", "$[]", opcodes.BAD_COUNT),
        ({"type": "array", "items": "int"}, zigzag(-1) + zigzag(9) + b"\0\0", "$[]", opcodes.BAD_LENGTH),
        ({"type": "map", "values": "int"}, zigzag(1) + b"\2\xff\0\0", "$[]", opcodes.BAD_UTF8),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x02\x64", "$", opcodes.BAD_DECIMAL),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\0", "$", opcodes.BAD_DECIMAL),
        ({"type": "long", "logicalType": "timestamp-millis"}, zigzag(1 << 62), "$", opcodes.BAD_TIMESTAMP),
    ],
)  # fmt: skip
def test_wrong_bytes_are_the_records_fault_with_reason_and_place(schema, record, place, code):
    piece = decoded(schema, record)
    assert values(piece) == [None]
    ((bad, there, why),) = reasons(piece)
    assert (bad, why) == (0, code), opcodes.ERRORS[why]
    assert there.replace("{}", "[]") == place or (schema not in ("int", "long") and there == "$"), there


def test_utf8_is_checked_as_the_unicode_standard_says():
    def by_python(data):
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None

    edges = [
        0x00,
        0x7F,
        0x80,
        0x8F,
        0x90,
        0x9F,
        0xA0,
        0xBF,
        0xC0,
        0xC1,
        0xC2,
        0xDF,
        0xE0,
        0xED,
        0xEF,
        0xF0,
        0xF4,
        0xF5,
        0xFF,
    ]
    texts = [bytes([a, b]) for a in edges for b in edges]
    texts += [bytes([a, b, c]) for a in edges[12:] for b in edges for c in (0x7F, 0x80, 0xBF, 0xC0)]
    texts += [b"abcdefgh" + bytes([a, b, 0x80, c]) + b"tail" for a in edges[15:] for b in edges for c in (0x7F, 0xBF)]
    assert values(decoded("string", *(zigzag(len(each)) + each for each in texts))) == list(map(by_python, texts))


def test_a_block_may_say_its_size_and_there_may_be_several():
    record = zigzag(-2) + zigzag(2) + b"\2\4" + zigzag(1) + b"\6" + b"\0"
    assert values(decoded({"type": "array", "items": "int"}, record)) == [[1, 2, 3]]


def test_decimals_keep_their_sign_and_all_their_digits():
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
    most = 10**38 - 1
    numbers = [0, 1, -1, 127, 128, -128, -129, most, -most]
    padded = [n.to_bytes(20, "big", signed=True) for n in numbers]
    piece = decoded(schema, *(zigzag(len(data)) + data for data in [*padded, (most + 1).to_bytes(17, "big")]))
    assert values(piece) == [*(Decimal(n).scaleb(-2) for n in numbers[:7]), *(Decimal((n < 0, tuple(map(int, str(most))), -2)) for n in (most, -most)), None]  # fmt: skip  # noqa: E501


def test_timestamps_keep_their_moment_whatever_the_units():
    def stamps(unit, family="timestamp"):
        return {"type": "long", "logicalType": f"{family}-{unit}"}

    for unit, written in (("millis", -1), ("micros", -1000), ("nanos", -1_000_000)):
        for reader in ("millis", "micros"):
            piece = decoded(stamps(reader), zigzag(written), writer=stamps(unit))
            assert piece.array.cast(pa.int64()).to_pylist() == [-1000]
        assert values(decoded(stamps("nanos"), zigzag(written), writer=stamps(unit))) == [-1_000_000]
    assert decoded(stamps("micros"), zigzag(-1), writer=stamps("nanos")).array.cast(pa.int64()).to_pylist() == [-1]


def test_each_row_is_read_by_the_program_of_its_writer_in_the_order_of_rows():
    old = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}, {"name": "gone", "type": "string"}]}
    new = {"type": "record", "name": "R", "fields": [{"name": "w", "type": "string", "default": "?"}, {"name": "n", "type": "long"}]}  # fmt: skip  # noqa: E501
    column = pa.array([text("a") + zigzag(1), zigzag(2) + text("x"), b"never", text("b") + zigzag(3)], pa.binary())
    piece = decoder(new, new, old).decode(column, MANY_BYTES, programs=memoryview(array("i", [0, 1, NOT_DECODED, 0])))
    assert values(piece) == [{"w": "a", "n": 1}, {"w": "?", "n": 2}, None, {"w": "b", "n": 3}]
    assert piece.bad == 0


def test_a_writers_branch_or_symbol_that_the_reader_lacks_is_the_records_fault():
    enum = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    piece = decoded(enum | {"symbols": ["A"]}, b"\0", b"\2", writer=enum)
    assert values(piece) == ["A", None]
    assert reasons(piece) == [(1, "$", opcodes.UNKNOWN_SYMBOL)]
    piece = decoded(["null", "int"], b"\0", b"\2\2", b"\4\0", writer=["null", "int", "string"])
    assert values(piece) == [None, 1, None]
    assert reasons(piece) == [(2, "$(2)", opcodes.UNREADABLE_BRANCH)]


SHIP = {"type": "record", "name": "Ship", "fields": [{"name": "street", "type": "string"}]}
SHIP_WITH_ZIP = SHIP | {"fields": [*SHIP["fields"], {"name": "zip", "type": "string"}]}
TWO_BYTES = {"type": "fixed", "name": "X", "size": 2}


@pytest.mark.parametrize("null_first", [True, False])
@pytest.mark.parametrize(
    ("writer", "reader", "record"),
    [
        (SHIP, SHIP_WITH_ZIP, b"\2a"),  # Java: Found Ship, expecting Ship, missing required field zip
        (TWO_BYTES, TWO_BYTES | {"size": 3}, b"ab"),  # Java: Found X, expecting X
        ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}, b"\2\2\0"),
        ({"type": "map", "values": SHIP}, {"type": "map", "values": SHIP_WITH_ZIP}, b"\2\2k\2a\0"),
    ],
)
def test_null_is_read_where_the_other_branch_of_an_optional_field_does_not_fit(writer, reader, record, null_first):
    """Java's GenericDatumReader (Avro 1.12.1) reads the first and the third; the second is AvroTypeException."""

    def with_optional(kind):
        branches = ["null", kind] if null_first else [kind, "null"]
        kinds = {"id": "int", "f": branches, "end": "int"}
        return {"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in kinds.items()]}

    null, other = (b"\0", b"\2") if null_first else (b"\2", b"\0")
    records = [b"\2" + null + b"\4", b"\2" + other + record + b"\4", b"\6" + null + b"\6"]
    piece = decoded(with_optional(reader), *records, writer=with_optional(writer))
    assert values(piece) == [{"id": 1, "f": None, "end": 2}, None, {"id": 3, "f": None, "end": 3}]
    assert reasons(piece) == [(1, f"$.f({1 if null_first else 0})", opcodes.UNREADABLE_BRANCH)]


@pytest.mark.parametrize(
    ("writer", "reader", "place"),
    [
        ("string", "int", "$"),
        ({"type": "array", "items": "double"}, {"type": "array", "items": "long"}, "$[]"),
        ({"type": "record", "name": "R", "fields": []}, FIVE, "$.id"),
        (["string", "null"], "int", "$"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
         {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "$"),
    ],
)  # fmt: skip
def test_a_writer_that_can_never_be_read_is_refused_with_the_place(writer, reader, place):
    with pytest.raises(SchemaError) as caught:
        decoder(reader, writer)
    assert str(caught.value).startswith(f"{place}: ")


def test_defaults_that_the_writer_lacks_are_in_every_row():
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "float", "default": 0.5}]}
    fields = [
        ("bool", "boolean", True), ("bytes", "bytes", "\u00ff"),
        ("list", {"type": "array", "items": ["null", "int"]}, [1]),
        ("map", {"type": "map", "values": inner}, {"k": {}, "l": {"x": 2}}), ("null", ["null", "int"], None),
        ("union", ["int", "string"], "s"), ("at", {"type": "long", "logicalType": "timestamp-millis"}, 1),
        ("money", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, "\u00ff"),
    ]  # fmt: skip
    reader = {"type": "record", "name": "R", "fields": [{"name": n, "type": t, "default": d} for n, t, d in fields]}
    piece = decoded(reader, b"", b"", writer={"type": "record", "name": "R", "fields": []})
    seen = values(piece)[1]
    assert values(piece)[0] == seen
    assert seen.pop("at").timestamp() == 0.001
    assert seen == {
        "bool": True, "bytes": b"\xff", "list": [1], "map": [("k", {"x": 0.5}), ("l", {"x": 2.0})], "null": None,
        "union": {"member0": None, "member1": "s"}, "money": Decimal("-0.1"),
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["timestamp-millis", "local-timestamp-millis", "timestamp-micros"])
@pytest.mark.parametrize("null", [[], ["null"]])
def test_of_int_or_a_timestamp_the_column_has_the_number_itself(kind, null):
    """Spark's from_avro makes a bigint of a union of int and long, whatever the long is."""
    union = [*null, "int", {"type": "long", "logicalType": kind}]
    piece = decoded(union, zigzag(len(null) + 1) + zigzag(1_700_000_000_123), zigzag(len(null)) + zigzag(5))
    assert (str(piece.array.type), values(piece)) == ("int64", [1_700_000_000_123, 5])


def test_a_timestamp_of_another_family_is_read_by_its_number():
    """A moment and a local time are not the same, whatever their units."""
    reader = {"type": "long", "logicalType": "local-timestamp-micros"}
    piece = decoded(reader, zigzag(5), writer={"type": "long", "logicalType": "timestamp-millis"})
    assert piece.array.cast(pa.int64()).to_pylist() == [5]


NULLS = {"type": "array", "items": "null"}
EMPTY = {"type": "array", "items": {"type": "record", "name": "E", "fields": []}}
WIDE = {"type": "array", "items": {"type": "record", "name": "W", "fields": [
    {"name": "n", "type": "null"}, {"name": "d", "type": "long", "default": 1}]}}  # fmt: skip
NARROW = {"type": "array", "items": {"type": "record", "name": "W", "fields": [{"name": "n", "type": "null"}]}}


@pytest.mark.parametrize(("reader", "writer"), [(NULLS, NULLS), (EMPTY, EMPTY), (WIDE, NARROW)])
def test_items_that_take_no_bytes_are_bounded_by_what_they_take_here(reader, writer):
    modest, huge = zigzag(1000) + b"\0", zigzag((1 << 31) - 1) + b"\0"
    before = pa.total_allocated_bytes()
    pieces = list(decoder(reader, writer).batches(pa.array([modest, huge, modest] * 3, pa.binary()), 1 << 20))
    assert pa.total_allocated_bytes() - before <= len(pieces) << 20
    rows = [value for piece in pieces for value in values(piece)]
    assert [None if each is None else len(each) for each in rows] == [1000, None, 1000] * 3
    assert {fault.code for piece in pieces for fault in piece.faults()} == {opcodes.TOO_LARGE}
    assert sum(piece.bad for piece in pieces) == 3


def test_skipped_items_that_take_no_bytes_cost_nothing():
    fields = [{"name": "gone", "type": NULLS}, {"name": "n", "type": "int"}]
    reader = {"type": "record", "name": "R", "fields": fields[1:]}
    writer = {"type": "record", "name": "R", "fields": fields}
    assert values(decoded(reader, zigzag((1 << 63) - 1) * 50 + b"\0\2", writer=writer)) == [{"n": 1}]


def test_a_piece_ends_where_the_next_record_does_not_fit():
    records = [five(n, "x" * 5000, "y" * 3000, range(500)) for n in range(300)]
    pieces = list(decoder(FIVE).batches(pa.array(records, pa.binary()), 1 << 19))
    assert len(pieces) > 3
    assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    assert sum(piece.bad for piece in pieces) == 0
    rows = [value for piece in pieces for value in values(piece)]
    assert rows == [row(n, "x" * 5000, "y" * 3000, range(500)) for n in range(300)]


def test_a_record_too_large_by_itself_is_bad_and_the_others_are_not():
    records = [five(1), five(2, "x" * 900_000), five(3)]
    pieces = list(decoder(FIVE).batches(pa.array(records, pa.binary()), 1 << 19))
    assert [value for piece in pieces for value in values(piece)] == [row(1), None, row(3)]
    assert [(fault.row, fault.place, fault.code) for piece in pieces for fault in piece.faults()] == [
        (1, "$.name", opcodes.TOO_LARGE)
    ]


def test_columns_of_which_less_than_a_row_fits_take_what_a_row_needs():
    records = [five(n) for n in range(300)]
    pieces = list(decoder(FIVE).batches(pa.array(records, pa.binary()), 1000))
    assert len(pieces) > 1
    assert [value for piece in pieces for value in values(piece)] == [row(n) for n in range(300)]


def test_deeply_nested_lists_need_no_stack_of_c():
    schema, record, value = "int", b"\2", 1
    for _ in range(60):
        schema, record, value = {"type": "array", "items": schema}, b"\2" + record + b"\0", [value]
    assert values(decoded(schema, record)) == [value]


def test_programs_of_schemas_that_stand_for_too_much_are_refused():
    inner = {"type": "array", "items": "int"}
    default = [1]
    for level in range(6):
        inner = {"type": "record", "name": f"R{level}", "fields": [
            {"name": "a", "type": {"type": "array", "items": inner}, "default": [default] * 10}]}  # fmt: skip
        default = {}
    top = {"type": "record", "name": "T", "fields": [{"name": "top", "type": inner, "default": {}}]}
    with pytest.raises(SchemaError, match="too large to compile"):
        decoder(top, {"type": "record", "name": "T", "fields": []})


@pytest.mark.parametrize("number", [2**24 + 1, 2**62 + 2**38 + 1, -(2**63), 2**53 + 1, 2**63 - 1])
def test_a_long_read_as_a_number_with_a_point_is_rounded_once(number):
    float_of = struct.unpack("f", struct.pack("f", round_to(number, 24)))[0]
    assert values(decoded("float", zigzag(number), writer="long")) == [float_of]
    assert values(decoded("double", zigzag(number), writer="long")) == [float(number)]


def round_to(number, bits):
    """Round to the nearest number of this many bits, half to even."""
    size = abs(number)
    shift = max(size.bit_length() - bits, 0)
    whole, rest = size >> shift, size & ((1 << shift) - 1)
    half = 1 << (shift - 1) if shift else 1
    whole += rest > half or (rest == half and whole & 1)
    return float((whole << shift) * (1 if number > 0 else -1))


@pytest.mark.parametrize("records", [[], [None], [None, None, None], [b""], [b"", None]])
def test_columns_without_any_bytes_are_read(records):
    assert values(decoded(FIVE, *records)) == [None] * len(records)
    assert values(decoded("null", *records)) == [None] * len(records)
    assert decoded("null", *records).bad == 0
    assert decoded(FIVE, *records).bad == records.count(b"")


def test_a_record_shorter_than_its_prefix_is_bad():
    piece = decoder("null").decode(pa.array([b"1234", b"12345", b""], pa.binary()), MANY_BYTES, skip_bytes=5)
    assert reasons(piece) == [(0, "$", opcodes.CUT), (2, "$", opcodes.CUT)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary(), pa.binary(3)])
def test_only_a_column_of_binary_is_taken(kind):
    with pytest.raises(TypeError, match="binary"):
        decoder("null").decode(pa.array([None], kind), MANY_BYTES)


def test_a_writer_may_be_added_while_pieces_are_held():
    two = decoder("long")
    held = two.decode(pa.array([zigzag(1)], pa.binary()), MANY_BYTES)
    assert two.add(parse_schema('"int"')) == 1
    more = two.decode(pa.array([zigzag(2)], pa.binary()), MANY_BYTES, programs=memoryview(array("i", [1])))
    assert values(held) + values(more) == [1, 2]


def test_a_writer_that_is_refused_leaves_the_others_as_they_are():
    one = decoder(FIVE)
    with pytest.raises(SchemaError):
        one.add(parse_schema('"int"'))
    assert one.add(parse_schema(json.dumps(FIVE))) == 1
    column = pa.array([five(1), five(2)], pa.binary())
    assert values(one.decode(column, MANY_BYTES, programs=memoryview(array("i", [1, 0])))) == [row(1), row(2)]


def test_threads_decode_at_once():
    one = decoder(FIVE)
    column = pa.array([five(n, "x" * (n % 50)) for n in range(2000)], pa.binary())
    with ThreadPoolExecutor(4) as pool:
        arrays = list(pool.map(lambda _: one.decode(column, MANY_BYTES).array, range(12)))
    assert all(each.equals(arrays[0]) for each in arrays)
    assert arrays[0].to_pylist() == [row(n, "x" * (n % 50)) for n in range(2000)]
