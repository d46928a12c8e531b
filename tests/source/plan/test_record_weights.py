"""What records weigh: by hand-written headers, by a cluster that counts questions, and by a broker's log files."""

import json
import struct
import uuid
from itertools import pairwise
from types import SimpleNamespace

import confluent_kafka
import pytest
from fake_broker import Error, FakeNet
from fetch_rig import Kafka

from kafkasource import options
from kafkasource.errors import RequestTimeout
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import FETCH
from kafkasource.source.plan.admission import Admission, Turns
from kafkasource.source.plan.record_weights import (
    SAMPLE_BYTES,
    UNKNOWN_WEIGHT,
    USUAL_WEIGHT,
    RecordWeights,
    first_offset,
    weight_of,
)
from kafkasource.source.spark.stream import StreamReader
from kafkasource.spark.releases import ReadMaxBytes
from kafkasource.types import IsolationLevel, OffsetRange
from kafkasource.types import TopicPartition as TP

MIB = 1 << 20
T0, T1 = TP("t", 0), TP("t", 1)


def batch(base_offset, offsets, size, magic=2):
    """A record batch of `size` bytes in all, with nothing right but what its header says of offsets (KIP-98)."""
    fields = (base_offset, size - 12, 0, magic, 0, 0, offsets - 1, 0, 0, -1, -1, -1, offsets)
    header = struct.pack(">qiibIhiqqqhii", *fields)
    return header + bytes(size - len(header))


# Headers.


def test_bytes_are_divided_by_the_offsets_that_batches_cover():
    assert weight_of(batch(100, 10, 1000) + batch(110, 30, 3000), 100) == 100


def test_a_cut_last_batch_counts_whole():
    assert weight_of(batch(0, 10, 1000) + batch(10, 10, 5000)[:61], 0) == 300
    assert weight_of(batch(0, 10, 1000) + batch(10, 10, 5000)[:60], 0) == 100


def test_a_fetch_into_the_middle_of_a_batch_counts_all_of_it():
    assert weight_of(batch(100, 10, 1000), 105) == 100


def test_what_compaction_removed_weighs_nothing():
    assert weight_of(batch(0, 10, 1000) + batch(90, 10, 1000), 0) == 20


def test_what_is_missing_before_the_first_batch_makes_its_records_no_lighter():
    assert weight_of(batch(90, 10, 1000), 0) == 100
    assert [first_offset(batch(90, 10, 1000), at) for at in (0, 90, 95)] == [90, 90, 95]
    assert first_offset(batch(90, 1, 1000, magic=1), 80) == 80  # the last of several, perhaps
    assert first_offset(b"", 7) == 7


def test_messages_of_old_format_count_one_by_one():
    assert weight_of(batch(7, 1, 300, magic=1) + batch(8, 1, 100, magic=0), 7) == 200


@pytest.mark.parametrize(
    "nonsense",
    [
        b"",
        bytes(60),
        bytes(200),
        b"\xff" * 200,
        batch(0, 10, 1000, magic=3),
        struct.pack(">qi", 0, -5) + bytes(100),
        batch(5, -3, 100),
    ],
)
def test_bytes_that_make_no_sense_weigh_nothing_known(nonsense):
    assert weight_of(nonsense, 0) is None
    assert weight_of(batch(0, 10, 1000) + nonsense, 0) == 100


def test_batches_that_go_backwards_are_not_followed():
    assert weight_of(batch(100, 10, 1000) + batch(50, 10, 9000), 100) == 100


# Questions.


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Leaders:
    """Two leaders (by the partition's parity) whose partitions answer what `records` has for them."""

    def __init__(self, records):
        self.caller = self
        self.records = records  # by partition: bytes, or an error code
        self.requests = []
        self.timeouts_ms = []
        self.failing = None
        self.takes_s, self.clock = 0.0, Clock()
        self.topics = SimpleNamespace(describe=lambda topics, propagation_ms: None)
        self.metadata = SimpleNamespace(
            leader_id=lambda tp: None if tp.partition == 99 else tp.partition % 2,
            topic_id=lambda topic: uuid.uuid5(uuid.NAMESPACE_DNS, topic),
            partition=lambda tp: SimpleNamespace(leader_epoch=7),
        )

    def send(self, node, api, body, *, timeout_ms, max_version):
        assert (api.name, max_version) == ("Fetch", None)
        self.requests.append((node, body))
        self.timeouts_ms.append(timeout_ms)
        return SimpleNamespace(node_id=node, result=lambda: self._answer(body))

    def wait(self, *pendings):
        self.clock.now += self.takes_s

    def _answer(self, body):
        if self.failing:
            raise self.failing
        answers = []
        for topic in body["topics"]:
            rows = []
            for row in topic["partitions"]:
                found = self.records.get(row["partition"], b"")
                error, records = (found, None) if isinstance(found, int) else (0, found)
                rows.append({"partition_index": row["partition"], "error_code": error, "records": records})
            answers.append({"topic_id": topic["topic_id"], "partitions": rows})
        return {"responses": answers}

    def asked(self):
        """Partitions of all requests, in order; forgets them."""
        topics = [topic for _, body in self.requests for topic in body["topics"]]
        rows = [row["partition"] for topic in topics for row in topic["partitions"]]
        self.requests = []
        return rows


def weights_of(records):
    leaders = Leaders(records)
    return RecordWeights(leaders, IsolationLevel.READ_COMMITTED, leaders.clock), leaders, leaders.clock


def test_each_leader_gets_one_request_that_waits_for_nothing():
    weights, leaders, _ = weights_of({0: batch(0, 10, 1000), 1: batch(5, 10, 100), 2: batch(0, 1, 777)})
    partitions = [TP("t", number) for number in range(4)]
    begin = {TP("t", 0): 0, TP("t", 1): 5, TP("t", 2): 0, TP("t", 3): 9}
    found = weights.weigh(begin, {**dict.fromkeys(partitions, 100), TP("t", 3): 9}, 100 * MIB)
    assert found == {TP("t", 0): 100, TP("t", 1): 10, TP("t", 2): 777}  # 3 has nothing
    assert sorted(node for node, _ in leaders.requests) == [0, 1]
    for _, body in leaders.requests:
        assert (body["max_wait_ms"], body["isolation_level"]) == (0, 1)
        assert body["max_bytes"] <= SAMPLE_BYTES
    assert leaders.requests[1][1]["topics"][0]["partitions"] == [
        {"partition": 1, "current_leader_epoch": 7, "fetch_offset": 5, "partition_max_bytes": 64 << 10}
    ]


def test_nothing_is_asked_while_what_is_behind_is_far_below_the_limit_nor_of_empty_logs():
    weights, leaders, clock = weights_of({0: batch(0, 10, 1000)})
    assert weights.weigh({T0: 0}, {T0: 0}, 1) == {}
    assert leaders.asked() == []
    weights.weigh({T0: 0}, {T0: 10}, 100_000)
    assert leaders.asked() == [0]
    assert weights.weigh({T0: 10}, {T0: 110}, 100_000) == {T0: 100}
    assert leaders.asked() == []
    weights.weigh({T0: 10}, {T0: 510}, 100_000)
    assert leaders.asked() == [0]
    clock.now += 61  # what is known has become old
    weights.weigh({T0: 10}, {T0: 11}, 100_000)
    assert leaders.asked() == [0]


def test_heavier_records_count_at_once_lighter_ones_by_and_by():
    weights, leaders, _ = weights_of({0: batch(0, 10, 1000)})
    weights.weigh({T0: 0}, {T0: 10_000}, 1)
    leaders.records = {0: batch(0, 1, 10_000)}
    assert weights.weigh({T0: 0}, {T0: 10_000}, 1) == {T0: 10_000}
    leaders.records = {0: batch(0, 10, 1000)}
    assert weights.weigh({T0: 0}, {T0: 10_000}, 1) == {T0: 1000}
    for _ in range(10):
        found = weights.weigh({T0: 0}, {T0: 10_000}, 1)
    assert 100 <= found[T0] < 101


def test_of_hundreds_of_partitions_some_are_asked_in_turn_and_the_others_are_the_mean():
    weights, leaders, clock = weights_of({number: batch(0, 10, 1000 * (1 + number % 2)) for number in range(300)})
    begin = {TP("t", number): 0 for number in range(300)}
    end = dict.fromkeys(begin, 1000)
    asked = []
    for _ in range(5):
        found = weights.weigh(begin, end, 1)
        assert sum(body["max_bytes"] for _, body in leaders.requests) <= SAMPLE_BYTES
        assert all(100 <= weight <= 200 for weight in found.values())
        now = leaders.asked()
        assert len(now) <= 64
        asked += now
        clock.now += 1
    assert set(asked) == set(range(300)) - {99}  # which has no leader
    assert found[TP("t", 98)] == 100
    assert found[TP("t", 299)] == 200
    assert 145 < found[TP("t", 99)] < 155


def test_a_partition_whose_first_batch_did_not_fit_is_asked_alone_then_named_first_the_next_time():
    weights, leaders, clock = weights_of({0: batch(0, 1, 100), 2: b"", 4: batch(0, 1, 300)})
    begin = {TP("t", number): 0 for number in (0, 2, 4)}
    assert weights.weigh(begin, dict.fromkeys(begin, 10**6), 1)[TP("t", 2)] == 200
    assert leaders.asked() == [0, 2, 4, 2]
    clock.now += 1
    leaders.records[2] = batch(0, 1, 500)
    assert weights.weigh(begin, dict.fromkeys(begin, 10**6), 1)[TP("t", 2)] == 500
    assert leaders.asked() == [2, 0, 4]
    clock.now += 1
    leaders.records[2] = b""
    assert weights.weigh(begin, dict.fromkeys(begin, 10**6), 1)[TP("t", 2)] == 500
    assert leaders.asked() == [0, 2, 4]  # something is known of it: its turn comes
    clock.now += 1
    weights.weigh(begin, dict.fromkeys(begin, 10**6), 1)
    assert leaders.asked() == [2, 0, 4]


def test_a_partition_is_not_asked_alone_where_its_topic_is_known_and_the_limit_far():
    weights, leaders, _ = weights_of({0: batch(0, 1, 100), 2: b""})
    begin = {TP("t", number): 0 for number in (0, 2)}
    assert weights.weigh(begin, dict.fromkeys(begin, 1000), MIB << 3)[TP("t", 2)] == 100
    assert leaders.asked() == [0, 2]
    begin = {TP("u", 2): 0}  # of another topic: what the first one weighs says little
    weights.weigh(begin, dict.fromkeys(begin, 1000), MIB << 3)
    assert leaders.asked() == [2, 2]


def test_a_sample_is_a_small_part_of_the_limit():
    weights, leaders, _ = weights_of({0: batch(0, 10, 1000)})
    weights.weigh({T0: 0}, {T0: 10**6}, 256 << 10)
    assert [body["max_bytes"] for _, body in leaders.requests] == [32 << 10]


def test_over_a_slow_line_what_is_old_or_missing_is_asked_for_seldom():
    """A first batch of 1 MB over 2 Mbit/s takes 4 s; then the known weights, or the mean, are good for 400."""
    weights, leaders, clock = weights_of({0: batch(0, 10, 1000)})
    leaders.takes_s = 4.0
    seen = []
    for _ in range(100):
        weights.weigh({T0: 0, T1: 0}, {T0: 10, T1: 10}, 100 * MIB)  # nothing comes of T1
        weights.estimate(ranges(40_000), 32 * MIB)
        seen += leaders.asked()
        clock.now += 10
    assert seen.count(0) == 3  # at 0, 404 and 808 s
    assert weights.weigh({T0: 0}, {T0: 10**6}, MIB) == {T0: 100}
    assert leaders.asked() == [0]  # where the limit is near, what is known has to be right


def test_a_sample_that_nobody_answers_is_taken_again_soon_and_says_so_once(caplog):
    """Until then its records count as heavy. Once they counted as 1 kB, and micro-batches of 64 MiB were 5 GB."""
    weights, leaders, clock = weights_of({0: batch(0, 1, 100)})
    leaders.takes_s, leaders.failing = 2.0, RequestTimeout("no answer")
    tried = []
    for _ in range(60):
        if leaders.asked():
            tried.append(clock.now - 2)
        assert weights.weigh({T0: 0}, {T0: 5000}, 64 * MIB) == {T0: UNKNOWN_WEIGHT}
        clock.now += 1
    assert len(tried) >= 5
    assert max(later - earlier for earlier, later in pairwise(tried)) <= 64
    assert caplog.text.count("topic t: no record came in time") == 1
    leaders.takes_s, leaders.failing = 0.001, None
    clock.now += 60
    assert weights.weigh({T0: 0}, {T0: 5000}, 64 * MIB) == {T0: 100}


def test_a_topic_of_which_nothing_is_known_is_asked_about_at_once_however_long_samples_take():
    weights, leaders, clock = weights_of({0: batch(0, 10, 1000)})
    leaders.takes_s = 1.9
    weights.weigh({T0: 0}, {T0: 1000}, 64 * MIB)
    clock.now += 1
    leaders.records = {1: batch(0, 1, MIB)}
    other = TP("u", 1)
    assert weights.weigh({T0: 0, other: 0}, {T0: 1000, other: 5000}, 64 * MIB)[other] == MIB


def test_a_first_sample_waits_for_long_enough_for_a_batch_of_a_megabyte_over_a_megabit():
    weights, leaders, clock = weights_of({0: batch(0, 10, 1000)})
    leaders.takes_s = 4.0
    weights.weigh({T0: 0}, {T0: 1000}, MIB)
    clock.now += 500
    weights.weigh({T0: 0}, {T0: 1000}, MIB)  # and later ones for what they have been seen to take
    first_ms, second_ms = leaders.timeouts_ms
    assert first_ms >= 8_389
    assert second_ms >= 2 * 4_000


def test_a_topic_counts_as_heavy_once_it_was_asked_about_in_vain_and_as_the_others_until_then():
    weights, leaders, _ = weights_of({0: batch(0, 10, 1000)})
    begin = {TP(f"t{number:02}", 0): 0 for number in range(70)}
    found = weights.weigh(begin, dict.fromkeys(begin, 100), 1)
    assert set(found.values()) == {100}  # of six nothing was asked
    leaders.failing = RequestTimeout("no answer")
    begin[TP("u", 0)] = 0
    found = weights.weigh(begin, dict.fromkeys(begin, 100), 1)
    assert found.pop(TP("u", 0)) == UNKNOWN_WEIGHT == MIB
    assert found[TP("t00", 0)] == 100


def end_of_a_batch(kafka, begin, **given):
    """Where a stream's next micro-batch ends that begins at this offset of t-0, with 1 MB as its limit."""
    given = {"kafka.bootstrap.servers": "bootstrap:9092", "subscribe": "t", "maxBytesPerTrigger": "1000000"} | given
    stream = StreamReader(options.parse(given, "source"), lambda config: FakeNet(kafka).cluster())
    end = stream.latestOffset({"t": {"0": begin}}, stream.getDefaultReadLimit())
    return json.loads(json.dumps(end))["t"]["0"]


class HeavyRecords(Kafka):
    """Records of 100 kB in the offsets [20, 100)."""

    value = b"x" * 100_000
    start = 20

    def _list_offsets(self, request):
        body = super()._list_offsets(request)
        for topic in body["topics"]:
            for row in topic["partitions"]:
                row["offset"] = max(row["offset"], self.start)
        return body

    def _of_partition(self, request, topic, asked):
        return {"error_code": 1} if asked["fetch_offset"] < self.start else super()._of_partition(request, topic, asked)


def test_a_micro_batch_keeps_to_its_limit_where_retention_has_removed_its_begin():
    """A query that comes back after a week: the sample at its offset is OFFSET_OUT_OF_RANGE."""
    assert end_of_a_batch(HeavyRecords(topics={"t": 1}), 0, failOnDataLoss="false") == 20 + 9


@pytest.mark.parametrize(("code", "records"), [(6, 9), (74, 9), (-1, 1)])
def test_a_micro_batch_keeps_to_its_limit_where_its_first_sample_fails(code, records):
    """6 and 74: the leader has moved, and another is asked. -1: nothing is known, so records count as heavy."""
    kafka = HeavyRecords(topics={"t": 1})
    kafka.fault(FETCH, Error(code))
    assert end_of_a_batch(kafka, 30) == 30 + records


def test_a_hole_before_the_first_record_is_passed_at_once_and_makes_no_record_lighter():
    """Compaction has left 1,000,000 offsets without a record; then come records of 1 MiB."""
    weights, leaders, _ = weights_of({0: batch(1_000_000, 1, MIB)})
    begin, end = {T0: 0}, {T0: 1_001_000}
    found = weights.weigh(begin, end, 64 * MIB)
    assert (found, weights.past_holes(begin)) == ({T0: MIB}, {T0: 1_000_000})
    assert weights.past_holes({T0: 999_999, T1: 5}) == {T0: 1_000_000, T1: 5}
    assert weights.past_holes({T0: 1_000_001}) == {T0: 1_000_001}
    at = Turns().share_bytes(weights.past_holes(begin), end, found, 64 * MIB)
    assert at == {T0: 1_000_064}
    assert weights.weigh(begin, {T0: 500_000}, 64 * MIB) == {}  # nothing but the hole
    leaders.records = {0: batch(1_000_064, 1, MIB)}
    assert weights.weigh(at, end, 64 * MIB) == {T0: MIB}
    assert weights.past_holes(at) == at


def test_a_failed_sample_leaves_what_was_known_and_fails_nothing():
    weights, leaders, _ = weights_of({0: batch(0, 10, 1000), 1: 6})
    assert weights.weigh({T0: 0, T1: 0}, {T0: 9999, T1: 9999}, 1) == {T0: 100, T1: 100}
    leaders.failing = RequestTimeout("no answer")
    assert weights.weigh({T0: 0, T1: 0}, {T0: 9999, T1: 9999}, 1) == {T0: 100, T1: 100}
    weights, leaders, _ = weights_of({0: -1})
    assert weights.weigh({T0: 0}, {T0: 10}, 1) == {T0: UNKNOWN_WEIGHT}


# For packing, where an old estimate will do.


def test_topics_that_are_gone_are_forgotten():
    weights, _, clock = weights_of({0: batch(0, 10, 1000)})
    for number in range(100):
        clock.now += 600
        weights.weigh({TP(f"t-{number}", 0): 0}, {TP(f"t-{number}", 0): 10}, 1)
    kept = [weights._weights, weights._answered_at, weights._topics]
    assert [len(each) for each in kept] == [7, 7, 7]  # those of the last hour
    assert weights.weigh({TP("t-99", 0): 0}, {TP("t-99", 0): 10}, 10**9) == {TP("t-99", 0): 100}


def ranges(*sizes):
    return [OffsetRange(TP("t", number), 5, 5 + size) for number, size in enumerate(sizes)]


def test_an_estimate_for_packing_asks_about_a_topic_once_then_once_a_minute():
    weights, leaders, clock = weights_of({0: batch(5, 10, 1000), 1: batch(5, 10, 3000)})
    assert weights.estimate(ranges(100, 100), 10**6) == {T0: 100, T1: 300}
    assert leaders.asked() == [0, 1]
    for seconds in (0, 10, 49):
        clock.now += seconds
        assert weights.estimate(ranges(100, 100), 10**6) == {T0: 100, T1: 300}
        assert leaders.asked() == []
    clock.now += 1
    weights.estimate(ranges(100), 10**6)
    assert leaders.asked() == [0]
    weights.estimate([OffsetRange(TP("u", 0), 0, 100)], 10**6)  # another topic
    assert leaders.asked() == [0]


def test_an_estimate_for_packing_of_hundreds_of_partitions_asks_about_some_of_them():
    weights, leaders, clock = weights_of({number: batch(5, 10, 1000) for number in range(300)})
    weights.estimate(ranges(*[100] * 300), 10**6)
    assert len(leaders.asked()) == 64
    for _ in range(4):
        clock.now += 1
        assert set(weights.estimate(ranges(*[100] * 300), 10**6).values()) == {100}
        assert leaders.asked() == []


def test_an_estimate_near_to_what_would_fill_a_task_is_asked_for_again_after_seconds():
    weights, leaders, clock = weights_of({0: batch(5, 10, 1000)})
    weights.estimate(ranges(1300), 10**6)
    leaders.asked()
    leaders.records = {0: batch(5, 1, 1000)}
    clock.now += 4
    assert weights.estimate(ranges(1300), 10**6) == {T0: 100}
    clock.now += 1
    assert weights.estimate(ranges(1300), 10**6) == {T0: 1000}
    assert leaders.asked() == [0]


def test_what_cannot_fill_a_task_whatever_it_weighs_is_not_asked_about():
    weights, leaders, _ = weights_of({0: batch(5, 10, 1000)})
    assert weights.estimate(ranges(15, 16), 32 * MIB) == {}
    assert weights.estimate([], 32 * MIB) == {}
    assert leaders.asked() == []


def test_an_estimate_that_fails_is_the_one_for_unknown_records():
    weights, leaders, _ = weights_of({})
    leaders.failing = RequestTimeout("no answer")
    for _ in range(2):
        assert weights.estimate(ranges(1000), 10**5) == {T0: USUAL_WEIGHT}
    assert leaders.asked() == [0]


# A broker's log.


class Log:
    """A topic on the broker, written by confluent-kafka, read by nobody: batches of it are admitted one by one."""

    def __init__(self, broker, topic):
        self.broker, self.topic = broker, topic
        self.producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20, "message.max.bytes": 4 * MIB}
        )
        self.written = {}

    def write(self, partition, count, size):
        for _ in range(count):
            self.producer.produce(self.topic, value=bytes(size), partition=partition)
            self.producer.poll(0)
        assert self.producer.flush(30) == 0
        tp = TP(self.topic, partition)
        self.written[tp] = self.written.get(tp, 0) + count

    def stored_bytes(self, partition):
        """By the log's own files."""
        folder = self.broker.folder / "node-1" / f"{self.topic}-{partition}"
        return sum(file.stat().st_size for file in folder.glob("*.log"))

    def batches(self, limit):
        """The offsets that each micro-batch takes of each partition, up to the end of the log."""
        given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "maxBytesPerTrigger": str(limit)}
        admission, at = Admission(options.parse(given, "source")), dict.fromkeys(self.written, 0)
        with Cluster(ClientConfig.of(self.broker.bootstrap_servers)) as cluster:
            cluster.topics.describe([self.topic])
            weights = RecordWeights(cluster, IsolationLevel.READ_UNCOMMITTED)
            while at != self.written:
                end = admission.admit(
                    at,
                    self.written,
                    ReadMaxBytes(limit),
                    earliest_of_new=dict.fromkeys,
                    weigh=lambda *asked: (asked[0], weights.weigh(*asked)),
                )
                assert end != at
                yield {tp: end[tp] - at[tp] for tp in end}
                at = end


@pytest.fixture
def log(kafka_broker, kafka_topic):
    if kafka_broker.existing:
        pytest.skip("needs the broker's files")
    return Log(kafka_broker, kafka_topic(partitions=2, config={"max.message.bytes": str(4 * MIB)}))


@pytest.mark.broker
def test_batches_of_light_and_heavy_partitions_keep_to_the_limit(log):
    log.write(0, 20_000, 100)
    log.write(1, 500, 10_000)
    weight = {tp: log.stored_bytes(tp.partition) / count for tp, count in log.written.items()}
    assert 100 < weight[TP(log.topic, 0)] < 130
    assert 10_000 < weight[TP(log.topic, 1)] < 10_200
    *batches, last = [sum(n * weight[tp] for tp, n in taken.items()) for taken in log.batches(MIB)]
    assert len(batches) >= 5
    for stored in batches:
        assert 0.9 * MIB <= stored <= 1.1 * MIB
    assert last <= 1.1 * MIB


@pytest.mark.broker
def test_a_log_whose_records_become_heavier_is_noticed_with_the_next_batch(log):
    log.write(0, 5000, 100)
    light = log.stored_bytes(0) / 5000
    log.write(0, 400, 10_000)
    heavy = (log.stored_bytes(0) - light * 5000) / 400
    at, batches = 0, []
    for (taken,) in (batch.values() for batch in log.batches(100_000)):
        end = at + taken
        batches.append((at, (min(end, 5000) - min(at, 5000)) * light + (max(end, 5000) - max(at, 5000)) * heavy))
        at = end
    assert all(stored <= 1.1 * 100_000 for at, stored in batches if at >= 5000)
    assert sum(1 for _, stored in batches if stored > 1.1 * 100_000) <= 1  # the one that met the change


@pytest.mark.broker
def test_records_larger_than_the_limit_go_one_by_one(log):
    log.write(0, 3, 2 * MIB)
    log.write(1, 2, MIB)
    assert [sum(taken.values()) for taken in log.batches(1000)] == [1] * 5
