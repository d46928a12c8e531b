"""Packs rows of a partition into one value, for programs that only carry them on: a mirror.

Spark looks at each row that passes it: from a Python source to a Python sink that is about a microsecond of CPU a row,
where decoding and encoding take 40 ns each. A value of a MiB costs Spark as much as a row. The value is an Arrow IPC
stream:

    metadata of the schema   `kafkasource`: 1, topic, partition
    columns                  key, value, offset, timestamp, and headers where a record has any

Do not store this format: both ends must be of one release of this package.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.types import PACKED_COLUMN, Packing

PACKED_SCHEMA = pa.schema([pa.field(PACKED_COLUMN, pa.binary())])
_VERSION = b"1"
_COLUMNS = ("key", "value", "offset", "timestamp")


class Unpacked(NamedTuple):
    """Records of one partition, in the order of their offsets."""

    topic: str
    partition: int
    batch: pa.RecordBatch  # columns as above; `headers` may be absent


def pack(batch: pa.RecordBatch, packing: Packing | None = None) -> pa.RecordBatch:
    """One row of PACKED_SCHEMA; `batch` holds rows of one partition, as the fetcher gives them, headers or not.

    Copies what the rows need, so that the batch's memory is free afterwards.
    """
    topic, partition = str(batch.column("topic")[0].as_py()), batch.column("partition")[0].as_py()
    fields: list[pa.Field] = [batch.schema.field(name) for name in _COLUMNS]
    columns: list[pa.Array] = [batch.column(name) for name in _COLUMNS]
    headers: pa.Array | None = batch.column("headers") if "headers" in batch.schema.names else None
    if packing is not None and packing.headers:
        fill = {"topic": topic, "partition": str(partition)}
        added = [(name, _filled(text, fill, batch.column("offset"))) for name, text in packing.headers]
        headers = with_headers(headers, batch.num_rows, added)
    if headers is not None and headers.null_count < batch.num_rows:
        fields.append(pa.field("headers", HEADERS_TYPE))
        columns.append(headers)
    about = {b"kafkasource": _VERSION, b"topic": topic.encode(), b"partition": str(partition).encode()}
    schema = pa.schema(fields, metadata=about)
    inside = pa.RecordBatch.from_arrays(columns, schema=schema)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, schema) as writer:
        writer.write_batch(inside)
    data = out.getvalue()
    ends = pa.py_buffer(array("i", (0, data.size)).tobytes())
    value: pa.Array = pa.Array.from_buffers(pa.binary(), 1, [None, ends, data])
    return pa.RecordBatch.from_arrays([value], schema=PACKED_SCHEMA)


def unpack(value: pa.Scalar) -> Unpacked:
    """The inverse of `pack`, without a copy. `value` is a pyarrow buffer. Raises ValueError for any other value."""
    try:
        reader = pa.ipc.open_stream(value)
        about = reader.schema.metadata or {}
        if about.get(b"kafkasource") != _VERSION:
            raise ValueError("not packed by this release")
        batch = reader.read_next_batch()
        return Unpacked(about[b"topic"].decode(), int(about[b"partition"]), batch)
    except (pa.ArrowException, KeyError, StopIteration, OSError) as error:
        raise ValueError(f"not packed records: {type(error).__name__}") from None


def with_headers(headers: pa.ListArray | None, rows: int, added: Sequence[tuple[str, pa.Array]]) -> pa.ListArray:
    """A column of headers (None: there are none) with further ones at the end of each row: names, and binary
    columns."""
    entry = HEADERS_TYPE.value_type
    numbers = pa.array(range(rows), pa.int64())
    entries = [
        pa.StructArray.from_arrays([pa.repeat(pa.scalar(name, pa.string()), rows), values], fields=list(entry))
        for name, values in added
    ]
    parents = [numbers] * len(added)
    lengths = pa.repeat(pa.scalar(len(added), pa.int32()), rows)
    if headers is not None and headers.null_count < rows:
        entries.insert(0, headers.flatten().cast(entry))
        parents.insert(0, pc.list_parent_indices(headers).cast(pa.int64()))
        lengths = pc.add(lengths, pc.list_value_length(headers).fill_null(0))
    order = pc.array_sort_indices(pa.concat_arrays(parents))  # stable: a row's own headers come before the further ones
    ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    return pa.ListArray.from_arrays(ends, pa.concat_arrays(entries).take(order), type=HEADERS_TYPE)


def _filled(text: str, fill: Mapping[str, str], offsets: pa.Array) -> pa.Array:
    """A header's value for each row, as a binary column."""
    for name, value in fill.items():
        text = text.replace(f"${{{name}}}", value)
    parts: list[pa.Scalar | pa.Array] = [pa.scalar(part, pa.string()) for part in text.split("${offset}")]
    if len(parts) == 1:
        return pa.repeat(pa.scalar(text.encode(), pa.binary()), len(offsets))
    numbers = offsets.cast(pa.string())
    several = [parts[0], *(each for part in parts[1:] for each in (numbers, part))]
    return pc.binary_join_element_wise(*several, "").cast(pa.binary())
