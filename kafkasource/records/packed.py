"""Rows of a partition packed into one value, for programs that only carry them on: a mirror.

Spark looks at each row that passes it: the JVM side of a Python source and sink costs microseconds a row, where
decoding and encoding cost 40 ns each. A value of a MiB costs it what a row costs. Inside is an Arrow IPC stream:

    metadata of the schema   `kafkasource`: 1, topic, partition
    columns                  key, value, offset, timestamp, and headers where a record has any

Not a format for keeping: both ends are of one release of this package.
"""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import pyarrow as pa

PACKED_COLUMN = "records"
PACKED_SCHEMA = pa.schema([pa.field(PACKED_COLUMN, pa.binary())])
_VERSION = b"1"
_COLUMNS = ("key", "value", "offset", "timestamp")


class Unpacked(NamedTuple):
    """Records of one partition, in the order of their offsets."""

    topic: str
    partition: int
    batch: pa.RecordBatch  # columns as above; `headers` may be absent


def pack(batch: pa.RecordBatch) -> pa.RecordBatch:
    """One row of PACKED_SCHEMA; `batch` holds rows of one partition, as the fetcher gives them, headers or not.

    Copies what the rows need, so that the batch's memory is free afterwards.
    """
    names = list(_COLUMNS)
    if "headers" in batch.schema.names and batch.column("headers").null_count < batch.num_rows:
        names.append("headers")
    about = {
        b"kafkasource": _VERSION,
        b"topic": str(batch.column("topic")[0].as_py()).encode(),
        b"partition": str(batch.column("partition")[0].as_py()).encode(),
    }
    schema = pa.schema([batch.schema.field(name) for name in names], metadata=about)
    inside = pa.RecordBatch.from_arrays([batch.column(name) for name in names], schema=schema)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, schema) as writer:
        writer.write_batch(inside)
    data = out.getvalue()
    ends = pa.py_buffer(array("i", (0, data.size)).tobytes())
    value: Any = pa.Array.from_buffers(pa.binary(), 1, [None, ends, data])
    return pa.RecordBatch.from_arrays([value], schema=PACKED_SCHEMA)


def unpack(value: Any) -> Unpacked:
    """What `pack` made of it, without a copy; `value` is a pyarrow buffer. Raises ValueError for anything else."""
    try:
        reader = pa.ipc.open_stream(value)
        about = reader.schema.metadata or {}
        if about.get(b"kafkasource") != _VERSION:
            raise ValueError("not packed by this release")
        batch = reader.read_next_batch()
        return Unpacked(about[b"topic"].decode(), int(about[b"partition"]), batch)
    except (pa.ArrowException, KeyError, StopIteration, OSError) as error:
        raise ValueError(f"not packed records: {type(error).__name__}") from None
