"""Decodes an answer piece by piece, so that neither decoding nor a batch of rows for Spark takes much memory.

A long way to the broker makes large answers, and compression makes small answers large (the decoder itself stops at
some MiB). Pieces of about a MiB also let the decoder use memory that it has touched before.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkasource.kafka.fetch.config import FetchSettings
from kafkasource.kafka.fetch.memory import FetchMemory
from kafkasource.kafka.fetch.messages import FetchedPartition
from kafkasource.kafka.records import header as h
from kafkasource.kafka.records.batches import Decoded, decode_all
from kafkasource.types import OffsetRange


def decode_pieces(
    fetched: FetchedPartition,
    offset_range: OffsetRange,
    start_offset: int,
    settings: FetchSettings,
    memory: FetchMemory,
) -> Iterator[Decoded]:
    """Rows of [start_offset, the range's end), in order. Yields at least one item; each further one goes further.

    `memory` bounds each piece by what the task may take at that moment. Raises the errors of
    `kafka.records.batches.decode`.
    """
    position, aborted = start_offset, fetched.aborted_transactions
    for view in portions(fetched.records, memory.portion_bytes):
        for decoded in decode_all(
            view,
            topic=offset_range.topic_partition.topic,
            partition=offset_range.topic_partition.partition,
            start_offset=position,
            end_offset=offset_range.end_offset,
            columns=settings.columns,
            check_crc=settings.check_crcs,
            max_decompressed_bytes=settings.max_decompressed_bytes,
            piece_bytes=memory.piece_bytes,
            aborted_transactions=aborted,
        ):
            if decoded.next_offset > position or position == start_offset:  # else: a cut batch at the end
                yield decoded
            position, aborted = decoded.next_offset, decoded.aborted_transactions
        if position >= offset_range.end_offset:
            return


def portions(records: memoryview | bytes, most_bytes: int) -> Iterator[memoryview]:
    """Cut an answer between record batches, so that no portion is much larger than `most_bytes`.

    A portion is larger by half at most, or is a single batch. A last batch that did not come whole stays with the batch
    before. Bytes that are no record batches stay whole, and the decoder raises the error.
    """
    view = memoryview(records).cast("B")
    start = pos = 0
    size = len(view)
    while size - start > most_bytes + most_bytes // 2 and size - pos >= h.HEADER_BYTES:
        _, length = h.PREFIX.unpack_from(view, pos)
        end = pos + h.PREFIX_BYTES + length
        if length < h.MIN_BATCH_LENGTH or end > size:
            break
        if end - start > most_bytes and pos > start:
            yield view[start:pos]
            start = pos
        pos = end
    yield view[start:]
