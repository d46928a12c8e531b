"""Records as JSON. Bytes are base64, at most their first part: the page shows them as text, JSON or hex."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN_BYTES = 4 << 10  # of a key or value in a list of records
WHOLE_BYTES = 1 << 20  # of a record that is shown alone
_MOST_HEADERS = 100  # of a record

Json = dict[str, object]


class Row(NamedTuple):
    """A record of a batch that stays where it is until `as_json` copies it."""

    offset: int
    timestamp_ms: int  # -1: none
    batch: pa.RecordBatch
    at: int  # its place in the batch


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    import pyarrow as pa

    offsets = batch.column("offset").to_pylist()
    times = batch.column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_pylist()
    for index, (offset, time_ms) in enumerate(zip(offsets, times, strict=True)):
        yield Row(offset, -1 if time_ms is None else time_ms, batch, index)


def as_json(row: Row, most_bytes: int) -> Json:
    """A copy, so that the batch can be forgotten."""
    batch, index = row.batch, row.at
    headers = batch.column("headers")[index].as_py() or []
    return {
        "partition": batch.column("partition")[index].as_py(),
        "offset": row.offset,
        "timestamp": None if row.timestamp_ms < 0 else row.timestamp_ms,
        "timestamp_type": batch.column("timestampType")[index].as_py(),
        "key": _bytes(batch.column("key"), index, most_bytes),
        "value": _bytes(batch.column("value"), index, most_bytes),
        "headers": [
            {"key": header["key"][:most_bytes], "value": _shown(header["value"], most_bytes)}
            for header in headers[:_MOST_HEADERS]
        ],
        "header_count": len(headers),
    }


def _bytes(column: pa.Array, index: int, most_bytes: int) -> Json | None:
    buffer = column[index].as_buffer()
    return None if buffer is None else _shown(memoryview(buffer), most_bytes)


def _shown(data: bytes | memoryview | None, most_bytes: int) -> Json | None:
    if data is None:
        return None
    return {"size": len(data), "base64": base64.b64encode(data[:most_bytes]).decode()}
