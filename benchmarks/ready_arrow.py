"""The ceiling: a source that yields ready-made Arrow batches and a sink that drops them. No Kafka, no decoding.

What this costs is what Spark's Python data sources cost by themselves; nothing behind that API can be faster.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from kafkasource.records.batches import ROW_SCHEMA
from kafkasource.source.schema import spark_schema

BATCH_BYTES = 1 << 20  # as large as the batches that a fetch of the default size gives


class ReadyArrow(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ready_arrow"

    def schema(self):
        return spark_schema(False)

    def reader(self, schema):
        return Reader(int(self.options["rows"]), int(self.options["bytes"]), int(self.options["partitions"]))

    def writer(self, schema, overwrite):
        return Writer()


class Reader(DataSourceReader):
    def __init__(self, rows: int, value_bytes: int, partitions: int) -> None:
        self.rows, self.value_bytes, self.parts = rows, value_bytes, partitions

    def partitions(self):
        return [InputPartition(p) for p in range(self.parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows = self.rows // self.parts
        size = max(1, BATCH_BYTES // (self.value_bytes + 15))
        batch = ready_batch(size, self.value_bytes, partition.value)
        for first in range(0, rows, size):
            yield batch if first + size <= rows else batch.slice(0, rows - first)


def ready_batch(rows: int, value_bytes: int, partition: int) -> pa.RecordBatch:
    columns = [
        pa.array([b"%07d" % i for i in range(rows)], pa.binary()),
        pa.array([b"x" * value_bytes] * rows, pa.binary()),
        pa.array(["bench"] * rows),
        pa.array([partition] * rows, pa.int32()),
        pa.array(range(rows), pa.int64()),
        pa.array([0] * rows, pa.int64()).cast(ROW_SCHEMA.field("timestamp").type),
        pa.array([0] * rows, pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ROW_SCHEMA)


class Writer(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
