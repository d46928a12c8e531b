"""A batch that is too large goes out in pieces: the same records, order, sequences and deadline, charged once."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch
from sink_fakes import T0, Rig, producer_of

from kafkasource.errors import CorruptRecordBatch
from kafkasource.kafka.producer.delivery import Delivery
from kafkasource.kafka.records.builder import BatchBuilder, RecordColumns
from kafkasource.kafka.records.compression import CODECS

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ROW = st.tuples(
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=60) | st.just(b"\0" * 900),
    st.integers(-1, 2**40),
    st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3),
)


def columns_of(rows):
    keys, values, times, headers = zip(*rows, strict=True)
    dicts = [None if h is None else [{"key": k, "value": v} for k, v in h] for h in headers]
    return RecordColumns(
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(times, pa.int64()),
        pa.array(dicts, HEADERS),
    )


def records_in(encoded):
    """The records as kafka-python reads them, compared with our own decoder."""
    return [
        (record.key, record.value, record.timestamp, record.headers) for record in DefaultRecordBatch(bytes(encoded))
    ]


def in_flight(rig, delivery, rows, *, producer=(-1, -1, -1), codec="none"):
    """One batch of these rows, encoded and taken by the sender."""
    rig.queues.new_builder = lambda buffer: BatchBuilder(buffer, codec=codec)
    rig.accumulator.append("t", columns_of(rows), None, [(0, 0, len(rows))], delivery)
    (batch,) = rig.drain()
    batch.close(*producer)
    batch.attempts, batch.last_attempt_ms = 1, rig.clock()
    return batch


ROWS = [(None, b"v" * 100, i, None) for i in range(30)]


@settings(deadline=None)
@given(
    rows=st.lists(ROW, min_size=2, max_size=25),
    codec=st.sampled_from(sorted(CODECS)),
    sequence=st.integers(0, 2**31 - 1),
)
def test_pieces_hold_the_same_records_in_order_with_consecutive_sequences(rows, codec, sequence):
    rig, delivery = Rig(batch_bytes=64 * 1024, buffer_memory_bytes=1 << 20), Delivery()
    batch = in_flight(rig, delivery, rows, producer=(1000, 3, sequence), codec=codec)
    whole = records_in(batch.encoded)
    count = rig.queues.split(batch)
    pieces = []
    for _, encoded in rig.sent_and_settled():
        pieces.append(encoded)
        assert rig.drain() == [], "the next piece waits for this one's answer"
    assert len(pieces) == count >= 2
    assert [record for piece in pieces for record in records_in(piece)] == whole
    counts = [producer_of(piece)[3] for piece in pieces]
    before = [0, *itertools.accumulate(counts)][:-1]
    assert [producer_of(piece)[:3] for piece in pieces] == [(1000, 3, (sequence + n) % 2**31) for n in before]
    assert rig.leaked_bytes == 0


def test_pieces_of_a_producer_without_an_id_have_none_either():
    rig = Rig()
    rig.queues.split(in_flight(rig, Delivery(), ROWS))
    assert {producer_of(encoded)[:3] for _, encoded in rig.sent_and_settled()} == {(-1, -1, -1)}


def test_pieces_stay_in_the_transaction_of_the_batch():
    rig, transaction = Rig(), object()
    delivery = Delivery()
    delivery.transaction = transaction
    batch = in_flight(rig, delivery, ROWS, producer=(1000, 0, 0))
    rig.queues.split(batch)
    with rig.queues._lock:
        pieces = list(rig.queues._partitions[T0].waiting)
    assert all(DefaultRecordBatch(bytes(piece.encoded)).is_transactional for piece in pieces)


def test_no_piece_is_larger_than_half_but_for_a_record_that_is():
    rig = Rig(batch_bytes=64 * 1024, buffer_memory_bytes=1 << 20)
    rows = [*ROWS[:5], (None, b"x" * 20_000, 0, None), *ROWS[:5]]
    batch = in_flight(rig, Delivery(), rows)
    whole = batch.size
    rig.queues.split(batch)
    sizes = [(producer_of(encoded)[3], len(encoded)) for _, encoded in rig.sent_and_settled()]
    assert [count for count, _ in sizes] == [5, 1, 5]
    assert all(size <= whole * 6 / 11 + 61 or count == 1 for count, size in sizes)


def test_pieces_of_pieces_end_with_single_records():
    rig, waves = Rig(), 0
    batch = in_flight(rig, Delivery(), ROWS, producer=(1000, 0, 0))
    rig.queues.split(batch)
    stored = []
    while batches := rig.drain():
        (piece,) = batches
        if piece.record_count > 1:
            rig.queues.split(piece)
            waves += 1
            continue
        stored.append((producer_of(piece.encoded)[2], records_in(piece.encoded)[0][2]))
        rig.settle(piece)
    assert stored == [(i, i) for i in range(30)]
    assert rig.leaked_bytes == 0


def test_pieces_go_at_once_and_before_what_was_sent_after_the_batch():
    rig = Rig(retry_backoff_ms=100)
    delivery = Delivery()
    rig.append(delivery, count=130)  # four batches
    first, second, third = (rig.drain()[0] for _ in range(3))
    for batch in (first, second, third):
        batch.close(-1, -1, -1)
        batch.attempts, batch.last_attempt_ms = 1, rig.clock()
    rig.queues.put_back(second)  # out of order at the broker, as the first is not there
    assert rig.queues.split(first) == 2
    assert not rig.queues.is_next(third)
    rig.queues.put_back(third)
    order = []
    for _ in range(2):
        (piece,) = rig.drain()
        order.append(piece)
        rig.settle(piece)
    assert rig.drain() == [], "those that failed wait for their backoff"
    rig.clock.now_ms += 100
    while batches := rig.drain():
        order += batches
        rig.settle(batches[0])
    assert order[2:4] == [second, third]
    assert [batch.number for batch in order] == sorted(batch.number for batch in order)
    assert len({batch.number for batch in order}) == 5


def test_pieces_keep_the_deadline_of_the_batch():
    rig = Rig(delivery_timeout_ms=1000)
    batch = in_flight(rig, Delivery(), ROWS)
    rig.clock.now_ms += 600
    assert rig.queues.take_of({Delivery()}) == []  # nothing waits at this moment
    rig.queues.split(batch)
    assert rig.queues.next_expiry_ms() == batch.created_ms + 1000
    assert len(rig.queues.take_expired(rig.clock() + 400)) == 2


def test_memory_is_charged_until_the_last_piece_is_settled():
    rig = Rig()
    rig.queues.split(in_flight(rig, Delivery(), ROWS))
    left = []
    for piece, _ in rig.sent_and_settled():
        left.append(rig.leaked_bytes)
        assert piece.topic_partition == T0
    assert left == [4096, 4096]
    assert rig.leaked_bytes == 0


def test_the_delivery_waits_for_every_piece():
    rig, delivery = Rig(), Delivery()
    batch = in_flight(rig, delivery, ROWS)
    delivery.opened(-1)  # as if it were the only one and had been answered: what is open now are the pieces
    delivery.opened(1)
    count = rig.queues.split(batch)
    assert delivery._open_batches == count


def test_later_batches_of_the_topic_are_no_larger_than_the_pieces():
    rig = Rig(batch_bytes=8192)
    rows = [(None, b"v" * 100, i, None) for i in range(70)]
    rig.queues.split(in_flight(rig, Delivery(), rows))
    largest = max(len(encoded) for _, encoded in rig.sent_and_settled())
    rig.append(Delivery(), count=200)
    assert max(batch.size for batch, _ in rig.sent_and_settled()) <= largest
    assert rig.leaked_bytes == 0


def test_a_batch_whose_bytes_changed_in_memory_is_not_split():
    rig = Rig()
    batch = in_flight(rig, Delivery(), ROWS)
    batch.encoded[100] ^= 1
    with pytest.raises(CorruptRecordBatch):
        rig.queues.split(batch)
    rig.settle(batch)
    assert rig.leaked_bytes == 0
