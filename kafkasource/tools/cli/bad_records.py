"""The records that `pykafka read --value-format` cannot decode, with -X badRecords=column."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkasource.types import BAD_RECORD_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa


def say_bad_records(batch: pa.RecordBatch) -> None:
    """Name each bad record of the batch on stderr."""
    for row in _bad_rows(batch):
        print(_said(batch, row), file=sys.stderr)


def _bad_rows(batch: pa.RecordBatch) -> Iterator[int]:
    bad = batch.column(BAD_RECORD_COLUMN)
    if bad.null_count < len(bad):
        yield from (row for row, is_bad in enumerate(bad.is_valid().to_pylist()) if is_bad)


def _said(batch: pa.RecordBatch, row: int) -> str:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return f"{topic}-{partition}, offset {offset}: {batch.column(BAD_RECORD_COLUMN)[row]['reason'].as_py()}"
