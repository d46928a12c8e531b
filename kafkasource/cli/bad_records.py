"""What `pykafka read --value-format` does with records that it cannot decode. Batches have the column `badRecord`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkasource.cli.formats import Output
from kafkasource.errors import BadRecord
from kafkasource.types import BAD_RECORD_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa


class BadRecordsSaid:
    """An output beside which stderr names each bad record."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self.durable = output.durable

    def write(self, batch: pa.RecordBatch) -> None:
        for row in _bad_rows(batch):
            print(_said(batch, row), file=sys.stderr)
        self._output.write(batch)

    def close(self) -> None:
        self._output.close()


class UntilABadRecord:
    """An output of the records before the first bad one; `write` raises BadRecord there. It has no `badRecord`."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self.durable = output.durable

    def write(self, batch: pa.RecordBatch) -> None:
        row = next(_bad_rows(batch), None)
        names = [name for name in batch.schema.names if name != BAD_RECORD_COLUMN]
        self._output.write(batch.select(names).slice(0, row))
        if row is not None:
            raise BadRecord(f"{_said(batch, row)}. -X badRecords=column names such records and reads on")

    def close(self) -> None:
        self._output.close()


def _bad_rows(batch: pa.RecordBatch) -> Iterator[int]:
    bad = batch.column(BAD_RECORD_COLUMN)
    if bad.null_count < len(bad):
        yield from (row for row, is_bad in enumerate(bad.is_valid().to_pylist()) if is_bad)


def _said(batch: pa.RecordBatch, row: int) -> str:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return f"{topic}-{partition}, offset {offset}: {batch.column(BAD_RECORD_COLUMN)[row]['reason'].as_py()}"
