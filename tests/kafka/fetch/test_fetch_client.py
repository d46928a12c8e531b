"""Fetcher, cluster and wire together, against brokers in this process that fail on command. No test waits."""

import uuid

import pytest
from fake_broker import CLOSE, Answer, Cut, Error, FakeTopic, Flip
from fetch_rig import Kafka, Rig, offsets, record_batch

from kafkasource.errors import CorruptRecordBatch, DataLoss, DeadlineExceeded
from kafkasource.kafka.network.receive_memory import frame_buffers
from kafkasource.kafka.protocol.apis import FETCH, LIST_OFFSETS, METADATA
from kafkasource.kafka.protocol.frames import READ_AHEAD_BYTES, FrameBuffers
from kafkasource.types import IsolationLevel, OffsetRange, TopicPartition


@pytest.fixture
def rig():
    return Rig()


def fetched_offsets(rig):
    return [offset for _, offset in rig.fetches()]


def test_a_partition_is_read_whole_in_bounded_fetches(rig):
    assert rig.read(5, 95) == list(range(5, 95))
    assert len(fetched_offsets(rig)) > 3
    assert fetched_offsets(rig) == sorted(set(fetched_offsets(rig)))


@pytest.mark.parametrize("version", [4, 9, 12, 13, 18])
def test_topics_are_named_as_the_fetch_version_wants(rig, version):
    rig.kafka.versions[FETCH.key] = (4, version)
    assert rig.read(0, 30) == list(range(30))
    assert {request.version for request in rig.kafka.asked(FETCH)} == {version}


@pytest.mark.parametrize("version", [6, 7, 8, 11])
def test_a_used_up_quota_is_waited_for_in_each_version_of_fetch(rig, version):
    """Azure Event Hubs served Fetch 4 to 6 (aiokafka #945); KIP-219's promise to wait begins with version 8."""
    rig.kafka.versions[FETCH.key] = (4, version)
    body = {"throttle_time_ms": 1000, "error_code": 0, "session_id": 0, "responses": []}
    rig.kafka.fault(FETCH, *[Answer(body)] * 5)
    start = rig.net.now
    assert rig.read() == list(range(100))
    assert rig.net.now - start == pytest.approx(5)


def test_a_cluster_without_topic_ids_is_asked_by_name(rig):
    rig.kafka.topics["t"].topic_id = uuid.UUID(int=0)
    assert rig.read(0, 30) == list(range(30))
    assert {request.version for request in rig.kafka.asked(FETCH)} == {12}


def test_a_leader_that_moves_between_two_fetches_is_followed(rig):
    batches = rig.batches()
    first = next(batches)
    rig.kafka.move_leader("t", 0, 2)
    rest = list(batches)
    assert offsets([first, *rest]) == list(range(100))
    assert {request.node_id for request in rig.kafka.asked(FETCH)} == {1, 2}


def without_a_leader(rig, seconds):
    """The partition's only replica restarts."""

    def back():
        rig.topic.leaders[0] = 1
        rig.topic.epochs[0] += 1

    rig.topic.leaders[0] = -1
    rig.cluster.topics.describe(["t"])
    rig.net.later(seconds, back)


@pytest.mark.parametrize("read_before", [0, 1])
@pytest.mark.parametrize("away_s", [50, 90, 119])
def test_a_partition_may_be_without_a_leader_for_almost_poll_timeout_ms(rig, away_s, read_before):
    rows = rig.batches(poll_timeout_ms=120_000)
    found = [next(rows) for _ in range(read_before)]
    without_a_leader(rig, away_s)
    assert offsets([*found, *rows]) == list(range(100))


def test_a_partition_that_gets_no_leader_fails_the_task_after_poll_timeout_ms_and_says_so(rig):
    rows = rig.batches(poll_timeout_ms=120_000)
    next(rows)
    start = rig.net.now
    without_a_leader(rig, 10_000)
    with pytest.raises(DeadlineExceeded, match=r"in 120000 milliseconds.*pollTimeoutMs.*LEADER_NOT_AVAILABLE"):
        list(rows)
    assert 120 <= rig.net.now - start < 120 + 60  # a last attempt takes kafka.default.api.timeout.ms


def test_brokers_that_all_restart_may_be_away_for_almost_poll_timeout_ms(rig):
    rows = rig.batches(poll_timeout_ms=120_000)
    found = [next(rows)]
    rig.net.fates.update(dict.fromkeys(["broker-1", "broker-2", "bootstrap"], "refused"))
    for transport in rig.net.live():
        transport.reset = True
    rig.net.later(90, rig.net.fates.clear)
    assert offsets([*found, *rows]) == list(range(100))


@pytest.mark.parametrize("fault", [CLOSE, Cut(7), Cut(700), *map(Error, (6, 74, 75, 78, 56, -1, 9999))])
def test_a_passing_fault_repeats_nothing_and_loses_nothing(rig, fault):
    rig.kafka.fault(FETCH, None, fault, None, fault)
    assert rig.read() == list(range(100))


def test_a_bit_flipped_on_disk_is_an_error_with_topic_partition_and_offset(rig):
    rig.kafka.fault(FETCH, None, *[Flip(-20)] * 10)
    batches = rig.batches(max_partition_bytes=1)
    assert offsets([next(batches)]) == list(range(10))
    with pytest.raises(CorruptRecordBatch, match=r"t-0.*offset 10"):
        next(batches)
    assert fetched_offsets(rig) == [0, 10, 20, 10, 20]


def test_what_the_process_remembers_of_an_older_topic_is_no_loss(rig):
    rig.read(0, 10)
    rig.kafka.topics["t"].topic_id = uuid.uuid4()
    assert rig.read() == list(range(100))


def test_a_worker_asks_no_more_for_topics_that_it_has_not_read_for_five_minutes(rig):
    """As Java's producer (metadata.max.idle.ms): under a pattern topics come and go."""
    for name in ("monday", "tuesday"):
        rig.kafka.topics[name] = FakeTopic([1])
        assert offsets(rig.fetch(OffsetRange(TopicPartition(name, 0), 0, 10))) == list(range(10))
        del rig.kafka.topics[name]
    asked = []
    for _ in range(4):  # metadata.max.age.ms is 5 minutes, too
        rig.net.now += 300
        rig.kafka.requests.clear()
        rig.read()
        asked += [[topic["name"] for topic in request.body["topics"]] for request in rig.kafka.asked(METADATA)]
    assert asked[-1] == ["t"]


def test_a_topic_that_is_read_for_long_stays_known(rig):
    batches = rig.batches(max_partition_bytes=1)
    first = next(batches)
    rig.kafka.requests.clear()
    rest = []
    for batch in batches:
        rig.net.now += 200  # Spark takes its time
        rest.append(batch)
    assert offsets([first, *rest]) == list(range(100))
    asked = [[topic["name"] for topic in request.body["topics"]] for request in rig.kafka.asked(METADATA)]
    assert asked == [["t"]] * 4  # after 400, 800, 1200 and 1600 seconds, as metadata.max.age.ms says


class EndsAt50(Kafka):
    log_end = 50

    def _of_partition(self, request, topic, asked):
        at = asked["fetch_offset"]
        return {"records": record_batch(at // 10 * 10) if at < 50 else b"", "high_watermark": 50}


@pytest.fixture
def ends_at_50():
    """A log of which neither id nor epoch tells that it was planned to be longer."""
    rig = Rig()
    rig.kafka.__class__ = EndsAt50
    return rig


@pytest.mark.parametrize("start", [40, 50])
def test_a_log_that_ends_within_the_range_is_a_loss_and_the_query_goes_on_where_that_is_tolerated(
    ends_at_50, start, caplog
):
    with pytest.raises(DataLoss, match=r"offset \[50, 100\) for topic partition t-0: the log ends at 50"):
        ends_at_50.read(start, 100)
    assert ends_at_50.read(start, 100, fail_on_data_loss=False) == list(range(start, 50))
    assert "50 offsets are skipped; reading goes on at 100" in caplog.text


def test_a_new_leader_that_cannot_tell_the_high_watermark_yet_has_lost_nothing(ends_at_50):
    ends_at_50.kafka.fault(LIST_OFFSETS, *[Error(78)] * 200)  # OFFSET_NOT_AVAILABLE (KIP-207)
    with pytest.raises(DeadlineExceeded, match=r"offset 50 of t-0 in 120000 milliseconds .*pollTimeoutMs"):
        ends_at_50.read(40, 100, fail_on_data_loss=False)


def test_an_open_transaction_is_waited_for_and_lost_by_nobody(ends_at_50):
    ends_at_50.kafka.log_end = 100  # the high watermark; the last stable offset is 50
    committed = {"isolation_level": IsolationLevel.READ_COMMITTED, "fail_on_data_loss": False}
    with pytest.raises(DeadlineExceeded, match=r"offset 50 of t-0 in 120000 milliseconds .*pollTimeoutMs"):
        ends_at_50.read(40, 100, **committed)
    (asked,) = ends_at_50.kafka.asked(LIST_OFFSETS)
    assert asked.body["isolation_level"] == IsolationLevel.READ_UNCOMMITTED.value


def test_a_reader_that_stops_early_leaves_the_connection_usable(rig):
    batches = rig.batches()
    next(batches)
    batches.close()
    assert rig.read() == list(range(100))
    assert rig.net.now < 1001


@pytest.mark.parametrize("value_bytes", [9_000, 20_000])
def test_no_more_than_one_answer_is_held_and_one_received(rig, monkeypatch, value_bytes):
    rig.kafka.value = bytes(value_bytes)
    before = frame_buffers().kept_bytes  # of other tests in this process
    memory, take = [], FrameBuffers.take
    monkeypatch.setattr(FrameBuffers, "take", lambda *given: (view := take(*given), memory.append(view.obj.address))[0])  # type: ignore[attr-defined]
    for _ in rig.batches(max_partition_bytes=20 * value_bytes):
        pass
    assert len(memory) >= 5
    assert len(set(memory)) <= 2  # used again and again
    assert frame_buffers().kept_bytes - before < 2 * 21 * value_bytes + 4 * READ_AHEAD_BYTES
