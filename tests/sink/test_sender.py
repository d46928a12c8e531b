"""Every record is acknowledged or its task fails; copies are the same bytes; memory comes back; tasks do not meet."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sink_fakes import T0, T1, Rig, producer_of

from kafkasource.errors import (
    BootstrapFailed,
    BrokerError,
    ConnectionLost,
    DeadlineExceeded,
    MessageTooLarge,
    TopicAuthorizationFailed,
)

NOT_LEADER, TIMED_OUT, OUT_OF_ORDER, DUPLICATE, UNKNOWN_PRODUCER, TOO_LARGE, INVALID_RECORD = 6, 7, 45, 46, 59, 10, 87


def error_of(delivery):
    assert delivery.failed
    return delivery.error


def test_an_acknowledged_batch_tells_records_bytes_and_last_offset():
    rig = Rig()
    delivery = rig.sender.begin()
    rig.append(delivery, count=10)
    (sent,) = rig.turn()
    sent.answer({T0: 500})
    rig.turn()
    delivery.wait(lambda: True)
    assert (delivery.records, delivery.last_offsets) == (10, {T0: 509})
    assert delivery.bytes == len(sent.batches[T0])
    assert rig.leaked_bytes == 0


def test_the_request_asks_for_all_replicas_and_names_no_transaction():
    rig = Rig()
    rig.append(rig.sender.begin())
    (sent,) = rig.turn()
    assert sent.body["acks"] == -1
    assert sent.body["transactional_id"] is None
    assert sent.body["timeout_ms"] == 30_000


def test_sequences_go_on_per_partition():
    rig = Rig()
    delivery = rig.sender.begin()
    for tp, count in [(T0, 3), (T1, 5), (T0, 2)]:
        rig.append(delivery, tp, count)
        (sent,) = rig.turn()
        sent.answer()
        rig.turn()
    found = [producer_of(batch) for sent in rig.client.sent for batch in sent.batches.values()]
    assert found == [(1000, 0, 0, 3), (1000, 0, 0, 5), (1000, 0, 3, 2)]


def test_without_idempotence_no_producer_id_is_asked_for():
    rig = Rig(idempotent=False, acks=1)
    rig.append(rig.sender.begin())
    (sent,) = rig.turn(1)
    assert producer_of(sent.batches[T0]) == (-1, -1, -1, 1)
    assert rig.client.inits == 0


def test_acks_0_expects_no_response():
    rig = Rig(idempotent=False, acks=0)
    delivery = rig.sender.begin()
    rig.append(delivery)
    (sent,) = rig.turn(1)
    assert not sent.expect_response
    sent.pending.body, sent.pending.done = {}, True
    rig.turn()
    delivery.wait(lambda: True)
    assert (delivery.records, delivery.last_offsets) == (1, {})


@pytest.mark.parametrize("code", [NOT_LEADER, TIMED_OUT, 2, 3, 5, 19, 20, 56, 74])
def test_a_retriable_error_sends_the_same_bytes_again(code):
    rig = Rig()
    delivery = rig.sender.begin()
    rig.append(delivery, count=3)
    (first,) = rig.turn()
    first.answer(codes={T0: code})
    assert rig.turn() == []  # backing off
    rig.clock.now_ms += rig.config.retry_backoff_ms
    (second,) = rig.turn()
    assert second.batches == first.batches
    second.answer({T0: 7})
    rig.turn()
    delivery.wait(lambda: True)
    assert delivery.last_offsets == {T0: 9}
    assert rig.leaked_bytes == 0


def test_a_moved_leader_is_found_before_the_retry():
    rig = Rig()
    rig.append(rig.sender.begin())
    (first,) = rig.turn()
    first.answer(codes={T0: NOT_LEADER})
    rig.turn()
    assert rig.client.metadata.updates_requested
    rig.client.metadata.leaders[T0] = 2
    rig.clock.now_ms += 1000
    (second,) = rig.turn()
    assert (first.node_id, second.node_id) == (1, 2)


def test_a_lost_connection_sends_the_same_bytes_again():
    rig = Rig()
    delivery = rig.sender.begin()
    rig.append(delivery)
    (first,) = rig.turn()
    first.fail(ConnectionLost("gone"))
    rig.clock.now_ms += 1000
    (second,) = rig.turn(5)
    assert second.batches == first.batches
    second.answer(codes={T0: DUPLICATE})  # the first had arrived after all
    rig.turn()
    delivery.wait(lambda: True)
    assert delivery.records == 1


def test_later_rows_of_a_partition_wait_for_the_retried_ones():
    rig = Rig()
    delivery = rig.sender.begin()
    rig.append(delivery, count=100)  # three batches
    sequences = []
    for fails in (1, 0, 1, 0, 0):
        rig.clock.now_ms += 1000
        (sent,) = rig.turn(5)
        if fails:
            sent.answer(codes={T0: TIMED_OUT})
        else:
            sequences.append(producer_of(sent.batches[T0])[2:])
            sent.answer()
    rig.turn()
    delivery.wait(lambda: True)
    assert [base for base, _ in sequences] == [0, sequences[0][1], sequences[0][1] + sequences[1][1]]
    assert sum(count for _, count in sequences) == 100


def test_only_the_partition_that_failed_is_sent_again():
    rig = Rig()
    delivery = rig.sender.begin()
    rig.append(delivery, T0)
    rig.append(delivery, T1)
    (sent,) = rig.turn()
    sent.answer({T1: 3}, codes={T0: NOT_LEADER})
    rig.clock.now_ms += 1000
    (again,) = rig.turn(5)
    assert list(again.batches) == [T0]
    assert delivery.last_offsets == {T1: 3}


def test_a_response_that_leaves_a_partition_out_is_no_acknowledgement():
    rig = Rig()
    delivery = rig.sender.begin()
    rig.append(delivery)
    (sent,) = rig.turn()
    sent.pending.body, sent.pending.done = {"responses": [], "throttle_time_ms": 0}, True
    rig.clock.now_ms += 1000
    (again,) = rig.turn(5)
    assert again.batches == sent.batches
    assert delivery.records == 0


@pytest.mark.parametrize("code", [OUT_OF_ORDER, UNKNOWN_PRODUCER, 47, 29, INVALID_RECORD, 17])
def test_a_fatal_error_fails_the_task_and_gives_the_memory_back(code):
    rig = Rig()
    delivery = rig.sender.begin()
    rig.append(delivery)
    (sent,) = rig.turn()
    sent.answer(codes={T0: code})
    rig.turn()
    error = error_of(delivery)
    assert isinstance(error, BrokerError)
    assert error.code == code
    assert "t-0" in str(error)
    assert rig.leaked_bytes == 0


def test_sequences_of_a_batch_given_up_are_never_used_again():
    rig = Rig()
    failing = rig.sender.begin()
    rig.append(failing, count=3)
    rig.append(failing, T1, count=2)
    (sent,) = rig.turn()
    sent.answer(codes={T0: INVALID_RECORD})
    rig.turn()
    rig.sender.end(failing)
    rig.append(rig.sender.begin(), count=1)
    (after,) = rig.turn(5)
    assert producer_of(after.batches[T0]) == (1001, 0, 0, 1)


def test_a_too_large_batch_names_both_ways_out():
    rig = Rig()
    delivery = rig.sender.begin()
    rig.append(delivery, count=5)
    (sent,) = rig.turn()
    sent.answer(codes={T0: TOO_LARGE})
    rig.turn()
    error = error_of(delivery)
    assert isinstance(error, MessageTooLarge)
    assert "kafka.batch.size" in str(error)
    assert "max.message.bytes" in str(error)


def test_refused_records_are_told_by_index_and_the_brokers_text():
    rig = Rig()
    delivery = rig.sender.begin()
    rig.append(delivery, count=5)
    (sent,) = rig.turn()
    errors = [{"batch_index": 3, "batch_index_error_message": "no key"}]
    sent.answer(codes={T0: INVALID_RECORD}, record_errors=errors, error_message="compacted topic")
    rig.turn()
    assert "[3]" in str(error_of(delivery))
    assert "compacted topic" in str(error_of(delivery))


def test_what_is_not_delivered_in_time_fails_naming_option_and_last_error():
    rig = Rig(delivery_timeout_ms=5000)
    delivery = rig.sender.begin()
    rig.append(delivery)
    for _ in range(8):
        for sent in rig.turn():
            sent.answer(codes={T0: NOT_LEADER})
        rig.clock.now_ms += 1000
    rig.turn()
    error = error_of(delivery)
    assert isinstance(error, DeadlineExceeded)
    assert "kafka.delivery.timeout.ms" in str(error)
    assert "NOT_LEADER_OR_FOLLOWER" in str(error)
    assert rig.leaked_bytes == 0


def test_in_flight_past_the_deadline_fails_the_task_but_keeps_the_buffer_until_the_reply():
    rig = Rig(delivery_timeout_ms=5000)
    delivery = rig.sender.begin()
    rig.append(delivery)
    (sent,) = rig.turn()
    rig.clock.now_ms += 5000
    rig.turn()
    assert isinstance(error_of(delivery), DeadlineExceeded)
    assert rig.leaked_bytes == 4096
    sent.answer()
    rig.turn()
    assert rig.leaked_bytes == 0


def test_a_failed_task_leaves_no_trace_in_the_next():
    rig = Rig()
    failing = rig.sender.begin()
    rig.append(failing, count=100, value=b"old" * 40)
    (in_flight,) = rig.turn()
    failing.fail(RuntimeError("the task was interrupted"))
    rig.sender.end(failing)
    following = rig.sender.begin()
    rig.append(following, value=b"new")
    assert rig.turn() == []  # muted by what is still in flight
    in_flight.fail(ConnectionLost("gone"))
    rig.clock.now_ms += 1000
    (sent,) = rig.turn(5)
    assert b"old" not in sent.batches[T0]
    sent.answer({T0: 40})
    rig.turn()
    following.wait(lambda: True)
    assert following.last_offsets == {T0: 40}
    assert rig.leaked_bytes == 0


def test_no_more_requests_in_flight_than_allowed():
    rig = Rig(max_in_flight=1, max_request_bytes=4096)
    delivery = rig.sender.begin()
    rig.append(delivery, T0, count=38)
    rig.append(delivery, T1, count=38)
    (first,) = rig.turn(5)
    assert list(first.batches) == [T0]
    first.answer()
    (second,) = rig.turn(5)
    assert list(second.batches) == [T1]


def test_a_producer_id_is_asked_for_again_while_that_can_help():
    rig = Rig()
    rig.client.init_codes = [14, 15]
    rig.append(rig.sender.begin())
    for _ in range(3):
        assert rig.client.sent == []
        rig.turn(1)
        rig.clock.now_ms += 1000
    (sent,) = rig.turn(2)
    assert producer_of(sent.batches[T0])[0] == 1000


def test_a_refused_producer_id_fails_the_task_at_once():
    rig = Rig()
    rig.client.init_codes = [31]
    delivery = rig.sender.begin()
    rig.append(delivery)
    rig.turn()
    assert error_of(delivery).code == 31
    assert rig.leaked_bytes == 0


def test_an_unknown_leader_asks_for_metadata_and_waits():
    rig = Rig({T0: None})
    rig.append(rig.sender.begin())
    assert rig.turn() == []
    assert rig.client.metadata.updates_requested
    assert max(rig.client.polls) <= rig.config.retry_backoff_ms


def test_an_idle_sender_sleeps():
    rig = Rig()
    rig.turn()
    assert min(rig.client.polls) >= 1000


def test_an_unknown_topic_gets_the_words_of_the_jvm_connector():
    rig = Rig()
    rig.client.metadata.topic_errors["nope"] = 3
    with pytest.raises(DeadlineExceeded, match="Topic nope not present in metadata after 0 ms"):
        rig.sender.await_topic("nope")


def test_no_broker_at_all_lists_what_was_tried():
    rig = Rig({})
    rig.client.bootstrap_errors = {"localhost:9092": "connection refused"}
    with pytest.raises(BootstrapFailed, match="localhost:9092: connection refused"):
        rig.sender.await_topic("t")


def awaiting(rig, topic):
    """`await_topic` in a task's thread while the test turns the sender; its outcome after join()."""
    outcome = []

    def wait():
        try:
            outcome.append(rig.sender.await_topic(topic))
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    while topic not in rig.client.metadata.wanted:
        rig.sender.run_once()
    return thread, outcome


def test_a_topic_that_appears_is_waited_for():
    rig = Rig(max_block_ms=60_000)
    thread, outcome = awaiting(rig, "new")
    rig.client.metadata.leaders[T0.__class__("new", 0)] = 1
    while thread.is_alive():
        rig.sender.run_once()
    assert list(outcome[0].partitions) == [0]


def test_a_missing_permission_is_told_at_once_but_not_an_old_one():
    rig = Rig(max_block_ms=60_000)
    rig.client.metadata.topic_errors["secret"] = 29  # before this task asked
    thread, outcome = awaiting(rig, "secret")
    assert outcome == []
    rig.client.metadata.version += 1
    while thread.is_alive():
        rig.sender.run_once()
    assert isinstance(outcome[0], TopicAuthorizationFailed)


def test_a_broken_sender_fails_tasks_now_and_later():
    rig = Rig()
    delivery = rig.sender.begin()
    rig.append(delivery)
    rig.sender.fail_all(RuntimeError("bug"), for_good=True)
    assert str(error_of(delivery)) == "bug"
    with pytest.raises(RuntimeError, match="bug"):
        rig.sender.begin()


@settings(max_examples=60, deadline=None)
@given(
    appends=st.lists(st.tuples(st.sampled_from([T0, T1]), st.integers(1, 60)), min_size=1, max_size=8),
    outcomes=st.lists(
        st.sampled_from(["ok", "ok", "ok", NOT_LEADER, TIMED_OUT, "lost", "lost after append"]), max_size=30
    ),
)
def test_whatever_is_lost_on_the_way_each_record_is_stored_once_and_in_order(appends, outcomes):
    """The fake broker keeps sequences as Kafka does: a repeated batch is answered as before, a gap is refused."""
    rig = Rig(buffer_memory_bytes=64 * 4096)
    delivery = rig.sender.begin()
    expected = {T0: 0, T1: 0}
    for tp, count in appends:
        rig.append(delivery, tp, count)
        expected[tp] += count
    delivery.flushing = True
    log = {T0: 0, T1: 0}  # records stored
    last = {}  # partition -> (sequence, offset) of the last batch
    outcomes = iter(outcomes)
    answered = 0
    for _ in range(400):
        rig.clock.now_ms += 500
        rig.turn(1)
        for sent in rig.client.sent[answered:]:
            answered += 1
            outcome = next(outcomes, "ok")
            codes, offsets = {}, {}
            for tp, batch in sent.batches.items():
                if outcome not in ("ok", "lost after append"):
                    codes[tp] = outcome
                    continue
                _, _, sequence, count = producer_of(batch)
                if tp in last and last[tp][0] == sequence:
                    offsets[tp] = last[tp][1]
                elif sequence != log[tp]:
                    codes[tp] = OUT_OF_ORDER
                else:
                    last[tp], offsets[tp] = (sequence, log[tp]), log[tp]
                    log[tp] += count
            if outcome in ("lost", "lost after append"):
                sent.fail(ConnectionLost("gone"))
            else:
                sent.answer(offsets, codes)
        if delivery.failed or delivery.records == sum(expected.values()):
            break
    delivery.raise_if_failed()
    assert log == expected
    assert delivery.last_offsets == {tp: count - 1 for tp, count in expected.items() if count}
    rig.turn()
    assert rig.leaked_bytes == 0
