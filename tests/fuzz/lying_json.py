"""JSON records with lies in them: each row of a column must be what `json_oracle` makes of its bytes alone."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pyarrow as pa
from frame_mutations import damaged
from json_oracle import Bad, expected, parsed, plain, rescued

from kafkasource.errors import SchemaError
from kafkasource.formats.json.decode import JsonDecoder
from kafkasource.formats.json.types_of import column_type
from kafkasource.formats.schema_source import JSON, RegisteredSchema

MOST_BYTES = 1 << 20
LEAVES = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.string()),
    *(pa.binary(), pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.decimal128(9, 2)),
    *(pa.decimal128(38, 10), pa.decimal128(38, 0)),
)
NAMES = ("a", "b", "id", "name", "née", 'qu"ote', "a longer name of a field, with much in common", "\\", "😀", "")
NUMBERS = (
    *("0", "-0", "1", "-1", "127", "128", "-128", "-129", "32767", "65536", "2147483647", "-2147483649", "1.0", "2e3"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616", "100e-2", "1.5"),
    *(
        "0.1",
        "1e-400",
        "1e400",
        "5e-324",
        "2.2250738585072011e-308",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
    ),
    *("0.30000000000000004", "9007199254740993", "1e23", "8.5e22", "123456789012345678901234567890.5", "1e10000000000"),
    *("0e99999999999", "1.00", "12345678.99", "-0.010", "0.001", "7.038531e-26", "3.4028235677973366e38", "16777217"),
    *(
        "1" + "0" * 37,
        "9" * 38,
        "1." + "0" * 400,
        "0." + "0" * 400 + "1e401",
        "1" * 400,
        "00",
        "1.",
        ".5",
        "-",
        "1e",
        "+1",
    ),
)
TIMES = (
    *(
        "2024-02-29",
        "2023-02-29",
        "2024-05-06T07:08:09Z",
        "2024-05-06 07:08:09.123456789+05:30",
        "0001-01-01T00:00:00Z",
    ),
    *("9999-12-31T23:59:59.999999-18:00", "2024-05-06T07:08", "1969-12-31T23:59:59.5", "2024-05-06T24:00:00Z"),
    *(
        "2024-05-06t07:08:60z",
        "2024-5-6",
        "2024-05-06T07:08:09+0530",
        "2024-05-06T07:08:09-07",
        "1900-02-29",
        "0000-01-01",
    ),
    *(
        "+10000-01-01",
        "+5881580-07-11",
        "+5881580-07-12",
        "-5877641-06-23",
        "-5877641-06-22",
        "-0001-02-29",
        "+024-01-01",
    ),
    *("0000-12-31T23:06:32Z", "-0004-02-29T00:00:00", "+294247-01-10T04:00:54.775807Z", "123456-01-02 00:00:00"),
    *("+294247-01-10T04:00:54.775808Z", "-290308-12-21T19:59:05.224192", "-290308-12-21T19:59:05.224191"),
    *("+294247-01-10T22:00:54.775807+18:00", "-290308-12-22T01:59:05.224192+06:00", "+1000000-01-01T00:00:00Z"),
)
SPACE = (b"", b"", b"", b"", b" ", b"\n", b"\t\r ")


def any_type(rng: random.Random, depth: int) -> pa.DataType:
    kind = rng.choice(("leaf", "leaf", "leaf", "struct", "list", "map")) if depth else "leaf"
    if kind == "leaf":
        return rng.choice(LEAVES)
    if kind == "struct":
        return struct_type(rng, depth)
    within, nullable = any_type(rng, depth - 1), rng.random() < 0.7
    if kind == "list":
        return pa.list_(pa.field("element", within, nullable))
    return pa.map_(pa.string(), pa.field("value", within, nullable))


def struct_type(rng: random.Random, depth: int) -> pa.StructType:
    names = rng.sample(NAMES, rng.randrange(1, 6))
    return pa.struct([pa.field(name, any_type(rng, depth - 1), rng.random() < 0.8) for name in names])


def text_of(rng: random.Random, text: str) -> bytes:
    """A JSON string, with escapes here and there."""
    out = []
    for each in text:
        roll = rng.random()
        if roll < 0.05:
            pair = each.encode("utf-16-be")
            out.append("".join(f"\\u{pair[i : i + 2].hex()}" for i in range(0, len(pair), 2)))
        else:
            plainly = json.dumps(each, ensure_ascii=roll < 0.3)[1:-1]
            out.append("\\/" if each == "/" and roll < 0.5 else plainly)
    return b'"' + "".join(out).encode() + b'"'


def value_of(rng: random.Random, kind: pa.DataType, nullable: bool, wild: bool) -> bytes:
    """JSON that fits the type, or mostly so where it is `wild`."""
    roll = rng.random()
    if wild and roll < 0.06:
        return anything(rng, 3)
    if nullable and roll < 0.15:
        return b"null"
    space = rng.choice(SPACE)
    if pa.types.is_struct(kind):
        pairs = [
            (each.name, value_of(rng, each.type, each.nullable, wild))
            for each in kind
            if rng.random() < 0.95 or not (wild or each.nullable)
        ]
        if rng.random() < 0.2:
            rng.shuffle(pairs)
        if rng.random() < 0.2:
            pairs.insert(
                rng.randrange(len(pairs) + 1),
                (
                    rng.choice(("more", *NAMES) if wild else ("more", "new")),
                    anything(rng, 3) if wild else b'{"x":[1,{}]}',
                ),
            )
        return object_of(rng, pairs)
    if pa.types.is_map(kind):
        names = ["".join(rng.choice("aé漢😀/ ") for _ in range(rng.randrange(5))) for _ in range(rng.randrange(4))]
        return object_of(rng, [(name, value_of(rng, kind.item_type, kind.item_field.nullable, wild)) for name in names])
    if pa.types.is_list(kind):
        items = [value_of(rng, kind.value_type, kind.value_field.nullable, wild) for _ in range(rng.randrange(5))]
        return b"[" + space + (space + b"," + space).join(items) + space + b"]"
    return space + leaf_of(rng, kind, wild)


def object_of(rng: random.Random, pairs: list[tuple[str, bytes]]) -> bytes:
    space = rng.choice(SPACE)
    parts = [text_of(rng, name) + space + b":" + rng.choice(SPACE) + each for name, each in pairs]
    return b"{" + space + (space + b"," + space).join(parts) + space + b"}"


def leaf_of(rng: random.Random, kind: pa.DataType, wild: bool) -> bytes:
    if kind == pa.bool_():
        return rng.choice((b"true", b"false"))
    if kind == pa.string():
        return text_of(rng, "".join(rng.choice('aé漢😀/\\"\n ') for _ in range(rng.choice((0, 3, 12, 40)))))
    if kind == pa.binary():
        return text_of(rng, base64.b64encode(rng.randbytes(rng.randrange(12))).decode())
    if pa.types.is_temporal(kind):
        return text_of(rng, rng.choice(TIMES) if wild else _moment(rng, kind))
    if pa.types.is_integer(kind) and (not wild or rng.random() < 0.7):
        return str(rng.randrange(-(1 << 63), 1 << 63) >> (64 - kind.bit_width + rng.randrange(8))).encode()
    if pa.types.is_floating(kind) and (not wild or rng.random() < 0.7):
        return (
            b'"%s"' % rng.choice((b"NaN", b"Infinity", b"-INF", b"inf" if wild else b"INF"))
            if rng.random() < 0.1
            else repr(
                rng.uniform(-1, 1)
                * 10.0 ** (rng.randrange(-300, 300) if kind == pa.float64() else rng.randrange(-44, 37))
            ).encode()
        )
    text = rng.choice(NUMBERS)
    if pa.types.is_decimal(kind) and (not wild or rng.random() < 0.6):
        text = f"{rng.randrange(-(10**7), 10**7)}.{rng.randrange(100) if kind.scale else 0:02d}"
        return b'"%s"' % text.encode() if rng.random() < 0.3 else text.encode()
    return text.encode()


def _moment(rng: random.Random, kind: pa.DataType) -> str:
    year = f"{rng.randrange(10000):04d}" if rng.random() < 0.8 else f"{rng.randrange(-290_000, 290_000):+06d}"
    day = f"{year}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
    if pa.types.is_date(kind):
        return day
    part = rng.choice(("", ".5", ".123456", ".123456789"))
    time = f"{rng.randrange(24):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d}{part}"
    zone = rng.choice(("Z", "+00:00", "-07:30", "+14")) if kind.tz else ""
    return f"{day}{rng.choice('T ')}{time}{zone}"


def anything(rng: random.Random, depth: int) -> bytes:
    kind = rng.randrange(8 if depth else 6)
    if kind == 6:
        return b"[" + b",".join(anything(rng, depth - 1) for _ in range(rng.randrange(4))) + b"]"
    if kind == 7:
        return object_of(rng, [(rng.choice(NAMES), anything(rng, depth - 1)) for _ in range(rng.randrange(4))])
    return (
        b"null", b"true", b"NaN", text_of(rng, rng.choice(NAMES)), rng.choice(NUMBERS).encode(), b'"\\ud800"',
    )[kind]  # fmt: skip


def lie(rng: random.Random, data: bytes, other: bytes) -> bytes:
    kind = rng.randrange(7)
    if kind == 0:
        return data[: rng.randrange(len(data) + 1)]
    if kind == 1:
        return data + rng.choice((other, b" ", b"}", b"\0", b","))
    if kind == 2:
        pos = rng.randrange(len(data) + 1)
        return data[:pos] + rng.choice((b'"', b"\\", b"{", b"]", b",", b":", b"\xff", b"\xc3", b"0", b"e")) + data[pos:]
    if kind == 3:
        return rng.choice((b"", b"null", b"{}", b"[]", b"\0\0\0\0\1", b"\0", b"\xef\xbb\xbf{}", b"[" * 5000))
    return rng.randbytes(rng.randrange(40)) if kind == 4 else damaged(rng, data, other)


def record(rng: random.Random, kind: pa.DataType) -> bytes:
    frame = rng.choice((b"", b"", b"\0\0\0\0\7", b"\0\0\0\0\0\0\0\0\7"))
    return frame + value_of(rng, kind, False, rng.random() < 0.4) + rng.choice(SPACE)


def wrong_column(rng: random.Random) -> tuple[pa.DataType, list[bytes | None]]:
    kind = struct_type(rng, rng.randrange(1, 5))
    column: list[bytes | None] = [record(rng, kind) for _ in range(rng.randrange(2, 8))]
    for row, data in enumerate(column):
        roll = rng.random()
        if roll < 0.05:
            column[row] = None
        elif roll < 0.35 and data is not None:
            column[row] = lie(rng, data, column[0] or b"")
    return kind, column


def decode(rng: random.Random) -> bool:
    """Right and wrong records in one column. Taken: no record was refused."""
    kind, column = wrong_column(rng)
    rescues = rng.random() < 0.5
    before = pa.total_allocated_bytes()
    decoder = JsonDecoder(kind, rescues=rescues)
    pieces = list(decoder.batches(pa.array([b"x", *column], pa.binary())[1:], rng.choice((MOST_BYTES, MOST_BYTES, 1))))
    assert pa.total_allocated_bytes() - before <= MOST_BYTES * len(pieces) + 4096
    for piece in pieces:
        piece.array.validate(full=True)
    rows, texts = [], []
    for piece in pieces:
        array = piece.array
        if rescues:  # are the last field, whose name another may have
            *fields, last = array.flatten()
            texts += last.to_pylist()
            array = pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
        rows += plain(array)
    bad = {fault.row for piece in pieces for fault in piece.faults()}
    assert len(rows) == len(column), "rows are lost"
    for row, data in enumerate(column):
        assert (row in bad, rows[row]) == outcome(kind, data), (str(kind), data, rows[row], outcome(kind, data))
        if rescues and data is not None and row not in bad:
            assert (texts[row] and parsed(texts[row])) == rescued(kind, data), (str(kind), data, texts[row])
    return not bad


def outcome(kind: pa.DataType, data: bytes | None) -> tuple[bool, Any]:
    try:
        return False, None if data is None else expected(kind, data)
    except Bad:
        return True, None


def read_schema(rng: random.Random) -> bool:
    """A reader's schema, damaged."""
    texts = (
        "id BIGINT NOT NULL, `a b`: ARRAY<STRUCT<x: DECIMAL(10, 2), y MAP<STRING, DATE>>> COMMENT 'c', t timestamp_ntz",
        json.dumps({"type": "struct", "fields": [{"name": "a", "type": {"type": "array", "elementType": "long"}}]}),
        json.dumps(
            {
                "$id": "http://x/y.json", "type": ["object", "null"], "required": ["a"],
                "properties": {
                    "a": {"type": "integer"}, "b": {"$ref": "#/$defs/p"}, "c": {"oneOf": [{"type": "null"}, {}]},
                    "d": {"allOf": [{"$ref": "z.json#/definitions/q"}]}, "e": {"enum": [1, None]}, "f": {"$ref": "#n"},
                },
                "$defs": {"p": {"type": "object", "additionalProperties": {"items": {"type": "string"}}},
                          "n": {"$anchor": "n", "type": "string", "format": "date"}},
            }
        ),
    )  # fmt: skip
    other = json.dumps({"definitions": {"q": {"type": "object", "properties": {"x": {"const": True}}}}})
    text = rng.choice(texts).encode()
    reader = RegisteredSchema(JSON, damaged(rng, text, text).decode("utf-8", "replace"), (("z.json", other),))
    try:
        column_type(reader)
    except SchemaError:
        return False
    return True
