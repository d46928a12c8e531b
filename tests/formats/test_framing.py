"""Tests how a record names its schema. Confluent's serializer wrote the bytes of confluent_frames.json."""

from __future__ import annotations

import json
import pickle
import random
import zlib
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from fake_registry import a_registry
from kept_schemas import KeptSchemas, avro, encoded, fastavro, framed
from random_inputs import examples

from kafkasource.errors import RegistryUnavailable, SchemaError
from kafkasource.formats import glue
from kafkasource.formats.framing import MOST_KNOWN, frame_of, frame_of_header, frames_of
from kafkasource.formats.registry import RegistryOptions, ShippedSchemas
from kafkasource.formats.rows import BareRows, RegisteredRows, TextRows
from kafkasource.formats.schema_source import Fingerprint, NoSchemas, RegisteredSchema
from kafkasource.formats.typed_pieces import BadRow
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE

MIB = 1 << 20
CONFLUENT = json.loads((Path(__file__).parent / "confluent_frames.json").read_text())
ORDER = json.loads(CONFLUENT["schema"])
GUID = UUID(CONFLUENT["guid"])
WITH_PRICE = {**ORDER, "fields": [*ORDER["fields"], {"name": "price", "type": ["null", "double"], "default": None}]}
OLD_ID = {**ORDER, "fields": [{"name": "id", "type": "int"}, {"name": "gone", "type": "string"}, ORDER["fields"][1]]}


def binary(*values):
    return pa.array(values, pa.binary())


def decoded(rows, values, headers=None, most_bytes=MIB):
    """(values, bad rows)"""
    found, bad = [], []
    for piece in rows.pieces(values, headers, most_bytes):
        assert piece.start == len(found)
        piece.array.validate(full=True)
        found += piece.array.to_pylist()
        bad += piece.bad
    return found, bad


@pytest.mark.parametrize("vector", CONFLUENT["vectors"], ids=lambda vector: f"{vector['form']}-{vector['side']}")
def test_what_confluents_serializer_writes_is_read(vector):
    headers = [(name, bytes.fromhex(value)) for name, value in vector["headers"]] or None
    rows = RegisteredRows(avro(ORDER), KeptSchemas({CONFLUENT["schema_id"]: ORDER, GUID: ORDER}), vector["side"])
    found = decoded(rows, binary(bytes.fromhex(vector["bytes"])), pa.array([headers], HEADERS_TYPE))
    assert found == ([CONFLUENT["record"]], [])


def test_rows_of_many_writers_and_framings_each_by_its_own_and_in_their_order():
    long_id = b"\0" + (3).to_bytes(8, "big")  # Apicurio's
    values = binary(
        framed(1, ORDER, {"id": 1, "item": "a"}),
        framed(2, WITH_PRICE, {"id": 2, "item": "b", "price": 2.5}),
        None,
        long_id + encoded(OLD_ID, {"id": 3, "gone": "x", "item": "c"}),
        encoded(WITH_PRICE, {"id": 4, "item": "d", "price": 4.5}),
        framed(1, ORDER, {"id": 5, "item": "e"}),
        b"\x07" + encoded(ORDER, {"id": 6, "item": "f"}),
        encoded(ORDER, {"id": 7, "item": "g"}),
        None,
    )
    guid = ("__value_schema_id", b"\x01" + GUID.bytes)
    last = [guid, ("__value_schema_id", b"\0\0\0\0\1")]  # counts, as in Java
    headers = pa.array(
        [
            None,
            [("other", b"1")],
            None,
            [],
            [("a", None), guid],
            [("__key_schema_id", b"\0\0\0\0\x09")],
            None,
            last,
            [guid],
        ],
        HEADERS_TYPE,
    )
    source = KeptSchemas({1: ORDER, 2: WITH_PRICE, 3: OLD_ID, GUID: WITH_PRICE})
    found, bad = decoded(RegisteredRows(avro(WITH_PRICE), source), values, headers)
    assert found == [
        {"id": 1, "item": "a", "price": None},
        {"id": 2, "item": "b", "price": 2.5},
        None,
        {"id": 3, "item": "c", "price": None},
        {"id": 4, "item": "d", "price": 4.5},
        {"id": 5, "item": "e", "price": None},
        None,
        {"id": 7, "item": "g", "price": None},
        None,
    ]
    assert bad == [BadRow(6, "the first byte is 0x07, not 0x00 as in front of a schema id", cause="no schema id")]
    assert sorted(map(str, source.asked)) == sorted(map(str, [1, 2, 3, GUID]))  # each id once


@pytest.mark.parametrize("count", range(1, 9))
def test_frames_of_two_sizes_are_cut_off_whatever_the_number_of_rows(count):
    """pyarrow's binary_slice without an end fails where that is even."""
    frames = [b"\0" + (1).to_bytes(4, "big"), b"\0" + (1).to_bytes(8, "big")]
    values = [frames[n % 2] + encoded(ORDER, {"id": n, "item": "i"}) for n in range(count)]
    found = decoded(RegisteredRows(avro(ORDER), KeptSchemas({1: ORDER})), binary(*values))
    assert found == ([{"id": n, "item": "i"} for n in range(count)], [])


@pytest.mark.parametrize("slices", [False, True])
def test_of_100_records_with_a_bad_one_99_are_right_and_none_has_moved(slices):
    records = [{"id": n, "item": "x" * (n % 7)} for n in range(100)]
    values = [framed(1 + n % 2, ORDER, record) for n, record in enumerate(records)]
    values[57] = values[57][:-1]
    column = binary(*([b"?"] * 3 + values)).slice(3) if slices else binary(*values)
    for most_bytes in (MIB, 60_000):
        found, bad = decoded(
            RegisteredRows(avro(ORDER), KeptSchemas({1: ORDER, 2: {**ORDER, "doc": "2"}})), column, None, most_bytes
        )
        assert found == [record if n != 57 else None for n, record in enumerate(records)]
        assert [(bad_row.row, bad_row.schema_id, bad_row.place) for bad_row in bad] == [(57, 2, "$.item")]


def test_each_bad_record_says_why_and_a_tombstone_is_none():
    unreadable = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
    source = KeptSchemas(
        {1: ORDER, 2: unreadable, 3: RegisteredSchema("PROTOBUF", "message Order {}"), 4: RegisteredSchema("AVRO", "{")}
    )
    right = framed(1, ORDER, {"id": 1, "item": "a"})
    values = binary(
        right, None, b"", b"\0\0\0", b"\2" + right[1:], b"\0\0\0\0\0", b"\0\xff\xff\xff\xff", right + b"!", right[:-1],
        b"\0\0\0\0\x09" + right[5:], b"\0\0\0\0\2\0", b"\0\0\0\0\3\0", b"\0\0\0\0\4\0", right,
    )  # fmt: skip
    found, bad = decoded(RegisteredRows(avro(ORDER), source), values)
    assert [row for row, value in enumerate(found) if value is not None] == [0, 13]
    assert [bad_row.row for bad_row in bad] == list(range(2, 13))
    assert [bad_row.schema_id for bad_row in bad] == [None] * 5 + [1, 1, 9, 2, 3, 4]
    for each, reason in zip(
        bad,
        (
            *("is empty", "has 3 bytes", "0x02", "schema id is 0", "schema id is -1", "left over", "beyond the bytes"),
            *("no schema 9", "the record's schema", "is PROTOBUF", "not JSON"),
        ),
        strict=True,
    ):
        assert reason in each.reason, each
    assert "$.id" in bad[8].reason


def test_where_the_first_bad_record_ends_the_read_no_schema_behind_it_is_asked_for():
    right = framed(1, ORDER, {"id": 1, "item": "a"})
    made_up = [b"\0" + number.to_bytes(4, "big") + b"\2" for number in range(1000, 1300)]
    source = KeptSchemas({1: ORDER, 2: ORDER})
    found, bad = decoded(
        RegisteredRows(avro(ORDER), source, to_first_bad=True),
        binary(right, *made_up, framed(2, ORDER, {"id": 2, "item": ""})),
    )
    assert found[0] == {"id": 1, "item": "a"}
    assert (bad[0].row, bad[0].schema_id, bad[0].cause) == (1, 1000, "unknown schema id")
    assert source.asked == [1, 1000]


def test_a_header_that_says_no_schema_makes_its_record_bad():
    for value in (None, b"", b"\1" + bytes(15), b"\0" + bytes(4), b"\2" + bytes(16), b"\0\0\0\1"):
        frame = frame_of_header(value, "__value_schema_id")
        assert frame.schema_id is None
        assert "__value_schema_id" in frame.fault


def test_a_long_id_beyond_four_bytes_is_a_confluent_id_and_ids_are_never_negative():
    assert frame_of(b"\0" + (7).to_bytes(8, "big")).schema_id == 7
    assert frame_of(b"\0" + (1 << 40).to_bytes(8, "big")).size == 5
    assert frame_of(b"\0" + (0).to_bytes(8, "big")).fault


def test_a_source_that_fails_is_no_records_fault():
    class Away:
        def schema(self, schema_id):
            raise RegistryUnavailable("503")

    with pytest.raises(RegistryUnavailable):
        decoded(RegisteredRows(avro(ORDER), Away()), binary(framed(1, ORDER, {"id": 1, "item": "a"})))


def test_an_unknown_id_is_asked_for_again_in_the_next_batch():
    schemas = {}
    source = KeptSchemas(schemas)
    rows = RegisteredRows(avro(ORDER), source)
    values = binary(framed(1, ORDER, {"id": 1, "item": "a"}))
    assert decoded(rows, values)[0] == [None]
    schemas[1] = ORDER
    assert decoded(rows, values)[0] == [{"id": 1, "item": "a"}]


def test_an_empty_column_is_an_empty_column():
    assert decoded(RegisteredRows(avro(ORDER), KeptSchemas({})), binary()) == ([], [])


def test_a_readers_schema_that_is_no_avro_is_refused():
    with pytest.raises(SchemaError, match="JSON"):
        RegisteredRows(RegisteredSchema("JSON", "{}"), KeptSchemas({}))


def test_text_is_utf8_and_what_is_not_is_bad_and_null():
    found, bad = decoded(TextRows(), binary("é".encode(), None, b"", b"\xff", b"a\xc3", b"ok").slice(1))
    assert found == [None, "", None, None, "ok"]
    assert [bad_row.row for bad_row in bad] == [2, 3]
    assert decoded(TextRows(), binary(b"a", None)) == (["a", None], [])


def test_each_row_has_its_own_frame_however_many_there_are():
    ids = [n % (3 * MOST_KNOWN) + 1 for n in range(1000)]
    values = pa.array([None if n % 7 == 0 else b"\0" + each.to_bytes(4, "big") + b"x" for n, each in enumerate(ids)])
    for column in (values, values.slice(123, 500)):
        found = frames_of(column.cast(pa.binary()), "value")
        shown = [found.frames[number] for number in found.rows.to_pylist()]
        skipped = ids if column is values else ids[123:623]
        first = 0 if column is values else 123
        assert [frame.schema_id for frame in shown] == [
            None if (first + n) % 7 == 0 else each for n, each in enumerate(skipped)
        ]
        assert {frame.fault for frame in shown} == {""}
        assert len(found.frames) <= 1 + 3 * MOST_KNOWN


def test_where_every_record_has_a_header_its_bytes_are_no_frames():
    values = binary(*(None if n == 7 else encoded(ORDER, {"id": n, "item": "x"}) for n in range(100)))
    headers = pa.array([[("__value_schema_id", b"\x01" + GUID.bytes)]] * 100, HEADERS_TYPE)
    found = frames_of(values, "value", headers)
    assert [frame.schema_id for frame in found.frames] == [None, GUID]
    assert found.rows.to_pylist() == [0 if n == 7 else 1 for n in range(100)]
    rows, bad = decoded(RegisteredRows(avro(ORDER), KeptSchemas({GUID: ORDER})), values, headers)
    assert rows == [None if n == 7 else {"id": n, "item": "x"} for n in range(100)]
    assert bad == []


def test_bare_avro_is_read_by_the_schema_that_has_written_it():
    records = [{"id": n, "item": "x" * n} for n in range(300)]
    bare = [encoded(ORDER, record) for record in records]
    found = decoded(BareRows(avro(ORDER)), binary(None, *bare), most_bytes=4_000)
    assert found == ([None, *records], [])


def test_bare_bytes_that_are_cut_or_left_over_are_bad():
    record = encoded(ORDER, {"id": 1, "item": "a"})
    found, bad = decoded(BareRows(avro(ORDER)), binary(record[:-1], record, record + b"\0", b""))
    assert found == [None, {"id": 1, "item": "a"}, None, None]
    assert [(bad_row.row, bad_row.schema_id) for bad_row in bad] == [(0, None), (2, None), (3, None)]
    assert all(bad_row.reason and bad_row.cause for bad_row in bad)


def test_bare_protobuf_is_read_by_the_message_that_is_named():
    """The bytes are those of Google's documentation of the encoding: 150 in the field 1."""
    schema = RegisteredSchema("PROTOBUF", 'syntax = "proto3"; message Other {} message Test1 { int32 a = 1; }')
    rows = BareRows(schema, "Test1")
    found, bad = decoded(rows, binary(bytes.fromhex("089601"), None, b"", bytes.fromhex("0896")))
    assert found == [{"a": 150}, None, {"a": None}, None]
    assert [bad_row.row for bad_row in bad] == [3]


def single_object(schema, record):
    """Encode as Avro's specification says, with fastavro's fingerprint."""
    fingerprint = fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO")
    return b"\xc3\x01" + bytes.fromhex(fingerprint) + encoded(schema, record)


def test_the_single_object_encoding_is_read_by_its_fingerprint_and_the_readers_own_needs_no_source():
    values = binary(
        single_object(ORDER, {"id": 1, "item": "a"}), None, single_object(OLD_ID, {"id": 2, "gone": "x", "item": "b"})
    )
    old = Fingerprint(values[2].as_py()[2:10])
    source = KeptSchemas({bytes(old): OLD_ID})  # as a function of the user has them: bytes
    found = decoded(RegisteredRows(avro(ORDER), source), values)
    assert found == ([{"id": 1, "item": "a"}, None, {"id": 2, "item": "b"}], [])
    assert source.asked == [old]
    rows, bad = decoded(RegisteredRows(avro(ORDER), NoSchemas()), values)
    assert rows == [{"id": 1, "item": "a"}, None, None]
    assert [(bad_row.row, bad_row.schema_id, bad_row.cause) for bad_row in bad] == [(2, old, "unknown schema id")]
    assert old.hex() in bad[0].reason


@pytest.mark.parametrize("size", range(1, 10))
def test_a_frame_of_a_single_object_that_is_cut_is_bad(size):
    record = single_object(ORDER, {"id": 1, "item": "a"})
    assert decoded(RegisteredRows(avro(ORDER), NoSchemas()), binary(record[:size]))[1][0].cause == "no schema id"


def glued(schema, record, compressed=False, of=GUID):
    """Encode as AWS documents it: version 3, compression 0 or 5 (zlib), UUID of the schema version, the data."""
    data = record if isinstance(record, bytes) else encoded(schema, record)
    return bytes([3, 5 if compressed else 0]) + of.bytes + (zlib.compress(data) if compressed else data)


def test_the_frame_of_aws_glue_is_read_plain_and_compressed_beside_others():
    records = [{"id": n, "item": "x" * (50 * n % 901)} for n in range(60)]
    frames = (glued, lambda *each: glued(*each, compressed=True), lambda *each: framed(1, *each))
    values = [frames[n % 3](ORDER, record) for n, record in enumerate(records)]
    values[10:10] = [None]
    column = binary(b"?", *values).slice(1)
    source = KeptSchemas({GUID: ORDER, 1: ORDER})
    found = decoded(RegisteredRows(avro(ORDER), source), column, most_bytes=60_000)
    assert found == ([*records[:10], None, *records[10:]], [])
    assert sorted(map(str, source.asked)) == sorted(map(str, [GUID, 1]))


def test_what_is_wrong_with_a_frame_of_aws_glue_makes_its_record_bad(monkeypatch):
    monkeypatch.setattr(glue, "MOST_BYTES", 1 << 10)
    good = glued(ORDER, {"id": 1, "item": "a"}, compressed=True)
    values = [
        good,
        good[:17],
        good[:-1],
        good + b"\0",
        b"\3\5" + good[2:18] + b"no zlib",
        b"\3\1" + good[2:],
        glued(ORDER, {"id": 1, "item": "a" * 2_000}, compressed=True),
        glued(ORDER, encoded(ORDER, {"id": 1, "item": "a"}) + b"\0", compressed=True),
        glued(ORDER, {"id": 2, "item": "b" * 900}, compressed=True),
        glued(ORDER, {"id": 3, "item": "c" * 900}, compressed=True),
    ]
    found, bad = decoded(RegisteredRows(avro(ORDER), KeptSchemas({GUID: ORDER})), binary(*values))
    assert [row and row["id"] for row in found] == [1, None, None, None, None, None, None, None, 2, 3]
    assert [bad_row.row for bad_row in bad] == [1, 2, 3, 4, 5, 6, 7]
    assert [bad_row.schema_id for bad_row in bad] == [None] * 6 + [GUID]


def test_a_record_whose_header_names_its_schema_has_no_frame_of_glue():
    packed = zlib.compress(b"x" * 100)
    fixed = [
        {"name": f"f{size}", "type": {"type": "fixed", "name": f"F{size}", "size": size}} for size in (16, len(packed))
    ]
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}, *fixed],
    }
    record = {"a": -2, "b": -3, "f16": GUID.bytes, f"f{len(packed)}": packed}
    assert encoded(schema, record) == glued(schema, b"x" * 100, compressed=True)
    headers = pa.array([[("__value_schema_id", b"\x01" + GUID.bytes)]], HEADERS_TYPE)
    rows = RegisteredRows(avro(schema), KeptSchemas({GUID: schema}))
    assert decoded(rows, binary(encoded(schema, record)), headers) == ([record], [])


def test_glues_index_of_a_protobuf_message_is_its_place_by_full_name():
    """The example of Glue's own MessageIndexFinder: B = 0, B.A = 1, B.A.D = 2, B.C = 3."""
    text = """syntax = "proto3"; message B { message C { int32 c = 1; } message A { int32 a = 1;
      message D { int32 d = 1; } } }"""
    schema = RegisteredSchema("PROTOBUF", text)
    for place, name, field in ((1, "B.A", "a"), (2, "B.A.D", "d"), (3, "B.C", "c")):
        rows = RegisteredRows(schema, KeptSchemas({GUID: schema}), message_name=name)
        data = bytes([place]) + bytes.fromhex("089601")
        values = [
            glued(schema, data),
            glued(schema, data, compressed=True),
            glued(schema, b"\4" + data[1:]),
            glued(schema, b""),
        ]
        found, bad = decoded(rows, binary(*values))
        assert found == [{field: 150}, {field: 150}, None, None]
        assert [bad_row.row for bad_row in bad] == [2, 3]


def damaged(rng):
    """Draw a record behind one of the frames, or behind none, often cut or with a wrong byte."""
    record = encoded(ORDER, {"id": rng.randrange(1 << 40), "item": "x" * rng.randrange(40)})
    frames = [
        b"\0\0\0\0\1",
        b"\0\0\0\0\0\0\0\0\1",
        b"\3\0" + GUID.bytes,
        b"\xc3\1" + rng.randbytes(8),
        b"",
        b"\3\5" + GUID.bytes,
    ]
    frame = rng.choice(frames)
    found = bytearray(frame + (zlib.compress(record) if frame[:2] == b"\3\5" else record))
    if rng.random() < 0.3:
        del found[rng.randrange(len(found)) :]
    if found and rng.random() < 0.2:
        found[rng.randrange(len(found))] = rng.randrange(256)
    return None if rng.random() < 0.05 else bytes(found)


def test_a_record_is_what_it_is_alone_whatever_frames_are_beside_it():
    rows = RegisteredRows(avro(ORDER), KeptSchemas({1: ORDER, GUID: ORDER}))
    for seed in range(examples(40)):
        rng = random.Random(seed)
        values = [damaged(rng) for _ in range(rng.randrange(1, 40))]
        found, bad = decoded(rows, binary(b"?", *values).slice(1), most_bytes=rng.choice([3_000, MIB]))
        alone = [decoded(rows, binary(value)) for value in values]
        assert found == [value for (value,), _ in alone], seed
        assert [bad_row.row for bad_row in bad] == [row for row, (_, faults) in enumerate(alone) if faults], seed


def test_the_reason_of_a_change_that_cannot_be_read_says_which_version_began_it():
    """The driver ships three versions, the fourth comes while the query runs."""
    other = {**ORDER, "fields": [{"name": "id", "type": "string"}, ORDER["fields"][1]]}
    with a_registry() as registry:
        good = registry.add("orders-value", json.dumps(ORDER))
        for doc in ("1", "2"):
            bad = registry.add("orders-value", json.dumps({**other, "doc": doc}))
        options = RegistryOptions.of({"url": registry.url, "retry.timeout.ms": "0"})
        source = pickle.loads(pickle.dumps(ShippedSchemas.of(options, ["orders-value"]))).source()
        newest = registry.add("orders-value", json.dumps({**other, "doc": "3"}))
        text = {"id": "a", "item": "b"}
        values = binary(
            framed(good, ORDER, {"id": 1, "item": "a"}), framed(bad, other, text), framed(newest, other, text)
        )
        found, bad_rows = decoded(RegisteredRows(avro(ORDER), source), values)
        assert found == [{"id": 1, "item": "a"}, None, None]
        for each in bad_rows:
            assert "$.id: the writer's string cannot be read as the reader's" in each.reason
            assert each.reason.endswith(". It has been so since version 2 of orders-value")
        asked = len(registry.requests)
        decoded(RegisteredRows(avro(ORDER), source), values)  # the next task
        assert len(registry.requests) == asked
