"""Batches fill, wait, are drained fairly and in order, and their memory is given back once."""

import threading
from array import array

import pyarrow as pa
import pytest
from kafka.record.default_records import DefaultRecordBatch
from sink_fakes import T0, T1, Rig, columns, producer_of

from kafkasource import options
from kafkasource.errors import ClientClosed, DeadlineExceeded
from kafkasource.kafka.producer.accumulator import RecordTooLarge
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.producer.delivery import Delivery
from kafkasource.kafka.producer.pool import BufferPoolExhausted
from kafkasource.kafka.records.builder import BatchBuilder, RecordColumns
from kafkasource.kafka.records.partitions import order_by_partition
from kafkasource.types import TopicPartition


def ready(rig):
    return rig.queues.ready(rig.client.metadata.leader_id, rig.clock())


def ready_nodes(rig):
    return set(ready(rig).nodes)


def test_a_batch_that_is_neither_full_nor_flushed_waits_for_linger():
    rig, delivery = Rig(linger_ms=5), Delivery()
    rig.append(delivery)
    assert ready_nodes(rig) == set()
    assert ready(rig).next_check_delay_ms == 5
    delivery.flushing = True
    assert ready_nodes(rig) == {1}
    delivery.flushing = False
    rig.clock.now_ms += 5
    assert ready_nodes(rig) == {1}
    rig.drain()
    rig.append(Delivery(), T1, count=100)  # 100 x > 100 B into batches of 4096 B
    assert ready_nodes(rig) == {1}


def test_the_sender_is_woken_for_a_batch_only_if_it_would_look_too_late():
    rig, delivery, wakes = Rig(linger_ms=5), Delivery(), []
    rig.client.wakeup = lambda: wakes.append(rig.clock.now_ms)
    rig.append(delivery)
    assert len(wakes) == 1, "the sender has no reason to look"
    ready(rig)
    rig.append(delivery, T1)
    assert len(wakes) == 1, "it looks before T1 has lingered"
    rig.append(delivery, T1, count=37)
    assert len(wakes) == 2, "T1's first batch is full"
    delivery.flushing = True
    while rig.drain():
        pass
    ready(rig)
    rig.append(Delivery())
    assert len(wakes) == 3, "nothing waited any more"


def test_nobody_lingers_while_a_caller_waits_for_memory():
    rig = Rig(linger_ms=60_000, buffer_memory_bytes=4096)
    rig.append(Delivery())
    assert ready_nodes(rig) == set()
    in_line = threading.Event()
    waiter = threading.Thread(target=rig.pool.allocate, args=(4096, 60_000, in_line.set), daemon=True)
    waiter.start()
    in_line.wait()
    assert ready_nodes(rig) == {1}
    (batch,) = rig.drain()
    rig.settle(batch)
    waiter.join()


def test_rows_beyond_one_batch_go_on_in_the_next_and_none_is_lost():
    rig = Rig()
    rig.append(Delivery(), count=100)
    counts = []
    for batch, encoded in rig.sent_and_settled():
        assert len(encoded) <= 4096
        counts.append(batch.record_count)
    assert sum(counts) == 100
    assert len(counts) == 3
    assert rig.leaked_bytes == 0


def test_small_appends_share_a_batch_but_not_those_of_two_tasks():
    rig, first = Rig(), Delivery()
    for _ in range(10):
        rig.append(first)
    rig.append(Delivery())
    (batch,) = rig.drain()
    assert (batch.delivery, batch.builder.record_count) == (first, 10)


def test_batches_of_a_partition_follow_each_other_into_flight_up_to_the_limit():
    rig = Rig(max_in_flight=2)
    rig.append(Delivery(), count=130)  # four batches
    first, second = (rig.drain()[0] for _ in range(2))
    assert rig.drain() == []
    rig.settle(first)
    (third,) = rig.drain()
    assert [batch.number for batch in (first, second, third)] == [0, 37, 74], "by the records before them"


def test_a_task_waits_for_what_another_has_in_flight_to_the_partition():
    rig, before, after = Rig(), Delivery(), Delivery()
    rig.append(before)
    (batch,) = rig.drain()
    rig.append(after)
    assert rig.drain() == []
    rig.settle(batch)
    assert rig.drain()[0].delivery is after


def ready_under(rig, producer_id):
    return set(rig.queues.ready(rig.client.metadata.leader_id, rig.clock(), producer_id).nodes)


def test_a_new_producer_id_waits_for_what_is_in_flight_under_the_old_one():
    rig = Rig()
    rig.append(Delivery(), count=100)
    first, second = (rig.drain()[0] for _ in range(2))
    first.close(1000, 0, 0)
    second.close(1000, 0, 40)
    rig.settle(first)
    assert ready_under(rig, 1001) == set()
    assert ready_under(rig, 1000) == {1}


def test_the_first_batch_under_a_producer_id_goes_alone_until_the_broker_knows_the_id():
    """Else the broker might refuse it, store the second, and then never take the first."""
    rig = Rig()
    rig.append(Delivery(), count=100)
    (first,) = rig.drain()
    first.close(1000, 0, 0)
    assert ready_under(rig, 1000) == set()
    rig.settle(first)
    (second,) = rig.drain()
    second.close(1000, 0, 40)
    assert ready_under(rig, 1000) == {1}


def test_a_batch_that_was_refused_has_not_made_the_producer_id_known():
    rig = Rig()
    rig.append(Delivery(), count=130)
    (first,) = rig.drain()
    first.close(1000, 0, 0)
    rig.settle(first, stored=False)
    (second,) = rig.drain()
    second.close(1000, 0, 37)
    assert ready_under(rig, 1000) == set()


def sent(rig, batches):
    for batch in batches:
        batch.close(-1, -1, -1)
        batch.attempts, batch.last_attempt_ms = 1, rig.clock()
    return batches


def test_a_batch_put_back_goes_out_first_after_its_backoff():
    rig = Rig(retry_backoff_ms=100)
    rig.append(Delivery(), count=100)
    (batch,) = sent(rig, rig.drain())
    rig.queues.put_back(batch)
    assert rig.drain() == []
    assert ready(rig).next_check_delay_ms == 100
    rig.clock.now_ms += 100
    assert rig.drain() == [batch]


@pytest.mark.parametrize("returned", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)])
def test_batches_put_back_in_any_order_are_sent_again_one_by_one_in_the_order_of_before(returned):
    rig = Rig(retry_backoff_ms=100)
    rig.append(Delivery(), count=130)
    flown = [sent(rig, rig.drain())[0] for _ in range(3)]
    for i in returned:
        rig.queues.put_back(flown[i])
    rig.clock.now_ms += 100
    for expected in flown[:2]:
        assert rig.drain() == [expected]
        assert rig.drain() == []
        rig.settle(expected)
    assert rig.drain() == [flown[2]]
    assert rig.drain()[0].number > flown[2].number, "what was never sent needs not wait for an answer"


def test_a_batch_put_back_goes_before_later_ones_that_are_still_in_flight():
    rig = Rig(retry_backoff_ms=0)
    rig.append(Delivery(), count=100)
    first, second = (sent(rig, rig.drain())[0] for _ in range(2))
    rig.queues.put_back(first)
    assert not rig.queues.is_next(second)
    assert rig.drain() == [first]
    assert rig.queues.is_next(first)


def test_a_drain_stops_at_the_request_size_and_the_next_goes_on_there():
    partitions = [TopicPartition("t", i) for i in range(4)]
    rig = Rig(dict.fromkeys(partitions, 1), max_request_bytes=8192)
    delivery = Delivery()
    for tp in partitions:
        rig.append(delivery, tp, count=90)
    taken = [[batch.topic_partition for batch in rig.drain()] for _ in range(4)]
    assert taken == [partitions[:2], partitions[2:], partitions[:2], partitions[2:]]


def test_one_call_fills_the_batches_of_all_partitions():
    partitions = [TopicPartition("t", i) for i in range(8)]
    rig, delivery = Rig(dict.fromkeys(partitions, 1), buffer_memory_bytes=64 * 4096), Delivery()
    values = [b"%d" % i * 40 for i in range(400)]
    rows = RecordColumns(None, pa.array(values, pa.binary()), default_timestamp_ms=1)
    for first in (0, 1):  # into new batches, then into open and further ones
        order, spans = order_by_partition(array("i", [(i * 7 + first) % 8 for i in range(400)]), 8)
        rig.accumulator.append("t", rows, order, spans, delivery)
    found = {tp: [] for tp in partitions}
    for batch, encoded in rig.sent_and_settled():
        found[batch.topic_partition] += [record.value for record in DefaultRecordBatch(encoded)]
    for tp in partitions:
        expected = [v for f in (0, 1) for i, v in enumerate(values) if (i * 7 + f) % 8 == tp.partition]
        assert found[tp] == expected
    assert rig.leaked_bytes == 0


def test_batches_shrink_so_that_every_partition_can_have_one():
    partitions = [TopicPartition("t", i) for i in range(100)]
    memory = 100 * 40_000
    rig = Rig(dict.fromkeys(partitions, 1), batch_bytes=100_000, buffer_memory_bytes=memory, linger_ms=60_000)
    rows = columns(100)
    rig.accumulator.append("t", rows, None, [(i, i, i + 1) for i in range(100)], Delivery())
    assert ready(rig).nodes == {}, "nobody had to make room"
    assert rig.leaked_bytes == memory // 2
    rig.append(Delivery(), TopicPartition("u", 0))


def test_a_batch_that_is_being_filled_is_left_alone():
    rig, delivery = Rig(), Delivery()
    rig.append(delivery)
    queue = ready(rig).nodes[1]
    queue[0].waiting[0].appending = True
    assert rig.queues.drain(queue) == []
    assert ready(rig).nodes == {}
    assert ready(rig).next_check_delay_ms is not None
    delivery.fail(RuntimeError("given up"))
    assert rig.queues.take_of({delivery}) == []
    assert rig.queues.take_expired(rig.clock() + 10**9) == []


def test_each_broker_gets_its_own_partitions():
    rig = Rig({T0: 1, T1: 2})
    delivery = Delivery()
    rig.append(delivery, T0)
    rig.append(delivery, T1)
    assert [[batch.topic_partition for batch in rig.drain(node)] for node in (1, 2)] == [[T0], [T1]]


def test_a_partition_without_a_leader_is_reported_not_drained_even_while_its_batch_lingers():
    rig = Rig({T0: None}, linger_ms=1000)
    rig.append(Delivery())
    for _ in range(2):
        assert ready(rig).unknown_leader_topics == {"t"}
        assert rig.drain() == []
        rig.clock.now_ms += 1000


def test_a_record_larger_than_a_batch_gets_a_buffer_of_its_own():
    rig = Rig()
    rig.append(Delivery(), value=b"x" * 10_000)
    (batch,) = rig.drain()
    batch.close(7, 0, 3)
    assert len(batch.encoded) > 10_000
    assert producer_of(batch.encoded) == (7, 0, 3, 1)
    rig.queues.release(batch)
    assert rig.leaked_bytes == 0


def test_a_batch_size_of_zero_gives_each_record_a_batch_of_its_own_in_order():
    parsed = options.parse({"kafka.bootstrap.servers": "localhost:9092", "kafka.batch.size": "0"}, "sink")
    config = ProducerConfig.from_options(parsed)
    rig = Rig(batch_bytes=config.batch_bytes)
    values = [b"%d" % number for number in range(20)]
    rig.accumulator.append("t", RecordColumns(None, pa.array(values)), None, [(0, 0, 20)], Delivery())
    sent = [[record.value for record in DefaultRecordBatch(encoded)] for _, encoded in rig.sent_and_settled()]
    assert sent == [[value] for value in values]
    assert rig.leaked_bytes == 0


def test_a_record_larger_than_a_request_is_refused_naming_the_options():
    rig = Rig(max_request_bytes=5000)
    with pytest.raises(RecordTooLarge) as caught:
        rig.append(Delivery(), value=b"x" * 10_000)
    assert "kafka.max.request.size" in str(caught.value)
    assert "max.message.bytes" in str(caught.value)
    assert "xxx" not in str(caught.value)
    assert rig.leaked_bytes == 0


def test_full_memory_is_an_error_after_max_block_ms():
    rig = Rig(buffer_memory_bytes=2 * 4096)
    with pytest.raises(DeadlineExceeded, match=r"kafka\.buffer\.memory"):
        rig.append(Delivery(), count=200)


def test_full_memory_says_who_holds_it():
    rig = Rig(buffer_memory_bytes=3 * 4096)
    rig.append(Delivery(), T1)
    with pytest.raises(BufferPoolExhausted) as caught:
        rig.append(Delivery(), count=200)
    assert "of 12288 bytes 12288 are in use in 3 buffers" in str(caught.value)
    assert "held by t-0 (2 batches wait, 0 in flight); t-1 (1 batches wait, 0 in flight)" in str(caught.value)


def test_nobody_lingers_when_the_accumulator_closes_and_no_row_comes_in_any_more():
    rig, delivery = Rig(linger_ms=60_000), Delivery()
    rig.append(delivery)
    assert ready_nodes(rig) == set()
    rig.queues.close()
    assert ready_nodes(rig) == {1}
    with pytest.raises(ClientClosed):
        rig.append(delivery)
    (batch,) = rig.drain()
    rig.settle(batch)
    assert rig.leaked_bytes == 0


def test_a_closed_accumulator_tells_the_task_why_the_sender_ended():
    rig, delivery = Rig(linger_ms=60_000), Delivery()
    rig.append(delivery)
    delivery.fail(RuntimeError("two clusters"))
    rig.queues.close()
    with pytest.raises(RuntimeError, match="two clusters"):
        rig.append(delivery)


def test_ten_thousand_appends_that_fail_leak_nothing():
    """In every way an append can fail: a row that cannot be encoded, too large, no memory, no builder, a dead task."""
    rig = Rig(buffer_memory_bytes=4 * 4096, max_request_bytes=8192)
    bad = RecordColumns(pa.array([b"k"]), pa.array([b"v"]), pa.array([2**62], pa.int64()))
    full, fits = columns(500), columns(1)

    def no_builder(buffer):
        raise OSError("no builder")

    ways = [
        (bad, ValueError),
        (columns(1, b"x" * 9000), RecordTooLarge),
        (full, BufferPoolExhausted),
        (fits, InterruptedError),
        (fits, OSError),
    ]
    for i in range(10_000):
        (rows, error), delivery = ways[i % 5], Delivery()
        if error is InterruptedError:
            delivery.fail(InterruptedError())
        rig.queues.new_builder = no_builder if error is OSError else BatchBuilder
        with pytest.raises(error):
            rig.accumulator.append("t", rows, None, [(0, 0, rows.count)], delivery)
        delivery.fail(RuntimeError("given up"))
        for batch in rig.queues.take_of({delivery}):
            rig.queues.release(batch)
        assert rig.leaked_bytes == 0
    assert rig.queues._partitions == {}


def test_a_task_that_failed_while_it_waited_for_memory_opens_no_batch():
    rig, delivery = Rig(buffer_memory_bytes=4096, max_block_ms=60_000), Delivery()
    held = rig.pool.allocate(4096, 0)

    def fail_and_make_room():
        delivery.fail(RuntimeError("interrupted"))
        threading.Thread(target=rig.pool.deallocate, args=(held,), daemon=True).start()

    rig.client.wakeup = fail_and_make_room
    with pytest.raises(RuntimeError, match="interrupted"):
        rig.append(delivery)
    assert rig.leaked_bytes == 0


def test_where_memory_is_there_for_some_partitions_of_an_append_the_others_rows_wait_for_theirs():
    rig, delivery = Rig(buffer_memory_bytes=2 * 4096, max_block_ms=60_000), Delivery()
    held = rig.pool.allocate(4096, 0)  # one more buffer is there, and not two

    def make_room():
        rig.client.wakeup = lambda: None
        threading.Thread(target=rig.pool.deallocate, args=(held,), daemon=True).start()

    rig.client.wakeup = make_room
    rig.accumulator.append("t", columns(2), None, [(0, 0, 1), (1, 1, 2)], delivery)
    delivery.flushing = True
    assert [batch.topic_partition for batch, _ in rig.sent_and_settled()] == [T0, T1]
    assert rig.leaked_bytes == 0


def test_a_failed_delivery_takes_no_more_rows():
    rig, delivery = Rig(), Delivery()
    delivery.fail(RuntimeError("boom"))
    with pytest.raises(RuntimeError, match="boom"):
        rig.append(delivery)
    assert rig.leaked_bytes == 0


def test_waiting_batches_of_failed_tasks_and_old_ones_are_taken_out():
    rig = Rig(delivery_timeout_ms=1000)
    failing, old, fresh = Delivery(), Delivery(), Delivery()
    rig.append(old)
    rig.clock.now_ms += 600
    rig.append(failing)
    rig.append(fresh)
    assert rig.queues.take_expired(rig.clock() + 399) == []
    assert [batch.delivery for batch in rig.queues.take_expired(rig.clock() + 400)] == [old]
    assert [batch.delivery for batch in rig.queues.take_of({failing})] == [failing]
    assert rig.queues.next_expiry_ms() == rig.clock() + 1000
