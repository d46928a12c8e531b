"""The records that `pykafka read --value-format` cannot decode, with -X badRecords=column."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkasource.cli.formats import Output
from kafkasource.escaping import escaped
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
            print(escaped(_said(batch, row), keep=""), file=sys.stderr)
        self._output.write(batch)

    def close(self) -> None:
        self._output.close()


def _bad_rows(batch: pa.RecordBatch) -> Iterator[int]:
    bad = batch.column(BAD_RECORD_COLUMN)
    if bad.null_count < len(bad):
        yield from (row for row, is_bad in enumerate(bad.is_valid().to_pylist()) if is_bad)


def _said(batch: pa.RecordBatch, row: int) -> str:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return f"{topic}-{partition}, offset {offset}: {batch.column(BAD_RECORD_COLUMN)[row]['reason'].as_py()}"
