"""Every record is acknowledged or its task fails; copies are the same bytes; memory comes back; tasks do not meet."""

import threading

import pytest
from broker_log import BrokerLog
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch
from random_inputs import examples
from sink_fakes import T0, T1, Rig, producer_of

from kafkasource.errors import (
    BootstrapFailed,
    BootstrapHopeless,
    BrokerError,
    ConnectionLost,
    DeadlineExceeded,
    TopicAuthorizationFailed,
)
from kafkasource.types import TopicPartition

NOT_LEADER, TIMED_OUT, OUT_OF_ORDER, DUPLICATE, UNKNOWN_PRODUCER, INVALID_RECORD = 6, 7, 45, 46, 59, 87


def error_of(delivery):
    assert delivery.failed
    return delivery.error


def test_an_acknowledged_batch_tells_records_bytes_and_last_offset():
    rig = Rig()
    delivery, sent = rig.send(count=10)
    rig.answer(sent, {T0: 500})
    delivery.wait(lambda: True)
    assert (delivery.records, delivery.last_offsets) == (10, {T0: 509})
    assert delivery.bytes == len(sent.batches[T0])
    assert rig.leaked_bytes == 0


def test_the_request_asks_for_all_replicas_and_names_no_transaction():
    rig = Rig()
    _, sent = rig.send()
    assert sent.body["acks"] == -1
    assert sent.body["transactional_id"] is None
    assert sent.body["timeout_ms"] == 30_000


def test_sequences_go_on_per_partition():
    rig = Rig()
    delivery = rig.sender.begin()
    for tp, count in [(T0, 3), (T1, 5), (T0, 2)]:
        _, sent = rig.send(tp, count, delivery=delivery)
        rig.answer(sent)
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


LOST = ConnectionLost("gone")  # with the answer: the batch is stored


@pytest.mark.parametrize("trouble", [NOT_LEADER, TIMED_OUT, 2, 3, 5, 8, 19, 20, 56, UNKNOWN_PRODUCER, 74, LOST])
def test_what_passes_sends_the_same_bytes_again(trouble):
    rig = Rig()
    delivery, first = rig.send(count=3)
    if trouble is LOST:
        first.fail(LOST)
    else:
        first.answer(codes={T0: trouble})
    assert rig.turn() == []  # backing off
    rig.clock.now_ms += rig.config.retry_backoff_ms
    (second,) = rig.turn()
    assert second.batches == first.batches
    rig.answer(second, {T0: 7}, codes=DUPLICATE if trouble is LOST else None)
    delivery.wait(lambda: True)
    assert (delivery.records, delivery.last_offsets) == (3, {} if trouble is LOST else {T0: 9})
    assert rig.leaked_bytes == 0


def test_a_batch_that_brokers_refuse_for_three_seconds_is_warned_of_once(caplog):
    rig = Rig()
    rig.append(rig.sender.begin(), count=3)
    for second in range(6):
        (sent,) = rig.turn()
        rig.answer(sent, codes=19)
        assert len(caplog.messages) == (second >= 3)
        rig.clock.now_ms += 1000
    for part in ("t-0", "NOT_ENOUGH_REPLICAS", "4 attempts", "'kafka.delivery.timeout.ms'"):
        assert part in caplog.messages[0]


def test_a_moved_leader_is_found_before_the_retry():
    rig = Rig()
    _, first = rig.send()
    rig.answer(first, codes=NOT_LEADER)
    assert rig.client.metadata.updates_requested
    rig.client.metadata.leaders[T0] = 2
    rig.clock.now_ms += 1000
    (second,) = rig.turn()
    assert (first.node_id, second.node_id) == (1, 2)


@pytest.mark.parametrize("allowed", [5, 10])
def test_several_batches_of_a_partition_are_in_flight_and_no_more_than_five(allowed):
    rig = Rig(max_in_flight=allowed)
    delivery = rig.sender.begin()
    rig.append(delivery, count=300)  # nine batches
    (first,) = rig.turn()  # alone: the broker does not know the producer yet
    first.answer()
    sent = rig.turn()
    sequences = [producer_of(request.batches[T0])[2:] for request in sent]
    assert len(sent) == 5
    first_count = producer_of(first.batches[T0])[3]
    assert [base for base, _ in sequences] == [first_count + sum(n for _, n in sequences[:i]) for i in range(5)]
    sent[0].answer()
    assert len(rig.turn()) == 1


def test_what_follows_a_batch_that_failed_is_sent_again_after_it_with_its_own_bytes():
    """As a broker does: the first is refused for the moment, those behind it are out of order until it is there."""
    rig = Rig()
    delivery = rig.sender.begin()
    rig.append(delivery, count=130)  # four batches
    rig.turn()[0].answer()
    first = rig.turn()
    for request, code in zip(first, (NOT_LEADER, OUT_OF_ORDER, OUT_OF_ORDER), strict=True):
        rig.answer(request, codes=code)
    again = []
    for _ in first:
        rig.clock.now_ms += 1000
        (request,) = rig.turn()
        request.answer()
        again.append(request)
    rig.turn()
    delivery.wait(lambda: True)
    assert [request.batches for request in again] == [request.batches for request in first]
    assert rig.leaked_bytes == 0


def test_nothing_new_follows_a_batch_that_is_sent_again_until_its_answer_is_here():
    """Brokers know a producer's last five batches again. The first of five is stored and its answer lost, twice."""
    rig = Rig()
    delivery = rig.sender.begin()
    rig.append(delivery, count=300)  # nine batches
    rig.turn()[0].answer()
    first, *others = rig.turn()
    for request in others:
        request.answer()
    first.fail(ConnectionLost("gone"))
    for _ in range(2):
        rig.turn()
        rig.clock.now_ms += 1000
        (again,) = rig.turn(5)
        assert again.batches == first.batches
        again.fail(ConnectionLost("gone"))
    rig.turn()
    rig.clock.now_ms += 1000
    (again,) = rig.turn(5)
    again.answer(codes={T0: DUPLICATE})
    assert len(rig.turn()) > 1


def test_a_broker_that_restarted_and_knows_only_the_last_of_three_batches_fails_the_task_with_the_reason():
    """Kafka 3.9 and 4.3 do so, after a kill and after a clean stop. All three are stored; their answers are lost."""
    rig = Rig()
    delivery = rig.sender.begin()
    rig.append(delivery, count=130)  # four batches
    rig.turn()[0].answer()
    for request in rig.turn():
        request.fail(ConnectionLost("gone"))
    rig.turn()
    rig.clock.now_ms += 1000
    (again,) = rig.turn()
    rig.answer(again, codes=OUT_OF_ORDER)
    assert error_of(delivery).code == OUT_OF_ORDER
    assert "restarted broker" in str(error_of(delivery))


def test_a_sequence_out_of_order_with_nothing_missing_before_it_fails_the_task():
    rig = Rig()
    delivery = rig.sender.begin()
    rig.append(delivery, count=100)  # three batches
    rig.turn()[0].answer()
    second, third = rig.turn()
    second.answer()
    rig.answer(third, codes=OUT_OF_ORDER)
    assert error_of(delivery).code == OUT_OF_ORDER
    rig.sender.end(delivery)
    _, after = rig.send()
    assert producer_of(after.batches[T0]) == (1001, 0, 0, 1)


# Brokers before Kafka 2.4 forget a producer when retention has deleted all that it wrote to the partition.

OF_0_11, OF_1_0 = (OUT_OF_ORDER, -1), (UNKNOWN_PRODUCER, 600)  # what they answer: the code, and where the log starts


def refused_as_forgotten(code, log_start_offset, before="another"):
    """A task's batch is refused. Three records before it, up to offset 599, are of another task or of itself."""
    rig = Rig()
    first = rig.sender.begin()
    rig.append(first, count=3)
    rig.turn()[0].answer({T0: 597})
    rig.turn()
    delivery = first if before == "itself" else rig.sender.begin()
    _, sent = rig.send(count=2, value=b"again", delivery=delivery)
    sent.answer(codes={T0: code}, log_start_offset=log_start_offset)
    rig.clock.now_ms += 1000
    return rig, delivery, sent.batches[T0]


@pytest.mark.parametrize("said", [OF_0_11, OF_1_0])
def test_a_batch_whose_producer_was_forgotten_goes_again_under_a_new_id(said):
    rig, delivery, refused = refused_as_forgotten(*said)
    (again,) = rig.turn(5)
    assert producer_of(refused) == (1000, 0, 3, 2)
    assert producer_of(again.batches[T0]) == (1001, 0, 0, 2)
    assert [record.value for record in DefaultRecordBatch(again.batches[T0])] == [b"again"] * 2
    assert DefaultRecordBatch(again.batches[T0]).validate_crc()
    rig.answer(again, {T0: 600})
    delivery.wait(lambda: True)
    assert delivery.last_offsets == {T0: 601}
    _, after = rig.send(delivery=delivery)
    assert producer_of(after.batches[T0]) == (1001, 0, 2, 1)
    rig.answer(after)
    assert rig.leaked_bytes == 0


def test_so_it_does_where_what_the_task_wrote_before_is_below_the_logs_start():
    rig, _, _ = refused_as_forgotten(UNKNOWN_PRODUCER, 600, "itself")
    (again,) = rig.turn(5)
    assert producer_of(again.batches[T0]) == (1001, 0, 0, 2)


@pytest.mark.parametrize(
    ("code", "log_start_offset", "before"),
    [
        (UNKNOWN_PRODUCER, 599, "itself"),  # its last record should be there, and is lost
        (OUT_OF_ORDER, -1, "itself"),  # which this broker does not tell from retention
        (OUT_OF_ORDER, 600, "another"),  # of a broker that would not say that of a producer that it has forgotten
    ],
)
def test_the_task_fails_where_records_may_be_lost(code, log_start_offset, before):
    rig, delivery, _ = refused_as_forgotten(code, log_start_offset, before)
    assert rig.turn(5) == []
    assert error_of(delivery).code == code


@pytest.mark.parametrize("said", [OF_0_11, OF_1_0])
def test_a_batch_goes_under_a_new_id_only_once_and_never_where_it_may_be_stored(said):
    code, log_start_offset = said
    rig, delivery, _ = refused_as_forgotten(*said)
    (again,) = rig.turn(5)
    again.answer(codes={T0: code}, log_start_offset=log_start_offset)
    rig.clock.now_ms += 1000
    if code == UNKNOWN_PRODUCER:
        (third,) = rig.turn(5)
        assert third.batches == again.batches
    else:
        assert rig.turn(5) == []
        assert error_of(delivery).code == code
    rig, delivery, _ = refused_as_forgotten(TIMED_OUT, -1)
    (again,) = rig.turn(5)
    again.answer(codes={T0: code}, log_start_offset=log_start_offset)
    rig.clock.now_ms += 1000
    assert rig.turn(5) == []
    assert error_of(delivery).code == code


@pytest.mark.parametrize("said", [OF_0_11, OF_1_0])
def test_a_batch_does_not_go_under_a_new_id_while_others_of_the_partition_are_in_flight(said):
    """They have sequences of the old one."""
    code, log_start_offset = said
    rig = Rig()
    first, delivery = rig.sender.begin(), rig.sender.begin()
    _, sent = rig.send(delivery=first)
    rig.append(delivery, count=100)  # three batches
    sent.answer({T0: 0})
    sent, *behind = rig.turn()
    assert len(behind) == 2
    rig.answer(sent, codes=code, log_start_offset=log_start_offset)
    assert error_of(delivery).code == code


def answer_from(logs, sent, outcome):
    """`outcome`: an error code, or what happens to the batch and to its answer."""
    codes, offsets = {}, {}
    for tp, batch in sent.batches.items():
        if outcome == "forgotten before":
            logs[tp].forget(batch)
        if isinstance(outcome, int):
            codes[tp] = outcome
        elif outcome != "lost":
            codes[tp], offsets[tp] = logs[tp].place(batch)
        if outcome == "timed out after append" and not codes[tp]:
            codes[tp] = TIMED_OUT
    if outcome in ("lost", "lost after append"):
        sent.fail(ConnectionLost("gone"))
    else:
        sent.answer(offsets, codes)


@settings(max_examples=examples(100), deadline=None)
@given(
    tasks=st.lists(
        st.lists(st.tuples(st.sampled_from([T0, T1]), st.integers(1, 90)), min_size=1, max_size=3), max_size=6
    ),
    outcomes=st.lists(
        st.sampled_from(["ok", "ok", "ok", "forgotten before", NOT_LEADER, "lost", "lost after append"]), max_size=40
    ),
)
def test_whatever_brokers_forget_a_task_that_succeeds_has_stored_each_record_once(tasks, outcomes):
    rig = Rig(buffer_memory_bytes=128 * 4096)
    logs = {tp: BrokerLog(from_0=True) for tp in (T0, T1)}
    outcomes = iter(outcomes)
    for number, appends in enumerate(tasks):
        delivery = rig.sender.begin()
        expected = {T0: [], T1: []}
        for tp, count in appends:
            for _ in range(count):
                expected[tp].append(b"%02d-%06d" % (number, len(expected[tp])) * 12)
                rig.append(delivery, tp, value=expected[tp][-1])
        delivery.flushing = True
        while not delivery.failed and delivery.records < sum(map(len, expected.values())):
            rig.clock.now_ms += 500
            rig.turn(1)
            for sent in [request for request in rig.client.sent if not request.pending.done]:
                answer_from(logs, sent, next(outcomes, "ok"))
        rig.sender.end(delivery)
        rig.turn()
        for tp, log in logs.items():
            stored = [value for value in log.values if value.startswith(b"%02d-" % number)]
            if not delivery.failed:
                assert stored == expected[tp]


def test_without_idempotence_one_request_in_flight_keeps_the_order():
    rig = Rig(idempotent=False, acks=1, max_in_flight=1)
    delivery = rig.sender.begin()
    for i in range(100):  # three batches
        rig.append(delivery, value=b"%06d" % i * 16)
    seen = []
    for code in (TIMED_OUT, 0, 0, TIMED_OUT, 0):
        rig.clock.now_ms += 1000
        (request,) = rig.turn()
        seen.append(request.batches[T0])
        request.answer(codes={T0: code} if code else None)
    rig.turn()
    delivery.wait(lambda: True)
    assert [seen[1], seen[4]] == [seen[0], seen[3]]
    assert len({*seen}) == 3


def test_only_the_partition_that_failed_is_sent_again():
    rig = Rig()
    delivery = rig.sender.begin()
    rig.append(delivery, T0)
    _, sent = rig.send(T1, delivery=delivery)
    sent.answer({T1: 3}, codes={T0: NOT_LEADER})
    rig.clock.now_ms += 1000
    (again,) = rig.turn(5)
    assert list(again.batches) == [T0]
    assert delivery.last_offsets == {T1: 3}


def test_a_response_that_leaves_a_partition_out_is_no_acknowledgement():
    rig = Rig()
    delivery, sent = rig.send()
    sent.pending.body, sent.pending.done = {"responses": [], "throttle_time_ms": 0}, True
    rig.clock.now_ms += 1000
    (again,) = rig.turn(5)
    assert again.batches == sent.batches
    assert delivery.records == 0


NO_KEY = {
    "record_errors": [{"batch_index": 3, "batch_index_error_message": "no key"}],
    "error_message": "compacted topic",
}
OTHER_CODEC = "set 'kafka.compression.type' to gzip or none"


@pytest.mark.parametrize(
    ("code", "details", "codec", "says"),
    [
        *((code, {}, "none", ["t-0"]) for code in (OUT_OF_ORDER, 47, 29, INVALID_RECORD, 17)),
        (INVALID_RECORD, NO_KEY, "none", ["[3]", "compacted topic"]),
        (43, {}, "lz4", [OTHER_CODEC]),  # Azure Event Hubs answers so to codecs that a tier does not take
        (43, {}, "none", []),
    ],
)
def test_a_fatal_error_fails_the_task_with_the_brokers_words_and_gives_the_memory_back(code, details, codec, says):
    rig = Rig(compression=codec)
    delivery, sent = rig.send(count=5)
    rig.answer(sent, codes=code, **details)
    error = error_of(delivery)
    assert isinstance(error, BrokerError)
    assert error.code == code
    assert all(part in str(error) for part in says)
    assert (OTHER_CODEC in str(error)) == (OTHER_CODEC in says)
    assert rig.leaked_bytes == 0


def test_sequences_of_a_batch_given_up_are_never_used_again():
    rig = Rig()
    failing = rig.sender.begin()
    rig.append(failing, count=3)
    _, sent = rig.send(T1, count=2, delivery=failing)
    rig.answer(sent, codes=INVALID_RECORD)
    rig.sender.end(failing)
    rig.append(rig.sender.begin(), count=1)
    (after,) = rig.turn(5)
    assert producer_of(after.batches[T0]) == (1001, 0, 0, 1)


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
    delivery, sent = rig.send()
    rig.clock.now_ms += 5000
    rig.turn()
    assert isinstance(error_of(delivery), DeadlineExceeded)
    assert rig.leaked_bytes == 4096
    rig.answer(sent)
    assert rig.leaked_bytes == 0


def test_once_a_batch_is_too_late_nothing_of_its_task_is_sent():
    """Else rows would be stored whose predecessors were given up."""
    rig = Rig({T0: None, T1: 1}, delivery_timeout_ms=1000, linger_ms=100)
    delivery = rig.sender.begin()
    rig.append(delivery, T0)
    rig.clock.now_ms += 999
    rig.append(delivery, T1)
    rig.clock.now_ms += 1
    rig.client.metadata.leaders[T0] = 1
    delivery.flushing = True
    assert rig.turn() == []
    assert delivery.failed
    assert rig.leaked_bytes == 0


def test_once_a_batch_in_flight_is_too_late_nothing_more_of_its_task_is_sent():
    rig = Rig(delivery_timeout_ms=1000)
    delivery, sent = rig.send(T0)
    rig.clock.now_ms += 1000
    rig.append(delivery, T1)
    assert rig.turn() == []
    sent.answer()
    rig.turn(1)
    assert rig.leaked_bytes == 0


def test_a_failed_task_leaves_no_trace_in_the_next():
    rig = Rig()
    failing = rig.sender.begin()
    rig.append(failing, count=100, value=b"old" * 40)
    in_flight = rig.turn()
    failing.fail(RuntimeError("the task was interrupted"))
    rig.sender.end(failing)
    following = rig.sender.begin()
    rig.append(following, value=b"new")
    assert rig.turn() == []  # what is in flight comes first
    for request in in_flight:
        request.fail(ConnectionLost("gone"))
    rig.clock.now_ms += 1000
    (sent,) = rig.turn(5)
    assert b"old" not in sent.batches[T0]
    rig.answer(sent, {T0: 40})
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
    rig.client.init_codes = [14, -1]
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


@pytest.mark.parametrize(
    ("leaders", "tried", "hopeless", "error", "says"),
    [
        ({T0: 1}, {}, False, DeadlineExceeded, "Topic nope not present in metadata after 0 ms"),  # the JVM connector's
        ({}, {"localhost:9092": "connection refused"}, False, BootstrapFailed, "localhost:9092: connection refused"),
        ({}, {"localhost:9092": "HTTP"}, True, BootstrapHopeless, "localhost:9092: HTTP"),
    ],
)
def test_a_topic_that_cannot_be_had_says_why(leaders, tried, hopeless, error, says):
    rig = Rig(leaders, max_block_ms=60_000 if hopeless else 0)  # what is hopeless is not waited for
    rig.client.metadata.topic_errors["nope"] = 3
    rig.client.bootstrap_errors, rig.client.bootstrap_is_hopeless = tried, lambda: hopeless
    with pytest.raises(error, match=says):
        rig.sender.await_topic("nope")


def test_a_name_that_no_topic_can_have_is_not_asked_for():
    """It has no place in a Metadata request, so no other topic could be asked for either."""
    rig = Rig()
    with pytest.raises(BrokerError, match="INVALID_TOPIC_EXCEPTION") as raised:
        rig.sender.await_topic("m" * 40_000)
    assert len(str(raised.value)) < 600
    assert rig.sender.await_topic("t").partitions
    assert not any("m" * 300 in str(wanted) for wanted in rig.client.metadata.__dict__.values())


def awaiting(rig, topic, partition=0):
    """`await_topic` in a task's thread while the test turns the sender; its outcome after join()."""
    outcome = []

    def wait():
        try:
            outcome.append(rig.sender.await_topic(topic, partition))
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
    rig.client.metadata.leaders[TopicPartition("new", 0)] = 1
    while thread.is_alive():
        rig.sender.run_once()
    assert list(outcome[0].partitions) == [0]


def test_topics_that_come_next_are_asked_about_with_the_first():
    rig = Rig(max_block_ms=60_000)
    rig.sender.expect_topics(["new", "newer", "t", "m" * 40_000])
    rig.sender.run_once()
    assert "newer" not in rig.client.metadata.wanted  # no task waits for it yet
    thread, _ = awaiting(rig, "new")
    assert {"new", "newer"} <= {*rig.client.metadata.wanted}
    assert "m" * 40_000 not in rig.client.metadata.wanted
    rig.client.metadata.leaders[TopicPartition("new", 0)] = 1
    while thread.is_alive():
        rig.sender.run_once()


def test_a_partition_that_new_metadata_do_not_have_either_is_waited_for_as_long_as_by_java():
    """A topic that is being expanded: KafkaProducer.waitOnMetadata asks again until max.block.ms is over."""
    rig = Rig(max_block_ms=60_000)
    thread, outcome = awaiting(rig, "t", 5)
    for _ in range(59):
        rig.client.metadata.version += 1
        rig.clock.now_ms += 1000
        asked = rig.client.metadata.updates_requested
        rig.sender.run_once()
        assert rig.client.metadata.updates_requested > asked  # and again
        thread.join(0.01)
        assert outcome == []
    rig.client.metadata.leaders[TopicPartition("t", 5)] = 1
    while thread.is_alive():
        rig.sender.run_once()
    assert sorted(outcome[0].partitions) == [0, 1, 5]


def test_a_partition_that_never_comes_is_waited_for_no_longer_than_max_block_ms():
    rig = Rig(max_block_ms=60_000)
    thread, outcome = awaiting(rig, "t", 5)
    rig.client.metadata.version += 1
    rig.clock.now_ms += 60_000
    while thread.is_alive():
        rig.sender.run_once()
    assert sorted(outcome[0].partitions) == [0, 1]  # so the rows are refused


@pytest.mark.parametrize(
    ("leaders", "topic", "partition", "says"),
    [
        ({T0: 1}, "new", 0, ["topic 'new'", "UNKNOWN_TOPIC_OR_PARTITION", "'createTopic'", "60000 ms"]),
        ({T0: 1}, "t", 5, ["topic 't' has no partition 5", "(it has 1)", "60000 ms"]),
        ({}, "t", 0, ["localhost:9092: connection refused", "60000 ms"]),
    ],
)
def test_a_task_that_waits_for_three_seconds_says_once_what_it_waits_for(caplog, leaders, topic, partition, says):
    rig = Rig(leaders, max_block_ms=60_000)
    rig.client.bootstrap_errors = {} if leaders else {"localhost:9092": "connection refused"}
    thread, _ = awaiting(rig, topic, partition)
    rig.client.metadata.version += 1
    rig.client.metadata.topic_errors["new"] = 3

    def pass_time(ms, until):
        rig.clock.now_ms += ms
        while not until():
            rig.sender.run_once()

    pass_time(2999, lambda: thread.join(0.02) is None)
    assert caplog.messages == []
    pass_time(1, lambda: caplog.messages)
    pass_time(30_000, lambda: thread.join(0.02) is None)
    pass_time(30_000, lambda: not thread.is_alive())
    (warning,) = caplog.messages
    assert all(part in warning for part in [*says, "'kafka.max.block.ms'"]), warning


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


@settings(max_examples=examples(100), deadline=None)
@given(
    appends=st.lists(st.tuples(st.sampled_from([T0, T1]), st.integers(1, 120)), min_size=1, max_size=8),
    outcomes=st.lists(
        st.sampled_from(
            ["ok", "ok", "ok", NOT_LEADER, TIMED_OUT, "timed out after append", "lost", "lost after append"]
        ),
        max_size=30,
    ),
    in_flight=st.sampled_from([1, 2, 3, 4, 5, 12]),
    slow=st.lists(st.booleans(), max_size=60),
)
def test_whatever_is_lost_on_the_way_each_record_is_stored_once_and_in_order(appends, outcomes, in_flight, slow):
    rig = Rig(buffer_memory_bytes=128 * 4096, max_in_flight=in_flight)
    delivery = rig.sender.begin()
    expected = {T0: [], T1: []}
    for tp, count in appends:
        for _ in range(count):
            expected[tp].append(b"%06d" % len(expected[tp]) * 16)
            rig.append(delivery, tp, value=expected[tp][-1])
    delivery.flushing = True
    logs = {T0: BrokerLog(), T1: BrokerLog()}
    outcomes, slow = iter(outcomes), iter(slow)
    for _ in range(1000):
        rig.clock.now_ms += 500
        rig.turn(1)
        for sent in [request for request in rig.client.sent if not request.pending.done]:
            if next(slow, False):
                break  # a broker answers in order: those behind wait too
            answer_from(logs, sent, next(outcomes, "ok"))
        assert sum(not request.pending.done for request in rig.client.sent) <= in_flight
        if delivery.failed or delivery.records == sum(map(len, expected.values())):
            break
    delivery.raise_if_failed()
    assert {tp: log.values for tp, log in logs.items()} == expected
    assert delivery.last_offsets == {tp: len(values) - 1 for tp, values in expected.items() if values}
    rig.turn()
    assert rig.leaked_bytes == 0
