"""Protobuf records as registries' clients frame them: the schema id, and behind it which message they are."""

from __future__ import annotations

from uuid import UUID

import pyarrow as pa
import pytest
from kept_schemas import KeptSchemas

from kafkasource.errors import SchemaError
from kafkasource.formats.framing import MOST_INDEX_BYTES, frames_of
from kafkasource.formats.protobuf import writer_schema
from kafkasource.formats.protobuf.message_index import index_bytes
from kafkasource.formats.protobuf.schema import read_schema
from kafkasource.formats.rows import RegisteredRows
from kafkasource.formats.schema_source import RegisteredSchema
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE

MIB = 1 << 20
GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
SHOP = """syntax = "proto3"; package shop;
message Order { int32 id = 1; string note = 2; }
message Event { message Paid { int32 id = 1; } string what = 1; }
"""
NEWER = SHOP.replace("string note = 2;", "string note = 2; repeated double prices = 3;")
OTHER_TYPE = SHOP.replace("string note = 2;", "int64 note = 2;")
OTHER_WORDS = 'syntax = "proto3"; package shop; message Order { int64 id = 1; bytes text = 2; }'
PLAIN = b"\x08\x07\x12\x02hi"


def proto(text):
    return RegisteredSchema("PROTOBUF", text)


def rows_of(*schemas, name="shop.Order", reader=SHOP, **more):
    kept = {number + 1: proto(text) for number, text in enumerate(schemas)}
    return RegisteredRows(proto(reader), KeptSchemas({**kept, **more}), message_name=name)


def decoded(rows, values, headers=None):
    """(values, (row, reason) of bad rows)"""
    found, bad = [], []
    for piece in rows.pieces(pa.array(values, pa.binary()), headers, MIB):
        piece.array.validate(full=True)
        found += piece.array.to_pylist()
        bad += [(bad_row.row, bad_row.reason) for bad_row in piece.bad]
    return found, bad


# Confluent's message indexes: the first message of a file, the second, the first within the second.
@pytest.mark.parametrize(
    ("index", "name", "row"),
    [
        (b"\0", "shop.Order", {"id": 7, "note": "hi"}),
        (b"\2\0", "Order", {"id": 7, "note": "hi"}),
        (b"\4\2\0", "shop.Event.Paid", {"id": 7}),
    ],
)
def test_the_message_index_says_which_message_a_record_is(index, name, row):
    record = b"\0\0\0\0\1" + index + PLAIN
    assert decoded(rows_of(SHOP, name=name), [record, None, record]) == ([row, None, row], [])


def test_a_record_of_another_message_is_bad_and_says_which():
    values = [b"\0\0\0\0\1\2\2" + b"\x0a\1x", b"\0\0\0\0\1\0" + PLAIN, b"\0\0\0\0\1\2\6" + PLAIN]
    found, bad = decoded(rows_of(SHOP), values)
    assert found == [None, {"id": 7, "note": "hi"}, None]
    assert [row for row, _ in bad] == [0, 2]
    assert "the record is a shop.Event, and the reader's message is shop.Order" in bad[0][1]
    assert "no message has the index [3]" in bad[1][1]


def test_ids_of_nine_bytes_and_headers_have_indexes_too():
    values = [
        b"\0" + (1).to_bytes(8, "big") + b"\0" + PLAIN,
        b"\0" + (1).to_bytes(8, "big") + b"\4\2\0" + b"\x08\5",
        b"\0\0\0\0\1\4\2\0" + b"\x08\6",
        b"\x08\x09",
        b"\x08\x0a",
    ]
    headers = pa.array(
        [
            None,
            None,
            None,
            [("__value_schema_id", b"\1" + GUID.bytes + b"\4\2\0")],
            [("__value_schema_id", b"\0\0\0\0\1\4\2\0")],
        ],
        HEADERS_TYPE,
    )
    source = KeptSchemas({1: proto(SHOP), GUID: proto(SHOP)})
    found, bad = decoded(RegisteredRows(proto(SHOP), source, message_name="Paid"), values, headers)
    assert found == [None, {"id": 5}, {"id": 6}, {"id": 9}, {"id": 10}]
    assert [row for row, _ in bad] == [0]


def test_few_frames_are_told_apart_whatever_the_records_are():
    """No record is a frame of its own: the work for each would be Python's."""
    values = pa.array(
        [b"\0\0\0\0\1" + index + number.to_bytes(4, "big") for number in range(300) for index in (b"\0", b"\4\2\0")],
        pa.binary(),
    )
    found = frames_of(values, "value", indexed=True)
    _, *frames = found.frames  # the first is that of null rows
    assert [(frame.schema_id, frame.size, frame.message) for frame in frames] == [(1, 6, (0,)), (1, 8, (1, 0))]
    assert found.rows.to_pylist() == [1, 2] * 300


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        b"\4",
        b"\4\2",
        b"\1",
        b"\xff\xff\xff\xff\xff\xff",
        b"\2\x80",
        b"\x80" * 100,
        b"\x7e" + b"\x80\1" * MOST_INDEX_BYTES,
    ],
)
def test_bytes_that_are_no_index_are_a_bad_record(tail):
    right = b"\0\0\0\0\1\0" + PLAIN
    found, bad = decoded(rows_of(SHOP), [right, b"\0\0\0\0\1" + tail, right])
    assert found == [{"id": 7, "note": "hi"}, None, {"id": 7, "note": "hi"}]
    assert [row for row, _ in bad] == [1]
    assert "message index" in bad[0][1]


def test_made_up_message_indexes_cost_no_reading_of_the_schema_and_no_memory(monkeypatch):
    read = []
    monkeypatch.setattr(writer_schema, "read_schema", lambda *given: read.append(given) or read_schema(*given))
    writer_schema._read.cache_clear()
    made_up = [b"\0\0\0\0\1" + index_bytes((1000 + number,)) + PLAIN for number in range(3000)]
    rows = rows_of(SHOP)
    _, bad = decoded(rows, made_up)
    assert len(bad) == 3000
    assert len(read) == 1
    assert len(rows._writers) <= 1000
    found, bad = decoded(rows, [b"\0\0\0\0\1\0" + PLAIN])
    assert (found, bad) == ([{"id": 7, "note": "hi"}], [])


def test_writers_of_other_versions_are_read_and_those_whose_types_differ_are_bad():
    values = [b"\0\0\0\0%c\0" % number + PLAIN for number in (1, 2, 3, 4)]
    found, bad = decoded(rows_of(SHOP, NEWER, OTHER_TYPE, OTHER_WORDS, reader=NEWER), values)
    row = {"id": 7, "note": "hi", "prices": []}
    assert found == [row, row, None, row]
    ((number, reason),) = bad
    assert number == 2
    assert "$.note: the writer has int64 note = 2, and the reader string note = 2" in reason


def test_a_schema_of_another_kind_and_an_unknown_id_are_bad():
    source = KeptSchemas({1: proto(SHOP), 2: RegisteredSchema("AVRO", '"int"')})
    rows = RegisteredRows(proto(SHOP), source, message_name="Order")
    _, bad = decoded(rows, [b"\0\0\0\0\2\0", b"\0\0\0\0\3\0", b"\x08\7"])
    assert [reason for _, reason in bad] == [
        "the record's schema is AVRO, not PROTOBUF",
        "no schema 3",
        "the first byte is 0x08, not 0x00 as in front of a schema id",
    ]


def test_a_reader_of_several_messages_needs_a_name():
    with pytest.raises(SchemaError, match=r"declares shop.Order, shop.Event: say which .*messageName"):
        rows_of(SHOP, name=None)
    with pytest.raises(SchemaError, match="no one message of this name"):
        rows_of(SHOP, name="Missing")
    assert rows_of(OTHER_WORDS, name=None, reader=OTHER_WORDS).type.names == ["id", "text"]
