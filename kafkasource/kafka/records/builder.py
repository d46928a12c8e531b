"""Rows of Arrow columns to record batches v2 (KIP-98), encoded by the kernel straight into a given buffer.

A `BatchBuilder` is one open batch of one partition: rows are appended until it is full, then `close`. `append_spans`
fills many of them in one call, because a column of Spark's holds rows of many partitions. A buffer belongs to the
caller (the accumulator's pool) and limits the batch *before* compression. Offsets start at 0 and the leader epoch is
-1, as a producer sends them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.kafka.records import header as h
from kafkasource.kafka.records import kernel
from kafkasource.kafka.records.arrow.views import EMPTY, NO_INTS, NO_LONGS, binary_views, int32_view, validity, view_of
from kafkasource.kafka.records.checksum import crc32c
from kafkasource.kafka.records.compression import CODECS, compress
from kafkasource.kafka.records.partitions import order_by_partition, partition_by_key

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "BatchBuilder",
    "Compress",
    "RecordColumns",
    "append_spans",
    "order_by_partition",
    "partition_by_key",
    "stamp",
]

_PRODUCER = struct.Struct(">qhi")

Compress = Callable[[int, memoryview, "int | None"], "bytes | memoryview"]
"""As `compression.compress`."""


@dataclass(frozen=True, eq=False)
class RecordColumns:
    """Columns of equal length to encode rows from; slices are welcome. None: all keys or values null, no headers.

    A null timestamp becomes `default_timestamp_ms`; a null list of headers is like an empty one. A header's
    key must not be null. Strings may stand where binary does (Arrow holds them alike).
    """

    keys: pa.BinaryArray | None
    values: pa.BinaryArray | None
    timestamps_ms: pa.Int64Array | None = None
    headers: pa.ListArray | None = None  # list<struct<key: string, value: binary>>
    default_timestamp_ms: int = -1
    num_rows: int = -1  # needed only where all columns are None

    @cached_property
    def count(self) -> int:
        columns = [c for c in (self.keys, self.values, self.timestamps_ms, self.headers) if c is not None]
        counts = {len(column) for column in columns}
        if self.num_rows >= 0:
            counts.add(self.num_rows)
        if len(counts) != 1:
            raise ValueError(f"columns of different lengths: {sorted(counts)}")
        return counts.pop()

    @cached_property
    def source(self) -> kernel.Source:
        """The kernel's views of these columns, made once. They keep Arrow's buffers alive."""
        timestamps: tuple[memoryview, memoryview, int] = (EMPTY, NO_LONGS, 0)
        if self.timestamps_ms is not None:
            if self.timestamps_ms.type != pa.int64():
                raise TypeError(f"timestamps_ms must be int64, not {self.timestamps_ms.type}")
            valid, items = self.timestamps_ms.buffers()
            timestamps = (validity(valid, self.timestamps_ms), view_of(items, "q"), self.timestamps_ms.offset)
        lists: tuple[memoryview, memoryview, int] = (EMPTY, NO_INTS, 0)
        header_keys = header_values = binary_views(None)
        if self.headers is not None:
            if not pa.types.is_list(self.headers.type) or not pa.types.is_struct(self.headers.type.value_type):
                raise TypeError(f"headers must be list<struct<key, value>>, not {self.headers.type}")
            valid, items = self.headers.buffers()[:2]
            lists = (validity(valid, self.headers), view_of(items, "i"), self.headers.offset)
            # the list offsets refer to .values, the whole child; .field obeys the struct's own offset
            structs: pa.StructArray = self.headers.values
            if structs.null_count:
                raise ValueError("a header is null")
            keys, values = structs.field(0), structs.field(1)
            header_keys, header_values = binary_views(keys), binary_views(values)
        return kernel.Source(
            self.count,
            binary_views(self.keys),
            binary_views(self.values),
            timestamps,
            self.default_timestamp_ms,
            lists,
            header_keys,
            header_values,
        )

    @cached_property
    def content(self) -> int:
        """The sum of hashes of all records, modulo 2**64, whatever their order (`kernel.content_sum`). The default
        timestamp does not count. Raises ValueError for a row that cannot be encoded."""
        return int(kernel.content_sum(self.source, None, 0, self.count))

    def content_of(self, order: Buffer | None, first: int, last: int) -> int:
        """The same for the rows at positions [first, last) of `order`, as `append_spans` takes it."""
        return int(kernel.content_sum(self.source, None if order is None else int32_view(order), first, last))

    @cached_property
    def average_bytes(self) -> float:
        """The buffers of a record's key and value."""
        size = 0
        for column in (self.keys, self.values):
            if column is not None:
                lengths: int | None = pc.sum(pc.binary_length(column)).as_py()
                size += lengths or 0
        return size / self.count

    def max_record_bytes(self, row: int) -> int:
        """Most bytes that a batch of this row alone takes, header included, before compression.

        Raises ValueError for a row that cannot be encoded.
        """
        size: int = self.source.record_size(row)
        if size < 0:
            raise ValueError(f"row {row} cannot be encoded: index, header key or timestamp out of bounds")
        return h.HEADER_BYTES + size


class BatchBuilder:
    """One open batch. `buffer` (writable; its length is the limit) is the builder's until the bytes are sent.

    One thread at a time: appending releases the GIL while it writes.
    """

    __slots__ = ("_buffer", "_codec", "_level", "writer")

    def __init__(self, buffer: bytearray | memoryview, *, codec: str = "none", level: int | None = None) -> None:
        if codec not in CODECS:
            raise ValueError(f"codec {codec!r} is not one of {', '.join(CODECS)}")
        self._buffer = memoryview(buffer).cast("B")
        if len(self._buffer) < h.HEADER_BYTES:
            raise ValueError(f"a buffer of {len(self._buffer)} bytes holds no batch")
        self._codec = CODECS[codec]
        self._level = level
        self.writer = kernel.RecordWriter(self._buffer, h.HEADER_BYTES, len(self._buffer))

    @property
    def codec(self) -> int:
        """Kafka's number of the codec."""
        return self._codec

    @property
    def level(self) -> int | None:
        """The level, as `compress` takes it."""
        return self._level

    @property
    def record_count(self) -> int:
        return int(self.writer.count)

    @property
    def estimated_size(self) -> int:
        """The batch's present size in bytes, header included, before compression: exact for codec `none`."""
        return int(self.writer.pos)

    def append(
        self, columns: RecordColumns, rows: Buffer | None = None, first: int = 0, last: int | None = None
    ) -> int:
        """Append rows until the buffer is full; return the position of the first one that was not written.

        `rows` is a buffer of int32 row numbers, such as `order_by_partition` gives, and [first, last) are positions in
        it; None means the columns' own rows. Returns `first` if not even one row fitted. Raises ValueError for a row
        that cannot be encoded; the rows before it are written.
        """
        if last is None:
            last = columns.count if rows is None else len(int32_view(rows))
        return append_spans(columns, rows, [(self, first, last)])[0]

    def close(
        self,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        compress: Compress = compress,
    ) -> memoryview:
        """The complete batch with its CRC: a view of the buffer, or of new memory if the compressed records are larger
        than the plain ones and do not fit. `stamp` may write to it. `compress`: called where there is a codec.

        Raises ValueError where no record was appended. Nothing may be appended afterwards.
        """
        writer = self.writer
        if not writer.count:
            raise ValueError("a batch of no records cannot be sent")
        writer.closed = True
        if self._codec:
            records = compress(self._codec, self._buffer[h.HEADER_BYTES : writer.pos], self._level)
            size = h.HEADER_BYTES + len(records)
            # In place, so that a batch in flight is held once: nobody needs the plain records any more.
            batch = self._buffer[:size] if size <= len(self._buffer) else memoryview(bytearray(size))
            batch[h.HEADER_BYTES :] = records
        else:
            batch = self._buffer[: writer.pos]
        h.HEADER.pack_into(
            batch,
            0,
            0,  # base offset: the broker's to assign
            len(batch) - h.PREFIX_BYTES,
            -1,  # partition leader epoch, likewise
            2,
            0,
            self._codec,
            writer.count - 1,
            writer.base_timestamp,
            writer.max_timestamp,
            -1,
            -1,
            -1,
            writer.count,
        )
        stamp(batch, producer_id, producer_epoch, base_sequence, transactional)
        return batch


def append_spans(
    columns: RecordColumns, order: Buffer | None, spans: Sequence[tuple[BatchBuilder, int, int]]
) -> list[int]:
    """Append rows to many open batches in one call: for each (builder, first, last) as many as fit into its buffer.

    `order` is a buffer of int32 row numbers, such as `order_by_partition` gives, and [first, last) are positions in it;
    None means the columns' own rows. Returns for each span the position of the first row that was not written: `last`
    where all fitted, `first` where not even one did. Raises ValueError for a row that cannot be encoded; rows and spans
    before it are written. It releases the GIL once for all of them.
    """
    positions: list[int] = kernel.write_spans(columns.source, None if order is None else int32_view(order), spans)
    return positions


def stamp(
    batch: memoryview | bytearray,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool = False,
) -> None:
    """Write the producer's identity into the header of a closed batch, in place, and renew the CRC (KIP-98). It does
    not compress again.

    Only for a batch that no broker has stored, or may still store: a retry must send the same bytes.
    """
    _PRODUCER.pack_into(batch, h.PRODUCER_POS, producer_id, producer_epoch, base_sequence)
    (attributes,) = struct.unpack_from(">h", batch, h.ATTRIBUTES_POS)
    attributes = attributes | h.TRANSACTIONAL if transactional else attributes & ~h.TRANSACTIONAL
    struct.pack_into(">h", batch, h.ATTRIBUTES_POS, attributes)
    crc = crc32c(memoryview(batch)[h.ATTRIBUTES_POS :])
    struct.pack_into(">I", batch, h.CRC_POS, crc)
