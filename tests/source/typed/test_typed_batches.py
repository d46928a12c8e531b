"""What a task makes of rows whose values are typed, whatever slice of a larger batch they are."""

from __future__ import annotations

import pyarrow as pa

from kafkasource import metrics, options
from kafkasource.records.arrow.columns import row_schema
from kafkasource.source.typed.batches import typed_batches
from kafkasource.source.typed.formats import RowFormats
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
    (rows,) = list(typed_batches([sliced], formats))
    rows.validate(full=True)
    assert rows.column("value").to_pylist() == ["good", None, None, "", None]
    bad = rows.column("badRecord").to_pylist()
    assert [each and (each["key"], each["value"]) for each in bad] == [
        None,
        None,
        (b"k3", b"\xff"),
        None,
        (b"k5", b"bad\xc3"),
    ]


def test_bad_records_are_counted_by_topic_and_reason():
    def counted():
        found = metrics.registry().snapshot().counters
        return found.get(("kafkasource_bad_records_total", ("t", "the bytes are not UTF-8")), 0)

    given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "valueFormat": "string", "badRecords": "column"}
    formats = RowFormats.of(options.parse(given, "source"), ["t"]).with_columns(("value", "offset", "badRecord"))
    before = counted()
    for _ in typed_batches([batch(formats), batch(formats).slice(4)], formats):
        pass
    assert counted() - before == 3
