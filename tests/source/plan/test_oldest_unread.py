"""When the oldest unread record was written: by hand-written headers, by counted questions, by a broker."""

import struct

import confluent_kafka
import pytest
from record_wire import ask_kafka
from test_record_weights import Clock, Leaders

from kafkasource.errors import RequestTimeout
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.records.batches import decode
from kafkasource.metrics.lag import lag, oldest_from_progress, oldest_to_text
from kafkasource.source.commits.oldest_unread import ASK_AFTER_FAILURE_S, ASK_EVERY_S, OldestUnread, first_timestamp_ms
from kafkasource.types import IsolationLevel
from kafkasource.types import TopicPartition as TP

T0, T1 = TP("t", 0), TP("t", 1)


def batch(first_ms, last_ms=None, attributes=0):
    """The header of a record batch v2 (KIP-98), and something behind it."""
    last_ms = first_ms if last_ms is None else last_ms
    return struct.pack(">qiibIhiqqqhii", 0, 100, 0, 2, 0, attributes, 9, first_ms, last_ms, -1, -1, -1, 10) + bytes(51)


def message(magic, timestamp_ms):
    """A message of the old format (KIP-32 has the timestamp from v1 on)."""
    return struct.pack(">qiIbb", 0, 50, 0, magic, 0) + struct.pack(">q", timestamp_ms) + bytes(36)


def test_a_batch_says_when_its_first_record_was_written():
    assert first_timestamp_ms(batch(1000, 2000)) == 1000
    assert first_timestamp_ms(memoryview(batch(1000, 2000))) == 1000
    assert first_timestamp_ms(batch(1000, 2000, attributes=0x08)) == 2000  # LogAppendTime: the broker's, in max
    assert first_timestamp_ms(batch(1000, 2000, attributes=0x28)) == 2000


@pytest.mark.peers
def test_a_batch_that_the_log_cleaner_wrote_says_when_its_records_were_written():
    """It has a tombstone, so in place of the first timestamp stands when that may go: a day ahead (KIP-534)."""
    written_ms = 1_700_000_000_000
    records = [f"{written_ms},6b,-", f"{written_ms + 7},6a,76"]
    (cleaned,) = ask_kafka([["cleaned", 5, written_ms + 24 * 3600_000, *records]])
    assert struct.unpack_from(">h", bytes.fromhex(cleaned), 21) == (0x40,)
    assert first_timestamp_ms(bytes.fromhex(cleaned)) == written_ms + 7
    (arrow,) = decode(bytes.fromhex(cleaned), topic="t", partition=0, start_offset=5, end_offset=9).batches
    assert [time.timestamp() for time in arrow["timestamp"].to_pylist()] == [written_ms / 1000, (written_ms + 7) / 1000]


def test_a_message_v1_has_a_timestamp_and_one_of_v0_has_none():
    assert first_timestamp_ms(message(1, 1234)) == 1234
    assert first_timestamp_ms(message(0, 1234)) is None


@pytest.mark.parametrize(
    "records", [b"", bytes(16), bytes(17), batch(1000)[:60], message(1, 7)[:25], batch(-1), message(1, -1), bytes(200)]
)
def test_what_has_no_timestamp_is_unknown(records):
    assert first_timestamp_ms(records) is None


def oldest(records, wanted=True):
    leaders, clock = Leaders(records), Clock()
    return OldestUnread(leaders, IsolationLevel.READ_COMMITTED, lambda: wanted, clock), leaders, clock


def test_only_of_logs_that_hold_more_the_next_record_is_asked_for_once():
    unread, leaders, clock = oldest({0: batch(1000), 1: batch(2000)})
    for _ in range(3):
        assert unread.times_ms({T0: 7, T1: 5}, {T0: 9, T1: 5}) == {(T0, 7): 1000}
        clock.now += ASK_EVERY_S
    ((_, body),) = leaders.requests
    assert (body["max_wait_ms"], body["isolation_level"]) == (0, 1)
    assert [row["fetch_offset"] for row in body["topics"][0]["partitions"]] == [7]


def test_nothing_is_asked_where_nobody_wants_metrics():
    unread, leaders, _ = oldest({0: batch(1000)}, wanted=False)
    assert unread.times_ms({T0: 0}, {T0: 9}) == {}
    assert leaders.asked() == []


def test_a_query_that_moves_on_is_asked_about_now_and_then():
    unread, leaders, clock = oldest({0: batch(1000)})
    found = []
    for second in range(25):
        clock.now = float(second)
        found.append(bool(unread.times_ms({T0: second}, {T0: 100})))
    assert len(leaders.asked()) == 3
    assert [second for second, is_known in enumerate(found) if is_known] == [0, 10, 20]


def test_of_hundreds_of_partitions_some_are_asked_in_turn():
    unread, leaders, clock = oldest({number: batch(1000) for number in range(300)})
    ends = {TP("t", number): 9 for number in range(300)}
    for _ in range(5):
        unread.times_ms(dict.fromkeys(ends, 0), ends)
        assert len(leaders.requests) <= 2
        assert len(leaders.asked()) <= 64
        clock.now += ASK_EVERY_S
    assert len(unread.times_ms(dict.fromkeys(ends, 0), ends)) == 299  # 99 has no leader


def test_a_first_batch_that_is_too_large_is_asked_for_alone():
    unread, leaders, _ = oldest({0: batch(1000), 2: b""})
    unread.times_ms({T0: 0, TP("t", 2): 0}, {T0: 9, TP("t", 2): 9})
    assert leaders.asked() == [0, 2, 2]


def test_a_leader_that_does_not_answer_fails_nothing_and_is_left_alone_for_a_while():
    unread, leaders, clock = oldest({0: batch(1000)})
    leaders.failing = RequestTimeout("no answer")
    assert unread.times_ms({T0: 0}, {T0: 9}) == {}
    assert leaders.asked() == [0]
    leaders.failing = None
    clock.now += ASK_AFTER_FAILURE_S - 1
    assert unread.times_ms({T0: 0}, {T0: 9}) == {}
    assert leaders.asked() == []
    clock.now += 1
    assert unread.times_ms({T0: 0}, {T0: 9}) == {(T0, 0): 1000}


def test_what_progress_carries_comes_back_and_disturbs_no_reader_of_offsets():
    times_ms = {(T0, 200): 1_700_000_000_000, (TP("a-b.c_d", 17), 0): 5}
    latest = {"t": {"0": 300}, oldest_to_text(times_ms): {}}
    progress = {"sources": [{"endOffset": '{"t":{"0":200}}', "latestOffset": latest}]}
    assert oldest_from_progress(progress) == times_ms
    assert lag(progress) == {T0: 100}
    for other in (None, "[1]", '{"@oldest;x":{}}', '{"@oldest;t/0/1=z":{}}', '{"@2;t/0/1=3":{}}', "[["):
        assert oldest_from_progress({"sources": [{"latestOffset": other}]}) == {}


@pytest.mark.broker
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_a_broker_says_when_the_next_record_was_written(kafka_broker, kafka_topic, kind):
    topic = kafka_topic(partitions=1, config={"message.timestamp.type": kind})
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for number in range(3):
        producer.produce(topic, value=bytes(40_000), partition=0, timestamp=1_600_000_000_000 + number)
        assert producer.flush(30) == 0
    reader = confluent_kafka.Consumer({"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": topic})
    reader.assign([confluent_kafka.TopicPartition(topic, 0, 1)])
    try:
        _, expected_ms = reader.poll(30).timestamp()
    finally:
        reader.close()
    with Cluster(ClientConfig.of(kafka_broker.bootstrap_servers)) as cluster:
        cluster.topics.describe([topic])
        unread = OldestUnread(cluster, IsolationLevel.READ_UNCOMMITTED, lambda: True)
        assert unread.times_ms({TP(topic, 0): 1}, {TP(topic, 0): 3}) == {(TP(topic, 0), 1): expected_ms}
