"""The fetcher against a scripted partition: every fault on command, no socket, no sleep.

Record batches are made by kafka-python, so what is decoded was not encoded by us.
"""

import uuid
from collections import deque

import pyarrow as pa
import pytest
from fetch_rig import fetch_settings
from kafka.record.memory_records import MemoryRecordsBuilder

from kafkasource.errors import (
    ConnectionLost,
    CorruptRecordBatch,
    DataLoss,
    DeadlineExceeded,
    KafkaSourceError,
    ProtocolError,
    error_for,
)
from kafkasource.kafka.fetch.budget import FetchBudget
from kafkasource.kafka.fetch.fetcher import PartitionFetcher
from kafkasource.kafka.fetch.messages import FetchedPartition, read_response, request_body
from kafkasource.kafka.fetch.partition import LogBounds
from kafkasource.kafka.fetch.planned_log import Truncation
from kafkasource.kafka.fetch.task import in_order
from kafkasource.types import IsolationLevel, OffsetRange, TopicPartition

TP = TopicPartition("t", 0)
WHOLE_LOG = LogBounds(0, 100)


def batch(first, count=1, *, value=b"v%d", timestamp=1000):
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 20)
    for number in range(count):
        builder.append(timestamp=timestamp, key=None, value=value % (first + number), headers=[])
    builder.close()
    data = bytearray(builder.buffer())
    data[0:8] = first.to_bytes(8, "big")  # the broker writes the base offset; it is outside the CRC
    return bytes(data)


def damaged(data):
    return data[:-1] + bytes([data[-1] ^ 1])


class Script:
    """Plays a leader: each answer is records, a FetchedPartition, an error, or the truncation that its successor finds.

    Keeps what was asked, in order.
    """

    def __init__(self, *answers, bounds=WHOLE_LOG):
        self.answers = deque(answers)
        self.log_bounds = bounds
        self.truncation = None
        self.events = []
        self.asked = []
        self.limits = []

    def send(self, fetch_offset, max_bytes):
        self.asked.append(fetch_offset)
        self.limits.append(max_bytes)
        self.events.append(f"send {fetch_offset}")
        return fetch_offset

    def receive(self, sent):
        self.events.append(f"receive {sent}")
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Truncation):
            self.truncation = answer
            raise error_for(74)
        return answer if isinstance(answer, FetchedPartition) else FetchedPartition(memoryview(answer), 100)

    round_trip_s = 0.0
    line_bytes = None

    @property
    def is_ready(self):
        return self.truncation is None

    def get_ready(self):
        self.events.append("get ready")
        found, self.truncation = self.truncation, None
        return found

    def extend(self, sent, seconds):
        pass

    def forget(self, sent):
        self.events.append(f"forget {sent}")

    def refresh_leader(self):
        self.events.append("refresh")

    def reconnect(self):
        self.events.append("reconnect")

    def high_watermark(self):
        self.events.append("high watermark")
        return self.log_bounds.end

    def is_gone(self):
        return self.bounds() is None

    def bounds(self):
        self.events.append("bounds")
        return self.log_bounds

    is_deleted = True


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += max(seconds, 0.001)


def batches_of(script, start, end, clock=None, from_earliest=False, **settings):
    clock = clock or Clock()
    settings.setdefault("poll_timeout_ms", 10_000)
    planned = OffsetRange(TP, start, end, from_earliest=from_earliest)
    settings = fetch_settings(**settings)
    return in_order([PartitionFetcher(planned, settings, script, FetchBudget(settings), clock, clock.sleep)])


def read(script, start, end, **settings):
    rows = list(batches_of(script, start, end, **settings))
    assert all(b.num_rows for b in rows)
    return pa.Table.from_batches(rows).column("offset").to_pylist() if rows else []


def test_the_range_is_read_whole_and_nothing_beyond_it():
    script = Script(batch(0, 4) + batch(4, 4), batch(8, 4))
    assert read(script, 2, 10) == list(range(2, 10))
    assert script.asked == [2, 8]


def test_the_next_fetch_leaves_before_the_response_is_handed_on():
    script = Script(batch(0, 4), batch(4, 4))
    batches = batches_of(script, 0, 8)
    next(batches)
    assert script.events == ["send 0", "receive 0", "send 4"]
    assert len(list(batches)) == 1
    assert script.events == ["send 0", "receive 0", "send 4", "receive 4"]


def test_no_more_than_one_fetch_is_in_flight_and_one_held():
    script = Script(*(batch(n) for n in range(20)))
    flying = 0
    for _ in batches_of(script, 0, 20):
        flying = sum(1 if e.startswith("send") else -1 for e in script.events)
        assert flying in (0, 1)


def test_reading_goes_on_past_offsets_that_hold_no_record():
    script = Script(batch(0) + batch(5), batch(40))
    assert read(script, 0, 30) == [0, 5]
    assert script.asked == [0, 6]


def test_a_batch_that_begins_before_the_position_repeats_nothing():
    assert read(Script(batch(0, 10)), 7, 10) == [7, 8, 9]


def test_a_cut_last_batch_is_fetched_again_from_its_beginning():
    script = Script(batch(0, 3) + batch(3, 3)[:-1], batch(3, 3))
    assert read(script, 0, 6) == list(range(6))
    assert script.asked == [0, 3]


def test_a_first_batch_that_does_not_come_whole_is_asked_for_in_full():
    whole = batch(0, 5)
    script = Script(whole[:-10], whole)
    assert read(script, 0, 5, max_partition_bytes=len(whole) - 10) == list(range(5))
    assert script.limits == [len(whole) - 10, len(whole)]


def test_a_batch_larger_than_any_response_names_the_option():
    whole = batch(0, 50)
    with pytest.raises(KafkaSourceError, match=r"offset 0 of t-0 needs \d+ bytes.*'kafka.receive.message.max.bytes'"):
        read(Script(whole[:100]), 0, 50, max_partition_bytes=100, max_message_bytes=100)


def test_a_batch_larger_than_the_limit_that_comes_whole_is_read():
    script = Script(batch(0, 50))
    assert len(read(script, 0, 50, max_partition_bytes=10)) == 50


# Damage.


def test_a_damaged_batch_is_fetched_once_more_on_a_new_connection():
    script = Script(damaged(batch(0, 3)), batch(0, 3))
    assert read(script, 0, 3) == [0, 1, 2]
    assert script.events == ["send 0", "receive 0", "reconnect", "send 0", "receive 0"]


def test_a_batch_damaged_twice_is_an_error_that_tells_where_and_never_skipped():
    script = Script(batch(0, 3) + damaged(batch(3, 3)), damaged(batch(3, 3)), damaged(batch(3, 3)), batch(3, 3))
    with pytest.raises(CorruptRecordBatch, match=r"t.*0.*3.*startingOffsets"):
        read(script, 3, 6)


def test_what_was_fetched_ahead_of_a_damaged_batch_is_dropped():
    script = Script(damaged(batch(0, 3)), batch(0, 3), batch(3, 3))
    assert read(script, 0, 6) == list(range(6))
    assert script.events[:5] == ["send 0", "receive 0", "send 3", "forget 3", "reconnect"]


def test_a_timestamp_beyond_microseconds_is_an_error_that_tells_where_and_is_not_fetched_again():
    script = Script(batch(0, 3) + batch(3, 1, timestamp=2**63 // 1000 + 1), batch(4))
    with pytest.raises(KafkaSourceError, match=r"KAFKA_MALFORMED_RECORD_TIMESTAMP.*t-0.*offset 3"):
        read(script, 0, 5)
    assert script.asked[0] == 0
    assert "reconnect" not in script.events


def test_damage_at_another_offset_gets_its_own_second_try():
    script = Script(damaged(batch(0)), batch(0), damaged(batch(1)), batch(1))
    assert read(script, 0, 2) == [0, 1]


def lost_to_nonsense():
    error = ConnectionLost("closed, because frame of 500146 bytes")
    error.__cause__ = ProtocolError("frame of 500146 bytes")
    return error


@pytest.mark.parametrize("nonsense", [ProtocolError("x"), lost_to_nonsense()])
def test_an_answer_that_makes_no_sense_is_asked_for_again_but_not_for_ever(nonsense):
    assert read(Script(nonsense, nonsense, batch(0)), 0, 1) == [0]
    with pytest.raises(ProtocolError, match=r"t-0 at offset 0: 5 answers.*'kafka.receive.message.max.bytes' \("):
        read(Script(*[nonsense] * 9), 0, 1)


# Leaders and connections.


@pytest.mark.parametrize("code", [5, 6, 9, 56, 74, 75, 78, 3, 100])
def test_a_moved_leader_is_found_again(code):
    script = Script(batch(0), error_for(code), batch(1))
    assert read(script, 0, 2) == [0, 1]
    assert script.events[-3:] == ["refresh", "send 1", "receive 1"]


@pytest.mark.parametrize("code", [-1, 9999])
def test_a_failure_that_the_broker_or_this_client_has_no_name_for_is_tried_again_until_the_poll_timeout(code):
    # Java's FetchCollector.handleInitializeErrors goes on after UNKNOWN_SERVER_ERROR, and Errors.forCode takes a code
    # that it does not know for that one.
    script = Script(batch(0), error_for(code), error_for(code), batch(1))
    assert read(script, 0, 2) == [0, 1]
    assert script.events[-3:] == ["refresh", "send 1", "receive 1"]
    with pytest.raises(DeadlineExceeded, match=rf"offset 0 of t-0 in 10000 .*pollTimeoutMs.*\({code}\)"):
        read(Script(*[error_for(code)] * 100), 0, 1)


def test_a_failure_that_is_known_to_last_is_told_at_once():
    with pytest.raises(KafkaSourceError, match="UNSUPPORTED_VERSION"):
        read(Script(error_for(35, "Fetch of t-0")), 0, 1)


def test_a_lost_connection_repeats_nothing_and_loses_nothing():
    script = Script(batch(0, 2), ConnectionLost("reset"), batch(2, 2))
    assert read(script, 0, 4) == [0, 1, 2, 3]


def test_a_refused_reader_is_told_at_once():
    with pytest.raises(KafkaSourceError, match="TOPIC_AUTHORIZATION_FAILED"):
        read(Script(error_for(29, "Fetch of t-0")), 0, 1)


def test_a_partition_that_stays_silent_becomes_an_error_that_names_the_option():
    script = Script(*[FetchedPartition(b"", 7, 5)] * 99)
    with pytest.raises(
        DeadlineExceeded, match=r"offset 6 of t-0 in 10000 milliseconds .*pollTimeoutMs.*stable offset 5"
    ):
        read(script, 6, 7)


def test_a_log_that_ends_within_the_range_by_the_end_of_patience_has_lost_the_rest(caplog):
    answers = [batch(0, 3), *[FetchedPartition(b"", 3)] * 99]
    with pytest.raises(DataLoss, match=r"offset \[3, 9\) for topic partition t-0: the log ends at 3.*failOnDataLoss"):
        read(Script(*answers, bounds=LogBounds(0, 3)), 0, 9)
    script = Script(*answers, bounds=LogBounds(0, 3))
    assert read(script, 0, 9, fail_on_data_loss=False) == [0, 1, 2]
    assert "6 offsets are skipped" in caplog.text
    assert script.events.count("high watermark") == 1


def test_a_leader_that_never_comes_back_becomes_an_error_with_the_reason():
    with pytest.raises(DeadlineExceeded, match=r"offset 0 of t-0.*NOT_LEADER"):
        read(Script(*[error_for(6)] * 100), 0, 1)


def test_the_time_that_spark_takes_does_not_count():
    clock = Clock()
    script = Script(batch(0), FetchedPartition(b"", 7), batch(1))
    offsets = []
    for rows in batches_of(script, 0, 2, clock):
        offsets += rows.column("offset").to_pylist()
        clock.now += 1_000_000
    assert offsets == [0, 1]


# Loss.


def test_aged_out_records_stop_the_query_with_the_exact_range():
    with pytest.raises(
        DataLoss, match=r"Could not read records in offset \[2, 8\) for topic partition t-0.*\[8, 100\)"
    ):
        read(Script(error_for(1), bounds=LogBounds(8, 100)), 2, 10)


def test_tolerated_loss_goes_on_at_the_log_start_and_repeats_nothing(caplog):
    script = Script(batch(0, 2), error_for(1), batch(8, 2), bounds=LogBounds(8, 100))
    assert read(script, 0, 10, fail_on_data_loss=False) == [0, 1, 8, 9]
    assert "6 offsets are skipped" in caplog.text


def test_a_range_that_aged_out_whole_is_skipped_whole(caplog):
    assert read(Script(error_for(1), bounds=LogBounds(50, 100)), 0, 10, fail_on_data_loss=False) == []
    assert "[0, 10)" in caplog.text


def test_a_log_that_ends_below_the_position_is_a_loss():
    with pytest.raises(DataLoss, match=r"\[8, 10\).*\[0, 3\)"):
        read(Script(error_for(1), bounds=LogBounds(0, 3)), 8, 10)


def test_out_of_range_from_a_replica_that_lags_is_no_loss():
    script = Script(error_for(1), batch(4, 2), bounds=LogBounds(0, 100))
    assert read(script, 4, 6) == [4, 5]
    assert "refresh" in script.events


@pytest.mark.parametrize("before", [b"", ConnectionLost("down"), error_for(6)])
def test_a_cluster_that_starts_again_and_does_not_know_its_topics_yet_is_waited_for(before):
    # While it was down the range has waited for longer than such news takes; nobody has denied the topic yet.
    script = Script(batch(0, 3), *[before] * 9, *[error_for(3)] * 3, batch(3, 7), bounds=None)
    assert read(script, 0, 10, fail_on_data_loss=False) == list(range(10))
    script = Script(*[*[error_for(3)] * 3, before] * 2, batch(0, 10), bounds=None)
    assert read(script, 0, 10) == list(range(10))


def test_a_deleted_topic_is_a_loss_once_the_news_had_time_to_travel():
    script = Script(*[error_for(3)] * 20, bounds=None)
    with pytest.raises(DataLoss, match=r"Could not read records in offset \[0, 2\) .*deleted"):
        read(script, 0, 2)
    assert len(script.asked) > 3


def test_a_deleted_topic_may_be_tolerated_alone(caplog):
    """Not one that was made again under its name, and not records that aged out."""
    script = Script(batch(0, 3), *[error_for(3)] * 20, bounds=None)
    assert read(script, 0, 10, fail_on_deleted_topic=False) == [0, 1, 2]
    assert "offset [3, 10) for topic partition t-0: the topic has been deleted." in caplog.text
    for script in (Script(*[error_for(3)] * 20, bounds=None), Script(error_for(1), bounds=LogBounds(5, 9))):
        script.is_deleted = False
        with pytest.raises(DataLoss):
            read(script, 0, 10, fail_on_deleted_topic=False)


def test_tolerated_deletion_ends_the_range_behind_what_was_read(caplog):
    script = Script(batch(0, 3), *[error_for(3)] * 20, bounds=None)
    assert read(script, 0, 10, fail_on_data_loss=False) == [0, 1, 2]
    assert "[3, 10)" in caplog.text
    assert "7 offsets are skipped" in caplog.text


def test_a_log_that_ends_below_the_position_skips_the_rest_where_that_is_tolerated():
    script = Script(batch(0, 3), error_for(1), bounds=LogBounds(0, 2))
    assert read(script, 0, 10, fail_on_data_loss=False) == [0, 1, 2]


def test_earliest_is_where_the_log_starts_when_it_is_read(caplog):
    script = Script(error_for(1), batch(8, 2), bounds=LogBounds(8, 100))
    assert read(script, 2, 10, from_earliest=True) == [8, 9]
    assert "lost" not in caplog.text


def test_earliest_behind_the_end_of_what_is_to_be_read_is_nothing_and_no_loss():
    assert read(Script(error_for(1), bounds=LogBounds(50, 100)), 2, 10, from_earliest=True) == []


def test_what_ages_out_after_the_first_record_is_a_loss_also_when_reading_from_earliest():
    script = Script(batch(0, 2), error_for(1), bounds=LogBounds(8, 100))
    with pytest.raises(DataLoss, match=r"offset \[2, 8\)"):
        read(script, 0, 10, from_earliest=True)


@pytest.mark.parametrize(("ends_at", "lost_from"), [(2, 4), (4, 4), (7, 7)])
def test_a_truncated_log_is_a_loss_with_the_range_and_both_epochs(ends_at, lost_from):
    script = Script(batch(0, 4), Truncation(ends_at, 3, 5), batch(4, 6))
    with pytest.raises(
        DataLoss, match=rf"offset \[{lost_from}, 10\) .* t-0.*epoch 3 .*ends at {ends_at} .*leader epoch 5"
    ):
        read(script, 0, 10)


def test_tolerated_truncation_ends_the_range_there_and_reads_nothing_of_what_replaced_it(caplog):
    script = Script(batch(0, 4), Truncation(7, 3, 5), batch(4, 3) + batch(7, 3))
    assert read(script, 0, 10, fail_on_data_loss=False) == [0, 1, 2, 3, 4, 5, 6]
    assert "3 offsets are skipped" in caplog.text


def test_tolerated_truncation_below_the_position_ends_the_range():
    script = Script(batch(0, 4), Truncation(2, 3, 5))
    assert read(script, 0, 10, fail_on_data_loss=False) == [0, 1, 2, 3]


def test_a_reader_that_stops_early_forgets_what_is_in_flight():
    script = Script(batch(0), batch(1))
    batches = batches_of(script, 0, 2)
    next(batches)
    batches.close()
    assert script.events[-1] == "forget 1"


# Bodies.

ID = uuid.UUID(int=7)


def answer(**partition):
    row = {"partition_index": 0, "error_code": 0, "high_watermark": 9, "records": b"x"} | partition
    return {"error_code": 0, "throttle_time_ms": 0, "responses": [{"topic": "", "topic_id": ID, "partitions": [row]}]}


def test_a_fetch_names_the_topic_both_ways_and_fences_stale_leaders():
    settings = fetch_settings(isolation_level=IsolationLevel.READ_COMMITTED)
    body = request_body(TP, 5, settings, topic_id=ID, leader_epoch=3, max_bytes=10)
    (topic,) = body["topics"]
    assert (topic["topic"], topic["topic_id"], body["isolation_level"], body["max_bytes"]) == ("t", ID, 1, 10)
    assert topic["partitions"] == [
        {"partition": 0, "current_leader_epoch": 3, "fetch_offset": 5, "partition_max_bytes": 10}
    ]


def test_what_the_response_says_is_taken_over():
    fetched = read_response(
        answer(last_stable_offset=8, aborted_transactions=[{"producer_id": 4, "first_offset": 2}]), TP, 5, ID
    )
    assert fetched == FetchedPartition(b"x", 9, 8, None, ((4, 2),))
    assert read_response(answer(records=None, last_stable_offset=-1), TP, 5, ID) == FetchedPartition(b"", 9)


def test_a_partition_that_is_missing_or_another_is_not_taken_for_empty():
    empty = {"error_code": 0, "throttle_time_ms": 0, "responses": []}
    for body, topic_id in ((empty, ID), (answer(partition_index=1), ID), (answer(), uuid.UUID(int=8))):
        with pytest.raises(ProtocolError, match="Fetch of t-0 at offset 5"):
            read_response(body, TP, 5, topic_id)


def test_an_answer_of_a_used_up_quota_has_no_partition_and_says_for_how_long():
    """Kafka from 2.0 on (KIP-219)."""
    body = {"error_code": 0, "throttle_time_ms": 2500, "responses": []}
    assert read_response(body, TP, 5, ID) == FetchedPartition(b"", -1, throttled_ms=2500)


def test_a_used_up_quota_is_waited_for_on_the_same_connection_and_asks_for_less():
    throttled = FetchedPartition(b"", -1, throttled_ms=500)
    script = Script(*[throttled] * 20, *[batch(first, 10) for first in range(0, 100, 10)])
    assert read(script, 0, 100, max_partition_bytes=1 << 20) == list(range(100))
    assert "reconnect" not in script.events
    assert "bounds" not in script.events
    held_back = script.limits[:21]
    assert held_back[1] == held_back[0] // 2
    assert held_back[-1] == 16_384  # Kafka before 2.6 never gives what is more than the quota of ten seconds
    assert script.limits[21:24] == [32_768, 65_536, 131_072]
    assert script.limits[-1] == held_back[0]


def test_a_quota_that_never_lets_a_fetch_through_is_named():
    clock = Clock()

    class Throttling(Script):
        def receive(self, sent):
            clock.now += 3  # the client has obeyed the pause
            return FetchedPartition(b"", -1, throttled_ms=3000)

    with pytest.raises(DeadlineExceeded, match=r"Cannot fetch record for offset 0 of t-0.*a quota.*consumer_byte_rate"):
        read(Throttling(), 0, 20, clock=clock)


def test_a_partitions_error_says_what_was_asked():
    with pytest.raises(KafkaSourceError, match="Fetch of t-0 at offset 5: OFFSET_OUT_OF_RANGE"):
        read_response(answer(error_code=1), TP, 5, ID)
