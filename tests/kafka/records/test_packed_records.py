"""Records that pass Spark in pieces come out as they went in."""

from datetime import datetime, timezone

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE, ROW_SCHEMA, ROW_SCHEMA_WITH_HEADERS
from kafkasource.kafka.records.arrow.packed import PACKED_SCHEMA, pack, unpack
from kafkasource.types import Packing

BYTES = st.none() | st.binary(max_size=20)
HEADERS = st.none() | st.lists(st.fixed_dictionaries({"key": st.text(max_size=5), "value": BYTES}), max_size=3)
TIMES = st.none() | st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(timezone.utc))


def batch(rows, *, headers=True):
    names = ["key", "value", "timestamp", *(["headers"] if headers else [])]
    columns = {name: [row[name] for row in rows] for name in names}
    count = len(rows)
    columns |= {"topic": ["orders"] * count, "partition": [7] * count, "timestampType": [0] * count}
    columns["offset"] = [100 + 3 * number for number in range(count)]
    return pa.RecordBatch.from_pydict(columns, ROW_SCHEMA_WITH_HEADERS if headers else ROW_SCHEMA)


rows_and_a_cut = given(
    rows=st.lists(
        st.fixed_dictionaries({"key": BYTES, "value": BYTES, "timestamp": TIMES, "headers": HEADERS}),
        min_size=1,
        max_size=10,
    ),
    cut=st.integers(0, 3),
)


@rows_and_a_cut
@settings(deadline=None)
def test_every_column_comes_back_also_of_a_slice(rows, cut):
    whole = batch(rows)
    part = whole.slice(min(cut, len(rows) - 1))
    packed = pack(part)
    assert packed.schema == PACKED_SCHEMA
    assert packed.num_rows == 1
    found = unpack(packed.column(0)[0].as_buffer())
    assert (found.topic, found.partition) == ("orders", 7)
    for name in ("key", "value", "offset", "timestamp"):
        assert found.batch.column(name).to_pylist() == part.column(name).to_pylist()
    if any(row["headers"] is not None for row in rows[min(cut, len(rows) - 1) :]):
        assert found.batch.column("headers").to_pylist() == part.column("headers").to_pylist()
    else:
        assert "headers" not in found.batch.schema.names


def test_a_batch_without_the_column_of_headers_is_packed_too():
    row = {"key": None, "value": b"v", "timestamp": None}
    found = unpack(pack(batch([row], headers=False)).column(0)[0].as_buffer())
    assert found.batch.column("value").to_pylist() == [b"v"]


def test_a_small_slice_of_a_large_batch_makes_a_small_piece():
    rows = [{"key": b"k" * 100, "value": b"v" * 1000, "timestamp": None}] * 1000
    assert len(pack(batch(rows, headers=False).slice(500, 1)).column(0)[0].as_py()) < 3000


@pytest.mark.parametrize("garbage", [b"", b"x", b"\xff\xff\xff\xff\x10\x00\x00\x00" + b"\x00" * 16])
def test_anything_else_is_refused(garbage):
    with pytest.raises(ValueError, match="packed"):
        unpack(pa.py_buffer(garbage))


def test_another_programs_arrow_stream_is_refused():
    out = pa.BufferOutputStream()
    schema = pa.schema([pa.field("value", pa.binary())])
    with pa.ipc.new_stream(out, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_pydict({"value": [b"v"]}, schema))
    with pytest.raises(ValueError, match="not packed by this release"):
        unpack(out.getvalue())


@rows_and_a_cut
@settings(deadline=None)
def test_headers_are_added_after_those_that_a_record_has(rows, cut):
    part = batch(rows).slice(min(cut, len(rows) - 1))
    packing = Packing((("from", "east"), ("at", "${topic}/${partition}/${offset}!")))
    found = unpack(pack(part, packing).column(0)[0].as_buffer()).batch.column("headers")
    assert found.type == HEADERS_TYPE
    expected = [
        [
            *(headers or []),
            {"key": "from", "value": b"east"},
            {"key": "at", "value": f"orders/7/{offset}!".encode()},
        ]
        for headers, offset in zip(part.column("headers").to_pylist(), part.column("offset").to_pylist(), strict=True)
    ]
    assert found.to_pylist() == expected


def test_headers_are_added_where_the_column_is_not_read():
    row = {"key": None, "value": b"v", "timestamp": None}
    found = unpack(pack(batch([row], headers=False), Packing((("a", "b"),))).column(0)[0].as_buffer())
    assert found.batch.column("headers").to_pylist() == [[{"key": "a", "value": b"b"}]]
