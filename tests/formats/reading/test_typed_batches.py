"""Tests what a task makes of rows with typed values, in any slice of a larger batch."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from kafkasource import metrics, options
from kafkasource.errors import BadRecord, OptionError
from kafkasource.formats.reading.batches import typed_batches
from kafkasource.formats.reading.formats import RowFormats
from kafkasource.kafka.memory import Budget
from kafkasource.kafka.memory.limits import Limit
from kafkasource.kafka.records.arrow.columns import row_schema
from kafkasource.types import ROW_COLUMNS

VALUES = [b"before", b"good", None, b"\xff", b"", b"bad\xc3", b"behind"]


def batch(formats):
    columns = {
        "key": pa.array([b"k%d" % number for number in range(len(VALUES))], pa.binary()),
        "value": pa.array(VALUES, pa.binary()),
        "topic": pa.array(["t"] * len(VALUES)),
        "partition": pa.array([0] * len(VALUES), pa.int32()),
        "offset": pa.array(range(len(VALUES)), pa.int64()),
    }
    schema = row_schema(ROW_COLUMNS)
    names = [name for name in formats.fetched if name in columns]
    return pa.RecordBatch.from_arrays([columns[name].cast(schema.field(name).type) for name in names], names=names)


def test_bad_records_of_a_slice_keep_their_own_bytes():
    given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "valueFormat": "string", "badRecords": "column"}
    formats = RowFormats.of(options.parse(given, "source"), ["t"])
    formats = formats.with_columns(("value", "offset", "badRecord"))
    sliced = batch(formats).slice(1, 5)
    (rows,) = list(typed_batches([sliced], formats, lambda: "a"))
    rows.validate(full=True)
    assert rows.column("value").to_pylist() == ["good", None, None, "", None]
    bad = rows.column("badRecord").to_pylist()
    assert [bad_row and (bad_row["key"], bad_row["value"], bad_row["clusterId"]) for bad_row in bad] == [
        None,
        None,
        (b"k3", b"\xff", "a"),
        None,
        (b"k5", b"bad\xc3", "a"),
    ]


def test_without_the_column_the_rows_before_a_bad_record_come_before_its_error():
    given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "valueFormat": "string"}
    formats = RowFormats.of(options.parse(given, "source"), ["t"]).with_columns(("value", "offset"))
    batches = typed_batches([batch(formats)], formats, lambda: None)
    assert next(batches).column("offset").to_pylist() == [0, 1, 2]
    with pytest.raises(BadRecord, match="t-0, offset 3: the value: the bytes are not UTF-8"):
        next(batches)


def test_bad_records_are_counted_by_topic_and_reason():
    def counted():
        found = metrics.process_counts().snapshot().counters
        return found.get(("kafkasource_bad_records_total", ("t", "the bytes are not UTF-8")), 0)

    given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "valueFormat": "string", "badRecords": "column"}
    formats = RowFormats.of(options.parse(given, "source"), ["t"]).with_columns(("value", "offset", "badRecord"))
    before = counted()
    for _ in typed_batches([batch(formats), batch(formats).slice(4)], formats, lambda: None):
        pass
    assert counted() - before == 3


def test_the_reason_of_a_bad_record_drives_no_terminal_that_shows_it():
    """A column shows it to people: `df.show()`, `pykafka read`. The schema may be anybody's."""
    evil = {"type": "object", "properties": {"\x1b]0;owned\x07\u202e\n": {"type": "integer"}}}
    given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "valueFormat": "json", "badRecords": "column",
             "readerSchema": json.dumps(evil)}  # fmt: skip
    formats = RowFormats.of(options.parse(given, "source"), ["t"]).with_columns(("value", "offset", "badRecord"))
    rows = batch(formats).slice(0, 1)
    value = pa.array([json.dumps(dict.fromkeys(evil["properties"], "x")).encode()], pa.binary())
    rows = rows.set_column(rows.schema.get_field_index("value"), rows.schema.field("value"), value)
    (rows,) = typed_batches([rows], formats, lambda: "a")
    (bad,) = rows.column("badRecord").to_pylist()
    assert r"field $.\x1b]0;owned\x07\u202e\x0a:" in bad["reason"]


NOTHING = {"type": "record", "name": "R", "fields": []}
WIDE = {**NOTHING, "fields": [{"name": f"f{n}", "type": "long", "default": n} for n in range(100)]}
MIB = 1 << 20


def schema_of(schema_id):
    return json.dumps(NOTHING)


def test_a_piece_of_columns_that_grow_from_nothing_stays_within_the_decoders_part_of_the_budget(monkeypatch):
    """Five bytes a record become 800."""
    made = Budget(Limit(1024 * MIB, "a test"))
    monkeypatch.setattr("kafkasource.kafka.memory.process_budget", lambda: made)
    given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "valueFormat": "avro", "memoryBudget": "8m",
             "schemaRegistry": f"{__name__}:schema_of", "readerSchema": json.dumps(WIDE)}  # fmt: skip
    formats = RowFormats.of(options.parse(given, "source"), ["t"]).with_columns(("value", "offset"))
    count = 20_000
    names = [name for name in formats.fetched if name != "headers"]
    columns = {
        "value": pa.array([b"\0\0\0\0\7"] * count),
        "topic": pa.array(["t"] * count),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(count), pa.int64()),
    }
    rows = pa.record_batch([columns[name] for name in names], names=names)
    pieces = list(typed_batches([rows], formats, lambda: None))
    assert sum(piece.num_rows for piece in pieces) == count
    assert pieces[-1]["value"][-1].as_py() == {f"f{n}": n for n in range(100)}
    sizes = [piece["value"].nbytes for piece in pieces]
    assert MIB < max(sizes) <= 4 * MIB  # half of the budget


ID = {**NOTHING, "fields": [{"name": "id", "type": "long"}]}
CITY = {**NOTHING, "fields": [*ID["fields"], {"name": "city", "type": "string"}]}


def evolving(schema_id):
    return json.dumps({1: ID, 2: CITY}[schema_id])


def rows_with_rescued_fields(values, topic, columns, **more):
    given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": topic, "rescuedColumn": "_rescued", **more}
    formats = RowFormats.of(options.parse(given, "source"), [topic]).with_columns(columns)
    count = len(values)
    there = {
        "key": pa.array([None] * count, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "topic": pa.array([topic] * count),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(count), pa.int64()),
    }
    names = [name for name in formats.fetched if name != "headers"]
    batch = pa.record_batch([there[name] for name in names], names=names)
    found = []
    for rows in typed_batches([batch, batch], formats, lambda: None):
        assert rows.schema == formats.row_schema
        rows.validate(full=True)
        found += rows.to_pylist()
    return found


AVRO = {"valueFormat": "avro", "readerSchema": json.dumps(ID), "schemaRegistry": f"{__name__}:evolving"}
VALUES_OF_TWO = [b"\0\0\0\0\1\2", b"\0\0\0\0\2\4\2a", b"\0\0\0\0\2\4\2"]


def test_rescued_fields_are_a_column_counted_and_named_once_for_a_topic_and_schema(caplog):
    def counted():
        return metrics.process_counts().snapshot().counters.get(("kafkasource_rescued_records_total", ("fresh",)), 0)

    before = counted()
    columns = ("value", "offset", "_rescued", "badRecord")
    rows = rows_with_rescued_fields(VALUES_OF_TWO, "fresh", columns, **AVRO, badRecords="column")
    assert [row["_rescued"] for row in rows] == [None, '{"city":"a"}', None] * 2
    assert [row["value"] for row in rows[:3]] == [{"id": 1}, {"id": 2}, None]
    assert [row["badRecord"] is None for row in rows[:3]] == [True, True, False]
    assert counted() - before == 2
    told = [each.getMessage() for each in caplog.records if "lack" in each.getMessage()]
    assert told == ["topic fresh: schema id 2 has fields that the columns lack: city. They are in _rescued"]


def test_rescued_fields_need_no_column_of_the_value():
    rows = rows_with_rescued_fields(VALUES_OF_TWO[:2], "alone", ("_rescued",), **AVRO)
    assert rows[:2] == [{"_rescued": None}, {"_rescued": '{"city":"a"}'}]


def test_rescued_fields_of_json_are_named_by_a_record_that_has_them(caplog):
    given = {"valueFormat": "json", "readerSchema": "id BIGINT"}
    evil = b'{"\\u001b]0;owned\\u0007":1}'
    rows = rows_with_rescued_fields([b'{"id":1}', evil], "words", ("value", "_rescued"), **given)
    assert [row["_rescued"] for row in rows[:2]] == [None, evil.decode()]
    (told,) = [each.getMessage() for each in caplog.records if "lack" in each.getMessage()]
    assert told == (r"topic words: records have fields that the columns lack: \x1b]0;owned\x07. They are in _rescued")


@pytest.mark.parametrize(
    "more",
    [
        {"valueFormat": "json", "readerSchema": '{"type": "array", "items": {"type": "integer"}}'},
        {**AVRO, "readerSchema": '{"type": "map", "values": "long"}'},
        {**AVRO, "readerSchema": json.dumps([ID, {**CITY, "name": "Other"}])},
    ],
)
def test_values_that_are_no_records_have_no_rescued_fields(more):
    with pytest.raises(OptionError, match=r"'rescuedColumn'.*no records"):
        rows_with_rescued_fields([], "t", ("value",), **more)
