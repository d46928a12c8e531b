"""Record batches v2 (KIP-98) to Arrow: the `records` field of a Fetch response becomes rows of the source's schema.

Brokers before 0.11 wrote older formats, which `message_set` reads; one response may have both. Decoding has three
steps. `BatchWalk` reads headers, checks CRCs, drops control batches and aborted transactions, and decompresses, so that
sizes are known. Then this module allocates output buffers of the largest possible size (untouched pages cost nothing),
and the kernel fills them. A call takes twice the decompressed bytes (4 MiB, or one larger batch), and for uncompressed
batches once their size.

Any bytes give rows, or an error of this family: CorruptRecordBatch (fetching again can help), UnsupportedRecordFormat,
RecordBatchTooLarge. Its text names topic, partition and the offset of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkasource.errors import CorruptRecordBatch
from kafkasource.kafka.records import header as h
from kafkasource.kafka.records import kernel, message_set
from kafkasource.kafka.records.arrow.columns import ROW_SCHEMA, ROW_SCHEMA_WITH_HEADERS
from kafkasource.kafka.records.compression import PIECE_BYTES, scratch_arena
from kafkasource.kafka.records.message_set import MessageWalk
from kafkasource.kafka.records.rows import row_batches
from kafkasource.kafka.records.transactions import AbortedTransactions
from kafkasource.kafka.records.walk import BatchWalk
from kafkasource.types import ROW_COLUMNS

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["ROW_SCHEMA", "ROW_SCHEMA_WITH_HEADERS", "Decoded", "decode", "decode_all", "next_fetch_offset"]

MAX_DECOMPRESSED_BYTES = 64 << 20


@dataclass(frozen=True)
class Decoded:
    """The result of one call. Rows ascend by offset; a batch holds one timestampType."""

    batches: list[pa.RecordBatch]
    next_offset: int  # last offset of the last batch used + 1 (at least end_offset once that was passed)
    bytes_used: int  # the rest is a cut last batch, batches at or behind end_offset, or what the limit put off
    required_bytes: int | None = None  # no whole batch came: the size that the first one claims
    aborted_transactions: tuple[tuple[int, int], ...] = ()  # for a call that continues behind bytes_used
    limited: bool = False  # ended by what it decompressed or a change of format: data[bytes_used:] holds more

    @property
    def num_rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)


def decode(
    data: Buffer,
    *,
    topic: str,
    partition: int,
    start_offset: int,
    end_offset: int,
    include_headers: bool = False,
    columns: tuple[str, ...] | None = None,
    check_crc: bool = True,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    piece_bytes: int = PIECE_BYTES,
    aborted_transactions: Iterable[tuple[int, int]] | None = (),
) -> Decoded:
    """Rows of [start_offset, end_offset) in `data`, any contiguous buffer of whole batches and perhaps a cut last one.

    `aborted_transactions` is (producer id, first offset) as Fetch returns them under read_committed; None or empty
    drops control batches only. The call ends before the batch that would make the decompressed bytes exceed
    `piece_bytes`, or `max_decompressed_bytes` if less, and sets `limited` (`decode_all` then calls again); a single
    batch beyond `max_decompressed_bytes` raises RecordBatchTooLarge.
    The rows have `columns`, in that order; None: all, with `headers` as `include_headers` says. Other columns are not
    made. The records' lengths, offsets and timestamps are checked all the same; what is inside of headers is not.
    Holds no reference to `data` afterwards. Any thread; the GIL is released while CRCs are checked, records parsed and
    batches decompressed.
    """
    view = memoryview(data).cast("B")
    aborted = tuple(aborted_transactions or ())
    place = (topic, partition, start_offset, end_offset)
    if columns is None:
        columns = ROW_COLUMNS if include_headers else ROW_COLUMNS[:-1]
    walk: BatchWalk | MessageWalk
    with scratch_arena() as arena:
        arena.piece_bytes = piece_bytes
        if message_set.begins(view):
            walk = MessageWalk(view, *place, check_crc, max_decompressed_bytes, arena)
            walk.run()
            batches = list(walk.batches(columns))
        else:
            walk = BatchWalk(view, *place, check_crc, max_decompressed_bytes, arena, AbortedTransactions(aborted))
            walk.run()
            batches = list(row_batches(walk, columns))
            aborted = walk.aborted.remaining()
    return Decoded(batches, walk.next_offset, walk.pos, walk.required_bytes, aborted, walk.limited)


def decode_all(data: Buffer, *, start_offset: int, **arguments: Any) -> Iterator[Decoded]:
    """Calls `decode` again and again, until `data` holds no more whole batches. Each item has bounded memory.

    Yields at least one item; the last one has the `next_offset` to fetch from.
    """
    view = memoryview(data).cast("B")
    aborted = arguments.pop("aborted_transactions", ())
    while True:
        decoded = decode(view, start_offset=start_offset, aborted_transactions=aborted, **arguments)
        yield decoded
        if not decoded.limited:
            return
        view = view[decoded.bytes_used :]
        (base_offset,) = h.PREFIX.unpack_from(view)[:1]
        if max(start_offset, base_offset) < decoded.next_offset:  # no CRC covers it
            where = f"{arguments['topic']}-{arguments['partition']}, record batch at offset {base_offset}"
            raise CorruptRecordBatch(f"{where}: {decoded.next_offset} or more was due")
        start_offset = decoded.next_offset
        aborted = decoded.aborted_transactions


def next_fetch_offset(data: Buffer) -> int | None:
    """Last offset of the last complete batch + 1, from headers alone: the next fetch can leave before this is decoded.

    None: no batch is complete, or the first bytes are no batch; `decode` then raises the error.
    """
    view = memoryview(data).cast("B")
    used, next_offset = message_set.survey(view)
    batches, ahead = kernel.survey(view[used:])
    return ahead if batches else next_offset
