"""A batch too large for the broker arrives in pieces: every record once, in order, sequences as if nothing had been."""

import random

import pyarrow as pa
import pytest
from broker_log import BrokerLog
from hypothesis import given, settings
from hypothesis import strategies as st
from random_inputs import examples
from sink_fakes import T0, FakeTransactions, Rig, is_transactional, producer_of

from kafkasource.errors import MessageTooLarge
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.records.builder import BatchBuilder, RecordColumns

TOO_LARGE, NOT_LEADER, OUT_OF_ORDER = 10, 6, 45


def drive(rig, delivery, broker, outcomes=(), turns=2000, until=lambda: False):
    """Turns of the sender against the broker, each answer with the next of the outcomes, until all is settled."""
    outcomes = iter(outcomes)
    for _ in range(turns):
        rig.clock.now_ms += 500
        rig.turn(1)
        for sent in [request for request in rig.client.sent if not request.pending.done]:
            assert len(sent.batches[T0]) <= rig.config.max_request_bytes or len(sent.batches) == 1
            code = next(outcomes, 0) or broker.append(sent.batches[T0])
            sent.answer(codes={T0: code} if code else None)
        if delivery.failed or until() or (not rig.leaked_bytes and delivery.flushing):
            return
    raise AssertionError("it does not end")


@pytest.mark.parametrize("transaction", [False, True])
def test_a_refused_batch_is_sent_in_pieces(transaction):
    rig = Rig()
    delivery = rig.sender.begin(TaskTransaction.open(FakeTransactions(), "p-0", 1000, 2) if transaction else None)
    values = [b"%06d" % i * 16 for i in range(30)]  # one batch of about 3 kB
    for value in values:
        rig.append(delivery, value=value)
    delivery.flushing = True
    broker = BrokerLog(1000)
    drive(rig, delivery, broker)
    delivery.raise_if_failed()
    assert broker.values == values
    assert delivery.records == 30
    stored = [batch for sent in rig.client.sent for batch in sent.batches.values() if len(batch) <= 1000]
    assert len({producer_of(batch)[:2] for batch in stored}) == 1
    assert all(is_transactional(batch) == transaction for batch in stored)


def test_one_record_too_large_fails_naming_option_and_topic_setting():
    rig = Rig()
    delivery = rig.sender.begin()
    for value in (b"s" * 10, b"l" * 1500, b"s" * 10):
        rig.append(delivery, value=value)
    delivery.flushing = True
    drive(rig, delivery, BrokerLog(1000))
    with pytest.raises(
        MessageTooLarge, match=r"one record.*the topic's max\.message\.bytes.*'kafka\.compression\.type'"
    ):
        delivery.raise_if_failed()
    rig.sender.end(delivery)
    rig.turn()
    assert rig.leaked_bytes == 0


def test_a_task_that_failed_meanwhile_has_nothing_split():
    rig = Rig()
    delivery, sent = rig.send(count=30)
    delivery.fail(RuntimeError("elsewhere"))
    sent.answer(codes={T0: TOO_LARGE})
    assert rig.turn() == []
    rig.sender.end(delivery)
    rig.turn()
    assert rig.leaked_bytes == 0


def test_a_batch_that_compression_made_grow_beyond_a_request_is_split_before_it_is_sent():
    noise = random.Random(1)
    rig = Rig(max_request_bytes=4096)
    rig.queues.new_builder = lambda buffer: BatchBuilder(buffer, codec="gzip")
    delivery = rig.sender.begin()
    values = [noise.randbytes(2006) for _ in range(6)]  # two to a batch of 4091 bytes, and gzip adds 20 or so
    for value in values:
        rig.append(delivery, value=value)
    delivery.flushing = True
    broker = BrokerLog(4096)
    drive(rig, delivery, broker)
    delivery.raise_if_failed()
    assert broker.values == values
    sizes = [len(batch) for sent in rig.client.sent for batch in sent.batches.values()]
    assert len(sizes) == 6
    assert max(sizes) <= 4096


def stored_after(rig, delivery, broker, values):
    """The numbers of records in the batches that the broker has stored of these values, and how many it has refused."""
    before = len(rig.client.sent)
    rows = RecordColumns(None, pa.array(values, pa.binary()), default_timestamp_ms=1)
    for first in range(0, len(values), 40):
        rig.accumulator.append("t", rows, None, [(0, first, min(first + 40, len(values)))], delivery)
        drive(rig, delivery, broker, until=lambda: rig.pool.in_use_bytes <= rig.config.batch_bytes)
    sent = [each.batches[T0] for each in rig.client.sent[before:]]
    counts = [producer_of(batch)[3] for batch in sent if len(batch) <= broker.max_message_bytes]
    return counts, len(sent) - len(counts)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_after_records_that_compress_badly_batches_grow_again_without_being_refused(codec):
    """In as many steps as in Kafka's CompressionRatioEstimator: from half a batch to a whole one in a hundred."""
    noise = random.Random(1)
    rig = Rig(compression=codec, linger_ms=60_000)
    broker, delivery = BrokerLog(3000), rig.sender.begin()
    well = [b"v" * 100] * 4000
    before, refused = stored_after(rig, delivery, broker, well[:400])
    assert (max(before), refused) == (37, 0)
    badly, refused = stored_after(rig, delivery, broker, [noise.randbytes(100) for _ in range(400)])
    assert (badly[-2] in (18, 19), refused) == (True, 2)
    after, refused = stored_after(rig, delivery, broker, well)
    assert (max(after[:60]), after[120], refused) == (26, 37, 0)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_topic_whose_limit_is_below_a_batch_refuses_what_is_open_then_and_no_other(codec):
    noise = random.Random(1)
    rig = Rig(compression=codec, linger_ms=60_000)
    broker, delivery = BrokerLog(3000), rig.sender.begin()
    values = [noise.randbytes(100) for _ in range(4000)]
    assert stored_after(rig, delivery, broker, values[:100])[1] == 2
    counts, refused = stored_after(rig, delivery, broker, values[100:])
    assert ({*counts[3:]} <= {18, 19}, refused) == (True, 0)


@settings(max_examples=examples(100), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 900), min_size=1, max_size=60),
    largest=st.integers(1000, 5000),
    outcomes=st.lists(st.sampled_from([0, 0, 0, NOT_LEADER]), max_size=20),
    in_flight=st.integers(1, 5),
    transaction=st.booleans(),
)
def test_whatever_is_refused_each_record_is_stored_once_and_in_order(sizes, largest, outcomes, in_flight, transaction):
    rig = Rig(buffer_memory_bytes=64 * 4096, max_in_flight=in_flight)
    delivery = rig.sender.begin(TaskTransaction.open(FakeTransactions(), "p-0", 1000, 2) if transaction else None)
    values = [b"%06d" % i + b"v" * size for i, size in enumerate(sizes)]
    for value in values:
        rig.append(delivery, value=value)
    delivery.flushing = True
    broker = BrokerLog(largest)
    drive(rig, delivery, broker, outcomes)
    delivery.raise_if_failed()
    assert broker.values == values
    assert (delivery.records, rig.leaked_bytes) == (len(values), 0)
