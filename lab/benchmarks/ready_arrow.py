"""The ceiling: a source that yields ready-made Arrow batches and a sink that drops them. No Kafka, no decoding.

What this costs is what Spark's Python data sources cost by themselves; nothing behind that API can be faster. (So it
also spares its imports from the garbage collection that PySpark runs after each task, as this connector does.)
Options of the source: `rows`, `bytes` (of a value), `headers`, `partitions` (tasks), `rowsPerTrigger` (stream only).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from kafkasource.kafka.records.batches import ROW_SCHEMA, ROW_SCHEMA_WITH_HEADERS
from kafkasource.source.spark.schema import spark_schema
from kafkasource.spark.garbage import spare_imports_from_gc

BATCH_BYTES = 1 << 20  # as large as the batches that a fetch of the default size gives


class ReadyArrow(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ready_arrow"

    def _int(self, name: str, default: int) -> int:
        return int(self.options.get(name, default))

    def _rows(self) -> ReadyRows:
        return ReadyRows(self._int("rows", 0), self._int("bytes", 100), self._int("headers", 0))

    def schema(self) -> Any:
        return spark_schema(bool(self._int("headers", 0)))

    def reader(self, schema: Any) -> DataSourceReader:
        return Reader(self._rows(), self._int("partitions", 4))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return StreamReader(self._rows(), self._int("partitions", 4), self._int("rowsPerTrigger", 4000))

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return Writer()


class ReadyRows:
    """What all tasks together yield."""

    def __init__(self, rows: int, value_bytes: int, headers: int) -> None:
        self.rows, self.value_bytes, self.headers = rows, value_bytes, headers

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """One task's `rows`: the same batch again and again."""
        size = max(1, BATCH_BYTES // (self.value_bytes + 15))
        batch = ready_batch(min(size, max(rows, 1)), self.value_bytes, self.headers)
        for first in range(0, rows, size):
            yield batch if first + size <= rows else batch.slice(0, rows - first)


@lru_cache
def ready_batch(rows: int, value_bytes: int, headers: int) -> pa.RecordBatch:
    columns: list[Any] = [
        pa.array([b"%07d" % i for i in range(rows)], pa.binary()),
        pa.array([b"x" * value_bytes] * rows, pa.binary()),
        pa.array(["bench"] * rows),
        pa.array([0] * rows, pa.int32()),
        pa.array(range(rows), pa.int64()),
        pa.array([0] * rows, pa.int64()).cast(ROW_SCHEMA.field("timestamp").type),
        pa.array([0] * rows, pa.int32()),
    ]
    if not headers:
        return pa.RecordBatch.from_arrays(columns, schema=ROW_SCHEMA)
    one = [{"key": f"header-{i}", "value": b"%08d" % i} for i in range(headers)]
    columns.append(pa.array([one] * rows, ROW_SCHEMA_WITH_HEADERS.field("headers").type))
    return pa.RecordBatch.from_arrays(columns, schema=ROW_SCHEMA_WITH_HEADERS)


class Reader(DataSourceReader):
    def __init__(self, rows: ReadyRows, tasks: int) -> None:
        self.rows, self.tasks = rows, tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self.rows.rows // self.tasks) for _ in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        spare_imports_from_gc()
        return self.rows.batches(partition.value)


class StreamReader(DataSourceStreamReader):
    """Offsets count rows; every micro-batch has `per_trigger` of them until all are given."""

    def __init__(self, rows: ReadyRows, tasks: int, per_trigger: int) -> None:
        self.rows, self.tasks, self.per_trigger = rows, tasks, per_trigger

    def initialOffset(self) -> dict[str, int]:
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.per_trigger)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"rows": min(self.rows.rows, start["rows"] + self.per_trigger)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((end["rows"] - start["rows"]) // self.tasks) for _ in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        spare_imports_from_gc()
        return self.rows.batches(partition.value or 0)


class Writer(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        spare_imports_from_gc()
        for _ in iterator:
            pass
        return WriterCommitMessage()
