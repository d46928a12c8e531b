"""One record batch on its way out, the batches of one topic-partition in order, and the pieces of a split batch.

A partition keeps its order, whatever is retried. A batch gets its number, counted in records, when it is first sent, so
that the pieces of a split batch have their numbers in its place. A batch that must be sent again goes back among the
waiting ones by its number. It is sent only when no batch with a lower number is under way. So a partition that recovers
has one request in flight until the failed batch is stored (as in Kafka's RecordAccumulator).

A batch that is sent for the first time follows others in flight only if a retry could keep the order: they are of the
same task and carry the same producer id, and the broker knows that id for this partition. A broker that does not know
an id accepts any first sequence, so the first batch of each run goes alone. (Seen on 4.3.1 with two batches in flight
to a partition just created: the broker answered the first with NOT_LEADER_OR_FOLLOWER, stored the second, and refused
the first ever after. Decision 18.)

The sender splits a batch that is too large into smaller ones of the same records in the same order. The broker refuses
a batch beyond the topic's max.message.bytes as a whole (MESSAGE_TOO_LARGE: it stores nothing), and compression may make
records grow beyond `max.request.size`. As in Kafka's ProducerBatch.split, the pieces take over the batch's producer id,
epoch and sequences: the first piece its base sequence, each further piece the sequence after the piece before. So
batches that were sent behind it keep their own sequences. An earlier attempt may have been stored after all (its answer
was lost, then max.message.bytes lowered). Then the broker does not know the sequences that the pieces carry, and
refuses them as out of order: it stores nothing twice.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.errors import CorruptRecordBatch
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.producer.delivery import Delivery
from kafkasource.kafka.producer.pool import Buffer
from kafkasource.kafka.producer.producer_id import sequence_after
from kafkasource.kafka.producer.sharing import Origin
from kafkasource.kafka.records import header as h
from kafkasource.kafka.records.batches import decode
from kafkasource.kafka.records.builder import BatchBuilder, Compress, RecordColumns, stamp
from kafkasource.kafka.records.compression import compress
from kafkasource.types import NEVER, TopicPartition

KNOWN_AGAIN = 5
"""Batches of one producer that a broker knows again in a partition (`NUM_BATCHES_TO_RETAIN` of Kafka's log). Were more
in flight, and their answers lost, the broker would take the first of them for one that is out of order. A broker that
was restarted knows only the last: its snapshot of a producer holds no more."""


@dataclass(eq=False, slots=True)
class Allotment:
    """A buffer of the pool, and the number of batches that are charged to it: the pieces of a split batch share one."""

    buffer: Buffer
    holders: int = 1


@dataclass(eq=False, slots=True)
class ProducerBatch:
    """Rows of one task for one partition. Built by the task's thread until full or drained, then the sender's."""

    topic_partition: TopicPartition
    delivery: Delivery
    allotment: Allotment
    builder: BatchBuilder
    created_ms: float
    origin: Origin | None = None  # where other clusters may get a batch of the same records
    appending: bool = False  # the task's thread is writing to the buffer, without a lock: hands off
    full: bool = False
    number: int = -1  # records first sent to the partition before it; -1: not sent yet
    attempts: int = 0  # times it was sent
    last_attempt_ms: float = 0.0
    encoded: memoryview | None = None  # once closed: the bytes that are sent; only `renumber` and `renew` change them
    record_count: int = 0  # records in `encoded`
    producer_id: int = -1  # -1: not idempotent; else the broker knows the batch from others by its sequence
    last_error: BaseException | None = None  # the error of the last attempt
    unanswered: bool = False  # an attempt ended without the answer that nothing of it is stored
    records_gone: int = 0  # records before it that left the partition since it got its sequence: `renumber` is due
    behind_gap: bool = False  # a batch before it was given up: brokers take its sequence no more, or never did
    forgotten: bool = False  # it goes again under another producer id: `renew` is due

    def close(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Encode the batch for sending. All three are -1 if the producer is not idempotent. Raises the codec's
        errors."""
        self.full = True
        self.record_count = self.builder.record_count
        self.producer_id = producer_id
        transactional = self.delivery.transaction is not None
        compress_records: Compress = compress
        if self.origin is not None and self.delivery.compressor is not None:
            compress_records = partial(self.delivery.compressor.compress, self.origin)
        self.encoded = self.builder.close(producer_id, producer_epoch, base_sequence, transactional, compress_records)

    @property
    def is_compressed_elsewhere(self) -> bool:
        """Does another cluster's thread compress the same records at this moment?"""
        compressor = self.delivery.compressor
        return self.origin is not None and compressor is not None and compressor.under_way(self.origin)

    def renumber(self) -> None:
        """Take the sequence that is the batch's since records before it became dead letters. The broker has refused
        each copy with the old one."""
        assert self.encoded is not None
        producer_id, epoch, sequence = h.HEADER.unpack_from(self.encoded)[9:12]
        transactional = self.delivery.transaction is not None
        stamp(self.encoded, producer_id, epoch, sequence_after(sequence, -self.records_gone), transactional)
        self.records_gone = 0

    def renew(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Take the sequence of another producer id. The broker has refused the only copy that was sent."""
        assert self.encoded is not None
        stamp(self.encoded, producer_id, producer_epoch, base_sequence)
        self.producer_id = producer_id
        self.forgotten = self.behind_gap = False

    @property
    def base_sequence(self) -> int:
        assert self.encoded is not None
        sequence: int = h.HEADER.unpack_from(self.encoded)[11]
        return sequence

    @property
    def size(self) -> int:
        """Bytes on the wire; before `close`, bytes before compression."""
        return len(self.encoded) if self.encoded is not None else self.builder.estimated_size

    @property
    def held_back(self) -> bool:
        """Whether its task is filling it at this moment, or has failed. In the second case the next turn drops it:
        batches before it may have been given up, so it must not be stored."""
        return self.appending or self.delivery.failed

    @property
    def has_dead_letters(self) -> bool:
        """May records that a broker refuses leave it? Dead letters themselves may not."""
        dead_letters = self.delivery.dead_letters
        return dead_letters is not None and dead_letters.topic != self.topic_partition.topic

    @property
    def sequenced(self) -> bool:
        return self.producer_id >= 0


class PartitionBatches:
    """The batches of one topic-partition: those that wait, the last of them open for more rows, and those in flight.

    Used under the accumulator's lock.
    """

    __slots__ = ("in_flight", "known_producer_id", "next_number", "topic_partition", "waiting")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.waiting: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []  # by number
        self.next_number = 0
        # The id of the last stored batch without a transaction. It is forgotten with this object, so after each idle
        # time.
        self.known_producer_id = -1

    @property
    def held_bytes(self) -> int:
        """Bytes of the buffer pool that its batches hold."""
        return sum(len(buffer) for buffer in {id(b.allotment): b.allotment.buffer for b in self._batches()}.values())

    def __str__(self) -> str:
        return f"{self.topic_partition} ({len(self.waiting)} batches wait, {len(self.in_flight)} in flight)"

    def _batches(self) -> Iterator[ProducerBatch]:
        yield from self.in_flight
        yield from self.waiting

    def open_for(self, delivery: Delivery) -> ProducerBatch | None:
        """The batch at the back, if it is this task's and takes more rows."""
        if self.waiting:
            batch = self.waiting[-1]
            if batch.delivery is delivery and not batch.full:
                return batch
        return None

    def wait_ms(self, config: ProducerConfig, in_a_hurry: bool, producer_id: int | None, now_ms: float) -> float:
        """Milliseconds until the first waiting batch may be sent. <= 0: now. NEVER: an answer must come first."""
        batch = self.waiting[0]
        if self.in_flight and not self._may_follow(batch, config, producer_id):
            return NEVER
        if batch.held_back:
            return 1
        if batch.number >= 0:
            return batch.last_attempt_ms + config.retry_backoff(batch.attempts) - now_ms if batch.attempts else 0
        if batch.full or in_a_hurry or len(self.waiting) > 1 or batch.delivery.flushing:
            return 0
        return batch.created_ms + config.linger_ms - now_ms

    def _may_follow(self, batch: ProducerBatch, config: ProducerConfig, producer_id: int | None) -> bool:
        most = config.max_in_flight if producer_id is None else min(config.max_in_flight, KNOWN_AGAIN)
        if len(self.in_flight) >= most:
            return False
        if batch.number >= 0:
            return batch.number < self.in_flight[0].number
        if self.in_flight[0].attempts > 1:
            # It may be stored already. Were KNOWN_AGAIN more stored behind it before its answer comes, and that is lost
            # once more, it would be out of order.
            return False
        last, transaction = self.in_flight[-1], batch.delivery.transaction
        if last.delivery is not batch.delivery:
            return False
        if transaction is not None:
            return self.topic_partition in transaction.known_to_leader
        return last.producer_id == producer_id == self.known_producer_id

    def send_first(self) -> ProducerBatch:
        """Move the first waiting batch into flight."""
        batch = self.waiting.popleft()
        if batch.number < 0:
            batch.number = self.next_number
            self.next_number += batch.builder.record_count
            self.in_flight.append(batch)
        else:
            self.in_flight.insert(0, batch)
        return batch

    def put_back(self, batch: ProducerBatch) -> None:
        """Move a batch from flight to the waiting ones, in the order of first sends."""
        self.in_flight.remove(batch)
        place = 0
        while place < len(self.waiting) and 0 <= self.waiting[place].number < batch.number:
            place += 1
        self.waiting.insert(place, batch)

    def replace(self, batch: ProducerBatch, pieces: Sequence[ProducerBatch]) -> None:
        """Replace the batch in flight with its pieces, which are sent one after the other."""
        self.put_back(batch)
        place = self.waiting.index(batch)
        del self.waiting[place]
        for piece in reversed(pieces):
            self.waiting.insert(place, piece)

    def sequenced_behind(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """The batches behind this batch that have sequences of the same producer id."""
        return [
            other
            for other in self._batches()
            if other.number > batch.number and other.sequenced and other.producer_id == batch.producer_id
        ]

    def is_alone(self, batch: ProducerBatch) -> bool:
        """Has every other batch that was sent its final answer?"""
        return not any(other.number >= 0 for other in self._batches() if other is not batch)

    def is_next(self, batch: ProducerBatch) -> bool:
        """Whether every batch that was sent before this batch has its final answer."""
        return not any(0 <= other.number < batch.number for other in self._batches())


# Splitting.

# Timestamps count from that of the batch's first record. When that leaves, the others' may take nine bytes more (up to
# ten, of a varint of 64 bits), and the record's length one.
_MORE_BYTES = 10


def pieces_of(batch: ProducerBatch, new_builder: Callable[[Buffer], BatchBuilder]) -> list[ProducerBatch]:
    """Closed batches of about half the records' bytes each. There are more than two only if one record is larger.

    `batch` is encoded and holds two records at least. The pieces share its memory account, but have bytes of their own.
    Raises CorruptRecordBatch if the encoded bytes are no longer those that were written; then it changes nothing.
    """
    columns = columns_of(batch)
    assert batch.encoded is not None
    if batch.records_gone:
        batch.renumber()
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
            unanswered=batch.unanswered,
        )
        piece.close(producer_id, epoch, sequence_after(sequence, done) if producer_id >= 0 else -1)
        pieces.append(piece)
        done = reached
    return pieces


def rest_of(
    batch: ProducerBatch, columns: RecordColumns, gone: Collection[int], new_builder: Callable[[Buffer], BatchBuilder]
) -> ProducerBatch:
    """A closed batch of the records that are not gone, at least one, with the sequences from the batch's first on.

    It takes over the batch's memory account, but has bytes of its own. `columns`: the batch's records. Raises
    CorruptRecordBatch instead of leaving one of them out.
    """
    assert batch.encoded is not None
    if batch.records_gone:
        batch.renumber()
    kept = array("i", [number for number in range(batch.record_count) if number not in gone])
    builder = new_builder(bytearray(batch.builder.estimated_size + _MORE_BYTES * len(kept)))
    reached = builder.append(columns, kept)
    if reached < len(kept):
        raise CorruptRecordBatch(
            f"{batch.topic_partition}: {len(kept)} of the {batch.record_count} records in a batch of "
            f"{batch.builder.estimated_size} bytes take more than that, and more than their timestamps may add"
        )
    rest = ProducerBatch(
        batch.topic_partition, batch.delivery, batch.allotment, builder, batch.created_ms, number=batch.number
    )
    rest.close(*h.HEADER.unpack_from(batch.encoded)[9:12])
    return rest


def target_bytes(batch: ProducerBatch) -> int:
    """The limit of a piece before compression, header included: the larger half of an odd number of records."""
    count = batch.record_count
    return h.HEADER_BYTES + -(-(batch.builder.estimated_size - h.HEADER_BYTES) * ((count + 1) // 2) // count)


def columns_of(batch: ProducerBatch) -> RecordColumns:
    """The records as they were handed over; decoding checks the CRC."""
    assert batch.encoded is not None
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
