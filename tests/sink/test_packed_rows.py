"""The sink writes a value of `packRecords` as the rows that it stands for."""

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from kafkasource.kafka.producer.rows import InvalidRow
from kafkasource.kafka.records.arrow.columns import ROW_SCHEMA_WITH_HEADERS
from kafkasource.kafka.records.arrow.packed import PACKED_SCHEMA, pack
from kafkasource.sink.columns import checked_rows
from kafkasource.sink.schema import SinkSchema

PACKED = StructType([StructField("records", BinaryType())])


def rows_of(partition, values, headers=None):
    count = len(values)
    columns = {
        "key": [b"k", *[None] * (count - 1)],
        "value": values,
        "topic": ["orders"] * count,
        "partition": [partition] * count,
        "offset": list(range(10, 10 + count)),
        "timestamp": [1_500_000 + number for number in range(count)],
        "timestampType": [0] * count,
        "headers": headers or [None] * count,
    }
    return pa.RecordBatch.from_pydict(columns, ROW_SCHEMA_WITH_HEADERS)


def test_each_piece_is_rows_of_its_topic_and_partition():
    pieces = [pack(rows_of(3, [b"a", None])), pack(rows_of(5, [b"c"], [[{"key": "h", "value": b"1"}]]))]
    batch = pa.Table.from_batches(pieces, PACKED_SCHEMA).combine_chunks().to_batches()[0]
    first, second = checked_rows(SinkSchema.check(PACKED, None, offsets=True), batch)
    assert (first.topic, first.count, second.topic, second.count) == ("orders", 2, "orders", 1)
    assert first.values.to_pylist() == [b"a", None]
    assert first.keys.to_pylist() == [b"k", None]
    assert first.headers is None
    assert first.partitions.to_pylist() == [3, 3]
    assert first.offsets.to_pylist() == [10, 11]
    assert first.timestamps_ms.to_pylist() == [1500, 1500]
    assert second.headers.to_pylist() == [[{"key": "h", "value": b"1"}]]
    assert second.partitions.to_pylist() == [5]


def test_a_topic_for_all_rows_goes_before_that_of_the_pieces():
    (rows,) = checked_rows(SinkSchema.check(PACKED, "copy"), pack(rows_of(0, [b"a"])))
    assert rows.topic == "copy"


def test_a_column_of_that_name_beside_a_value_is_a_column_that_nobody_looks_at():
    schema = StructType([StructField("records", BinaryType()), StructField("value", StringType())])
    batch = pa.RecordBatch.from_pydict({"records": [b"x"], "value": ["v"]})
    (rows,) = checked_rows(SinkSchema.check(schema, "t"), batch)
    assert rows.values.to_pylist() == [b"v"]


def test_anything_else_in_it_is_refused_by_name():
    with pytest.raises(InvalidRow, match="column 'records' is for what 'packRecords' reads"):
        list(
            checked_rows(SinkSchema.check(PACKED, "t"), pa.RecordBatch.from_pydict({"records": [b"x"]}, PACKED_SCHEMA))
        )
