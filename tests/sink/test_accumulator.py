"""Batches fill, wait, are drained fairly and in order, and their memory is given back once."""

import threading

import pytest
from sink_fakes import T0, T1, Rig, producer_of

from kafkasource.errors import DeadlineExceeded
from kafkasource.sink.accumulator import RecordTooLarge
from kafkasource.sink.delivery import Delivery
from kafkasource.types import TopicPartition


def ready(rig):
    return rig.accumulator.ready(rig.client.metadata.leader_id, rig.clock())


def drain(rig, *nodes):
    return rig.accumulator.drain(rig.client.metadata.leader_id, set(nodes), rig.clock())


def test_a_batch_that_is_not_full_waits_for_linger():
    rig = Rig(linger_ms=5)
    rig.append(Delivery())
    assert ready(rig).nodes == set()
    assert ready(rig).next_check_delay_ms == 5
    rig.clock.now_ms += 5
    assert ready(rig).nodes == {1}


def test_a_full_batch_does_not_wait():
    rig = Rig(linger_ms=5)
    rig.append(Delivery(), count=100)  # 100 x > 100 B into batches of 4096 B
    assert ready(rig).nodes == {1}


def test_a_flushed_batch_does_not_wait():
    rig, delivery = Rig(linger_ms=5), Delivery()
    rig.append(delivery)
    delivery.flushing = True
    assert ready(rig).nodes == {1}


def test_nobody_lingers_while_a_caller_waits_for_memory():
    rig = Rig(linger_ms=60_000, buffer_memory_bytes=4096)
    rig.append(Delivery())
    assert ready(rig).nodes == set()
    in_line = threading.Event()
    waiter = threading.Thread(target=rig.pool.allocate, args=(4096, 60_000, in_line.set), daemon=True)
    waiter.start()
    in_line.wait()
    assert ready(rig).nodes == {1}
    (batch,) = drain(rig, 1)[1]
    rig.accumulator.release(batch)
    waiter.join()


def test_rows_beyond_one_batch_go_on_in_the_next_and_none_is_lost():
    rig = Rig()
    rig.append(Delivery(), count=100)
    counts = []
    while drained := drain(rig, 1):
        (batch,) = drained[1]
        batch.close(-1, -1, -1)
        assert len(batch.encoded) <= 4096
        counts.append(batch.record_count)
        rig.accumulator.release(batch)
        rig.accumulator.unmute(T0)
    assert sum(counts) == 100
    assert len(counts) == 3
    assert rig.leaked_bytes == 0


def test_small_appends_share_a_batch():
    rig, delivery = Rig(), Delivery()
    for _ in range(10):
        rig.append(delivery)
    (batch,) = drain(rig, 1)[1]
    assert batch.builder.record_count == 10


def test_two_tasks_never_share_a_batch():
    rig, first, second = Rig(), Delivery(), Delivery()
    rig.append(first)
    rig.append(second)
    (batch,) = drain(rig, 1)[1]
    assert (batch.delivery, batch.builder.record_count) == (first, 1)


def test_a_partition_with_a_batch_in_flight_is_muted():
    rig = Rig()
    rig.append(Delivery(), count=100)
    assert len(drain(rig, 1)[1]) == 1
    assert drain(rig, 1) == {}
    assert ready(rig).nodes == set()
    rig.accumulator.unmute(T0)
    assert len(drain(rig, 1)[1]) == 1


def test_a_batch_put_back_goes_out_first_after_its_backoff():
    rig = Rig(retry_backoff_ms=100)
    rig.append(Delivery(), count=100)
    (batch,) = drain(rig, 1)[1]
    batch.close(-1, -1, -1)
    batch.attempts, batch.last_attempt_ms = 1, rig.clock()
    rig.accumulator.put_back(batch)
    assert drain(rig, 1) == {}
    assert ready(rig).next_check_delay_ms == 100
    rig.clock.now_ms += 100
    assert drain(rig, 1)[1] == [batch]


def test_a_drain_stops_at_the_request_size_and_the_next_goes_on_there():
    partitions = [TopicPartition("t", i) for i in range(4)]
    rig = Rig(dict.fromkeys(partitions, 1), max_request_bytes=8192)
    delivery = Delivery()
    for tp in partitions:
        rig.append(delivery, tp, count=90)
    first = [batch.topic_partition for batch in drain(rig, 1)[1]]
    for tp in first:
        rig.accumulator.unmute(tp)
    second = [batch.topic_partition for batch in drain(rig, 1)[1]]
    assert first == partitions[:2]
    assert second == partitions[2:]


def test_each_broker_gets_its_own_partitions():
    rig = Rig({T0: 1, T1: 2})
    delivery = Delivery()
    rig.append(delivery, T0)
    rig.append(delivery, T1)
    drained = drain(rig, 1, 2)
    assert {node: [b.topic_partition for b in batches] for node, batches in drained.items()} == {1: [T0], 2: [T1]}


def test_a_partition_without_a_leader_is_reported_not_drained():
    rig = Rig({T0: None})
    rig.append(Delivery())
    assert ready(rig).unknown_leader_topics == {"t"}
    assert drain(rig, 1) == {}


def test_a_record_larger_than_a_batch_gets_a_buffer_of_its_own():
    rig = Rig()
    rig.append(Delivery(), value=b"x" * 10_000)
    (batch,) = drain(rig, 1)[1]
    batch.close(7, 0, 3)
    assert len(batch.encoded) > 10_000
    assert producer_of(batch.encoded) == (7, 0, 3, 1)
    rig.accumulator.release(batch)
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


def test_a_failed_delivery_takes_no_more_rows():
    rig, delivery = Rig(), Delivery()
    delivery.fail(RuntimeError("boom"))
    with pytest.raises(RuntimeError, match="boom"):
        rig.append(delivery)
    assert rig.leaked_bytes == 0


def test_doomed_batches_are_those_of_failed_tasks_and_old_ones():
    rig = Rig(delivery_timeout_ms=1000)
    failing, old, fresh = Delivery(), Delivery(), Delivery()
    rig.append(old)
    rig.clock.now_ms += 600
    rig.append(failing)
    rig.append(fresh)
    failing.fail(RuntimeError("boom"))
    rig.clock.now_ms += 400
    doomed = rig.accumulator.take_doomed(rig.clock())
    assert [batch.delivery for batch in doomed] == [old, failing]
    assert rig.accumulator.next_expiry_ms() == rig.clock() + 600
