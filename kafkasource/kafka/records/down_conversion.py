"""Converts a record batch v2 to the message set v0 or v1 of the same records, for brokers before 0.11 (layout:
`message_set`).

The result is as Kafka's own producers wrote it. Offsets count from 0. With a codec all messages are the value of one
wrapper, which has the offset of the last message inside and the largest timestamp. The older formats have no place for
some things. Producer id, epoch and sequence mean nothing to such a broker and are dropped. Magic 0 drops timestamps
(the caller knows whether they matter). Headers and zstd are refused.

One Python step a message, about a microsecond; the kernel writes only today's format.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.errors import UnsupportedRecordFormat
from kafkasource.kafka.records import header as h
from kafkasource.kafka.records.batches import decode
from kafkasource.kafka.records.compression import LZ4, NONE, ZSTD, compress, with_first_lz4_header

if TYPE_CHECKING:
    from typing_extensions import Buffer

_PREFIX = struct.Struct(">qiI")  # offset, size, crc
_HEADS = struct.Struct(">BB"), struct.Struct(">BBq")  # by magic: magic, attributes and from 1 on the timestamp
_LENGTH = struct.Struct(">i")
_CRC_BYTES = 4
_NULL = _LENGTH.pack(-1)

Row = tuple[bytes | None, bytes | None, int]
"""Key, value, timestamp in ms."""


def down_convert(batch: Buffer, magic: int, *, codec: int, level: int | None, max_bytes: int) -> bytes:
    """The records of one whole `batch` (its CRC is checked) as a message set of `magic` 0 or 1.

    `codec` and `level` as for `compress`; the batch itself may be compressed otherwise, its records taking `max_bytes`
    at most. Raises UnsupportedRecordFormat for headers and zstd, CorruptRecordBatch for a batch that is not whole.
    """
    if codec == ZSTD:
        raise UnsupportedRecordFormat("message sets cannot be compressed with zstd")
    rows = _rows_of(batch, max_bytes)
    if codec == NONE:
        return _messages(rows, magic)
    section = compress(codec, memoryview(_messages(rows, magic)), level)
    if codec == LZ4 and magic == 0:
        section = with_first_lz4_header(section)
    latest = max(timestamp for _, _, timestamp in rows)
    return _message(len(rows) - 1, magic, codec, (None, section, latest))


def _rows_of(batch: Buffer, max_bytes: int) -> list[Row]:
    count = h.HEADER.unpack_from(batch)[-1]
    decoded = decode(
        batch,
        topic="",
        partition=-1,
        start_offset=0,
        end_offset=count,
        include_headers=True,
        max_decompressed_bytes=max_bytes,
        aborted_transactions=None,
    )
    rows: list[Row] = []
    for arrow in decoded.batches:
        if arrow.column("headers").null_count < arrow.num_rows:
            raise UnsupportedRecordFormat("message sets have no place for headers")
        times = pc.divide(pc.cast(arrow.column("timestamp"), pa.int64()), 1000)
        rows += zip(arrow.column("key").to_pylist(), arrow.column("value").to_pylist(), times.to_pylist(), strict=True)
    return rows


def _messages(rows: Iterable[Row], magic: int) -> bytes:
    return b"".join([_message(offset, magic, NONE, row) for offset, row in enumerate(rows)])


def _message(offset: int, magic: int, attributes: int, row: Row) -> bytes:
    key, value, timestamp = row
    head = _HEADS[0].pack(0, attributes) if magic == 0 else _HEADS[1].pack(magic, attributes, timestamp)
    covered = b"".join(
        (
            head,
            _NULL if key is None else _LENGTH.pack(len(key)),
            key or b"",
            _NULL if value is None else _LENGTH.pack(len(value)),
            value or b"",
        )
    )
    return _PREFIX.pack(offset, _CRC_BYTES + len(covered), zlib.crc32(covered)) + covered
