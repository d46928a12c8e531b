"""A batch that is too large as it is, cut into several smaller ones of the same records in the same order.

The broker refuses a batch beyond the topic's max.message.bytes whole (MESSAGE_TOO_LARGE: nothing of it is stored), and
compression may make records grow beyond `max.request.size`. As Kafka's ProducerBatch.split, the pieces take over the
batch's producer id, epoch and sequences: the first piece its base sequence, each further one the sequence after the
piece before. So whatever was sent behind the batch keeps its own sequence. Should an earlier attempt have been stored
after all (its answer lost, then max.message.bytes lowered), the broker knows no such sequences as the pieces carry and
refuses them out of order: nothing is stored twice.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.records import header as h
from kafkasource.records.batches import decode
from kafkasource.records.builder import BatchBuilder, RecordColumns
from kafkasource.sink.producer.batch import ProducerBatch
from kafkasource.sink.producer.pool import Buffer
from kafkasource.sink.producer.producer_id import sequence_after


def pieces_of(batch: ProducerBatch, new_builder: Callable[[Buffer], BatchBuilder]) -> list[ProducerBatch]:
    """Closed batches of about half the records' bytes each; more only where one record alone is larger.

    `batch` is encoded and holds two records at least. The pieces share its memory account, but have bytes of their own.
    Raises CorruptRecordBatch where the encoded bytes are no longer what was written; nothing is changed then.
    """
    columns = _columns_of(batch)
    producer_id, epoch, sequence = h.HEADER.unpack_from(batch.encoded)[9:12]
    piece_bytes = target_bytes(batch)
    pieces: list[ProducerBatch] = []
    done = 0
    while done < batch.record_count:
        builder = new_builder(bytearray(piece_bytes))
        reached = builder.append(columns, None, done)
        if reached == done:
            builder = new_builder(bytearray(columns.max_record_bytes(done)))
            reached = builder.append(columns, None, done, done + 1)
        piece = ProducerBatch(
            batch.topic_partition,
            batch.delivery,
            batch.allotment,
            builder,
            batch.created_ms,
            number=batch.number + done,
        )
        piece.close(producer_id, epoch, sequence_after(sequence, done) if producer_id >= 0 else -1)
        pieces.append(piece)
        done = reached
    return pieces


def target_bytes(batch: ProducerBatch) -> int:
    """How large a piece may be, before compression, header included: the larger half of an odd number of records."""
    count = batch.record_count
    return h.HEADER_BYTES + -(-(batch.builder.estimated_size - h.HEADER_BYTES) * ((count + 1) // 2) // count)


def _columns_of(batch: ProducerBatch) -> RecordColumns:
    """The records as they were handed over; decoding checks the CRC."""
    decoded = decode(
        batch.encoded,
        topic=batch.topic_partition.topic,
        partition=batch.topic_partition.partition,
        start_offset=0,
        end_offset=batch.record_count,
        include_headers=True,
        max_decompressed_bytes=max(batch.builder.estimated_size, h.HEADER_BYTES),
        aborted_transactions=None,
    )
    rows = pa.Table.from_batches(decoded.batches).combine_chunks().to_batches()[0]
    microseconds = pc.cast(rows.column("timestamp"), pa.int64())
    return RecordColumns(
        rows.column("key"), rows.column("value"), pc.divide(microseconds, 1000), rows.column("headers")
    )
