"""One append, several clusters: what each acknowledges or discards, on clients that answer, stall or never come."""

import itertools
import threading
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from fan_out_rig import LEADERS, AnsweringClient, SilentClient, discarded, fan_out, rows, values, write, written
from sink_fakes import FakeClock, FakeMetadata

from kafkasource import metrics
from kafkasource.errors import DeadlineExceeded, TopicAuthorizationFailed
from kafkasource.kafka.producer.rows import InvalidRow, Rows
from kafkasource.sink.clusters.fan_out import FanOut, SlowCluster
from kafkasource.sink.clusters.offset_spans import Mapped
from kafkasource.sink.clusters.slow_cluster import Refusals
from kafkasource.types import Discarded, TopicPartition, Written


def test_each_cluster_gets_every_row():
    clients = {name: AnsweringClient() for name in ("east", "west", "south")}
    with fan_out(clients) as (to, _), to.delivery() as delivery:
        for number in range(20):
            to.append(rows(10, b"k%d" % number), delivery)
    for name in clients:
        assert (written(delivery, name), delivery.discarded(name)) == (200, {})


def test_a_clusters_own_template_says_where_its_rows_go():
    there = TopicPartition("east.t", 0)
    clients = {"east": AnsweringClient({there: 1}), "west": AnsweringClient({TopicPartition("t", 0): 1})}
    clients["east"].offsets = {there: 7}
    with fan_out(clients, east__topic="east.${topic}") as (to, _), to.delivery() as delivery:
        to.append(rows(3), delivery)
    [size] = [len(batch) for sent in clients["east"].sent for batch in sent.batches.values()]
    assert delivery.written("east") == {there: Written(3, size, 7, 9)}
    assert set(delivery.written("west")) == {TopicPartition("t", 0)}


def test_with_four_producers_a_keys_rows_are_in_order_and_of_one_of_them():
    clients = [AnsweringClient() for _ in range(4)]
    with fan_out({"east": clients}, producersPerCluster=4) as (to, _), to.delivery() as delivery:
        for number in range(0, 400, 10):
            keys = [b"k%d" % (n % 7) for n in range(number, number + 10)]
            texts = [b"%s:%d" % (key, n) for n, key in enumerate(keys, number)]
            batch = Rows("t", 10, pa.array(keys, pa.binary()), pa.array(texts, pa.binary()), None, None, None)
            to.append(batch, delivery)
    assert written(delivery, "east") == 400
    homes = {}
    for producer, client in enumerate(clients):
        for value in values(client):
            key, number = value.split(b":")
            homes.setdefault(key, []).append((producer, int(number)))
    assert len(homes) == 7
    for found in homes.values():
        assert len({producer for producer, _ in found}) == 1
        assert [number for _, number in found] == sorted(number for _, number in found)


def test_producers_of_a_cluster_share_its_memory():
    with fan_out({"east": [AnsweringClient(), AnsweringClient()]}, producersPerCluster=2) as (_, producers):
        assert {id(producer.pool) for producer in producers["east"].producers} == {id(producers["east"].pool)}
        assert producers["east"].pool.total_bytes == 65536


def test_a_dead_cluster_that_discards_loses_its_oldest_rows_and_no_other_cluster_any_and_metrics_say_so():
    def counted(what, cluster):
        found = metrics.process_counts().snapshot().counters
        name = f"kafkasource_{what}_total"
        return sum(n for (metric, labels), n in found.items() if metric == name and labels[:2] == (cluster, "t"))

    clients = {"metered": AnsweringClient(), "dead": SilentClient()}
    with fan_out(clients, dead__onSlowCluster="discard", slowClusterWait="20ms") as (to, producers):
        for turn in (1, 2):  # the second task finds it dead
            with to.delivery() as delivery:
                for _ in range(200):
                    to.append(rows(10), delivery)
                    assert producers["dead"].queued_bytes <= 65536
            assert (written(delivery, "metered"), delivery.discarded("metered")) == (2000, {})
            assert (written(delivery, "dead"), discarded(delivery, "dead")) == (0, 2000)
            assert sum(one.bytes for one in delivery.discarded("dead").values()) == 2000 * 100
            assert counted("records_written", "metered") == counted("records_discarded", "dead") == turn * 2000
            assert counted("bytes_discarded", "dead") == turn * 2000 * 100
            assert counted("records_discarded", "metered") == counted("records_written", "dead") == 0
        limits = metrics.process_counts().snapshot().gauges
        assert limits["kafkasource_queue_limit_bytes", ("metered",)] == 65536


def test_what_waits_is_dropped_oldest_first_down_to_the_low_watermark():
    client = SilentClient({TopicPartition("t", 0): 1})
    watermarks = {"highWatermarkBytes": 20 * 1024, "lowWatermarkBytes": 8 * 1024}
    with fan_out({"west": client}, onSlowCluster="discard", slowClusterWait=0, **watermarks) as (to, producers):
        west = producers["west"]
        queues = west.producers[0].queues
        with to.delivery() as delivery:
            while west.queued_bytes <= 20 * 1024:
                to.append(rows(8), delivery)
            before = queues.unsent()
            to.append(rows(8), delivery)
            left = queues.unsent()
            # What is on the wire counts, and stays; of the rest the newest stay, and one batch is new.
            assert west.queued_bytes <= 8 * 1024 + 1024
            assert left[:-1] == before[len(before) - len(left) + 1 :]
            assert len(left) > 1
    assert (written(delivery, "west"), discarded(delivery, "west") % 8) == (0, 0)


def test_a_cluster_that_comes_back_gets_what_comes_from_then_on():
    client = SilentClient()
    clients = {"east": AnsweringClient(), "west": client}
    with fan_out(clients, west__onSlowCluster="discard", slowClusterWait="20ms") as (to, producers):
        with to.delivery() as delivery:
            to.append(rows(10), delivery)
        assert discarded(delivery, "west") == 10
        assert producers["west"].health.dead
        client.is_back()
        while producers["west"].health.dead:
            threading.Event().wait(0.001)
        with to.delivery() as delivery:
            to.append(rows(7), delivery)
        assert (written(delivery, "west"), delivery.discarded("west")) == (7, {})


def test_a_cluster_that_comes_back_is_found_by_tasks_that_send_only_at_their_end():
    clients = {"west": AnsweringClient()}
    clients["west"].metadata.leaders = dict.fromkeys(LEADERS)  # nothing can be sent, so no late answer tells of it
    lingering = {"kafka_linger_ms": 60_000, "kafka_delivery_timeout_ms": 120_000}
    with fan_out(clients, onSlowCluster="discard", slowClusterWait="20ms", **lingering) as (to, producers):
        write(to, [rows(1)])
        assert producers["west"].health.dead
        clients["west"].metadata.leaders = LEADERS
        for _ in range(100):  # on a busy machine it may be late, and be given up, once more
            while producers["west"].health.dead:  # 200 ms
                threading.Event().wait(0.005)
            if written(write(to, [rows(5)]), "west") == 5:
                break
        else:
            pytest.fail("its rows are given up though it answers")


def test_a_cluster_that_was_never_reached_discards_what_it_gets():
    clients = {"east": AnsweringClient(), "west": SilentClient({})}
    with fan_out(clients, west__onSlowCluster="discard", slowClusterWait="20ms") as (to, _), to.delivery() as delivery:
        for _ in range(50):
            to.append(rows(10), delivery)
    assert written(delivery, "east") == 500
    assert delivery.discarded("west") == {TopicPartition("t", -1): Discarded(500, 50_000)}


def test_fail_fails_the_task_when_one_cluster_holds_up_the_others():
    clients = {"east": AnsweringClient(), "west": SilentClient()}
    told = r"'west' has .* bytes to acknowledge, more than 'highWatermarkBytes'"
    with (
        fan_out(clients, west__onSlowCluster="fail", slowClusterWait="20ms") as (to, _),
        pytest.raises(SlowCluster, match=told),
    ):
        write(to, (rows(10) for _ in range(1000)))


class UnhurriedClient(AnsweringClient):
    """Answers every request, some milliseconds later."""

    def poll(self, timeout_ms):
        if any(not sent.pending.done for sent in self.sent):
            threading.Event().wait(0.002)
        super().poll(timeout_ms)


@pytest.mark.parametrize("policy", ["discard", "fail"])
def test_a_cluster_that_alone_gets_a_tasks_rows_holds_up_nobody_and_gets_them_all(policy):
    clients = {"east": AnsweringClient(), "west": UnhurriedClient()}
    patient = {"slowClusterWait": "1min", "east__onlyTopics": "^orders$"}
    with fan_out(clients, west__onSlowCluster=policy, **patient) as (to, producers):
        producers["west"].health.held_up(60_000)  # more it may not hold up others
        delivery = write(to, (rows(10) for _ in range(500)))
    assert (written(delivery, "west"), delivery.discarded("west")) == (5000, {})


def test_at_the_end_of_a_task_it_is_not_late_either():
    clients = {"east": AnsweringClient(), "west": UnhurriedClient()}
    patient = {"slowClusterWait": "1min", "east__onlyTopics": "^orders$"}
    with fan_out(clients, west__onSlowCluster="discard", **patient) as (_, producers):
        hours_ms = itertools.count(step=3_600_000)  # one passes between any two looks
        to = FanOut(producers, clock_ms=lambda: next(hours_ms), wall_clock_ms=lambda: 1_000_000)
        delivery = write(to, (rows(10) for _ in range(40)))
    assert (written(delivery, "west"), delivery.discarded("west")) == (400, {})


class GrowingTopic(FakeMetadata):
    """Brokers answer each question, and know of partition 1 only at the last of these."""

    def __init__(self, questions):
        super().__init__({TopicPartition("t", 0): 1})
        self._left = questions

    def request_update(self):
        self._left -= 1
        if self._left == 0:
            self.leaders = dict(LEADERS)
        self.version += 1
        return super().request_update()


def test_a_partition_that_a_cluster_does_not_have_yet_is_waited_for_though_it_may_discard():
    """A mirror's source may have a new partition some seconds before the mirror adds it at the target."""
    clients = {"east": AnsweringClient(), "west": AnsweringClient()}
    clients["west"].metadata = GrowingTopic(questions=2)
    with fan_out(clients, west__onSlowCluster="discard", slowClusterWait="1s", partitioning="source") as (to, _):
        delivery = write(to, [at_partition(1, 10)])
    assert [(written(delivery, name), delivery.discarded(name)) for name in clients] == [(10, {}), (10, {})]


def test_a_partition_that_never_comes_is_a_wrong_row_under_discard_too():
    client = AnsweringClient()
    client.metadata = GrowingTopic(questions=0)
    options = {"onSlowCluster": "discard", "slowClusterWait": "500ms", "kafka_max_block_ms": 500}
    with (
        fan_out({"west": client}, partitioning="source", **options) as (to, _),
        pytest.raises(InvalidRow, match="topic 't' has no partition 1"),
    ):
        write(to, [at_partition(1, 10)])


def test_rows_of_a_partition_that_a_dead_cluster_cannot_tell_of_are_discarded_and_others_get_them():
    clients = {"east": AnsweringClient(), "west": SilentClient({TopicPartition("t", 0): 1})}
    with fan_out(clients, west__onSlowCluster="discard", slowClusterWait="5ms", partitioning="source") as (to, _):
        delivery = write(to, [at_partition(1, 10)])
    assert written(delivery, "east") == 10
    assert delivery.discarded("west") == {TopicPartition("t", -1): Discarded(10, 1000)}


def test_block_waits_for_room_and_a_cluster_that_comes_back_gets_everything():
    client = SilentClient({TopicPartition("t", 0): 1})
    with fan_out({"east": AnsweringClient(), "west": client}) as (to, producers):
        results = []

        def task():
            with to.delivery() as delivery:
                for number in range(200):
                    to.append(rows(10, value=b"%03d" % number * 30), delivery)
            results.append(delivery)

        thread = threading.Thread(target=task)
        thread.start()
        while not producers["west"].pool.queued:  # the task waits for memory
            assert thread.is_alive()
            threading.Event().wait(0.001)
        client.is_back({TopicPartition("t", 0): 1})
        thread.join(20)
        [delivery] = results
    assert [written(delivery, name) for name in ("east", "west")] == [2000, 2000]
    assert delivery.discarded("west") == {}
    assert values(client) == [b"%03d" % number * 30 for number in range(200) for _ in range(10)]


def test_rows_too_old_are_dropped_where_the_cluster_says_so_and_counted_by_partition():
    """Nobody knows how old rows without a timestamp are. -1 is how Kafka writes that, null is the time of writing."""
    clients = {"east": AnsweringClient(), "west": AnsweringClient()}
    key = b"21"  # murmur2, positive: 1173551340, so partition 0 of 2
    with fan_out(clients, west__maxRecordAge="10s") as (to, _), to.delivery() as delivery:
        to.append(rows(5, key, timestamps=[989_999, 990_000, None, 5, -1]), delivery)
    assert (written(delivery, "east"), written(delivery, "west")) == (5, 3)
    assert delivery.discarded("west") == {TopicPartition("t", 0): Discarded(2, 2 * 102)}


def test_what_could_not_be_delivered_for_so_long_is_dropped_under_block_too():
    clients = {"east": AnsweringClient(), "west": SilentClient()}
    clients["west"].metadata.leaders = dict.fromkeys(LEADERS)  # so that nothing is sent
    with fan_out(clients, west__maxRecordAge="30ms") as (to, _), to.delivery() as delivery:
        to.append(rows(10, b"21"), delivery)
    assert (written(delivery, "east"), written(delivery, "west")) == (10, 0)
    assert delivery.discarded("west") == {TopicPartition("t", 0): Discarded(10, 1020)}


def test_an_error_that_is_not_of_slowness_fails_the_task_under_discard_too():
    west = AnsweringClient()
    west.code = 87  # INVALID_RECORD
    with (
        fan_out({"east": AnsweringClient(), "west": west}, onSlowCluster="discard") as (to, _),
        pytest.raises(Exception, match="INVALID_RECORD"),
    ):
        write(to, [rows(10)])


def test_rows_of_a_failed_task_are_given_up_everywhere():
    clients = {"east": AnsweringClient(), "west": AnsweringClient()}
    with fan_out(clients, kafka_linger_ms=60_000, kafka_delivery_timeout_ms=120_000) as (to, producers):
        with pytest.raises(ZeroDivisionError):
            write(to, (rows(3 // left) for left in (1, 0)))
        with to.delivery() as delivery:
            to.append(rows(2), delivery)
        assert [written(delivery, name) for name in clients] == [2, 2]
        assert all(one.queued_bytes == 0 for one in producers.values())


def with_a_large_one(*values):
    return Rows("t", len(values), None, pa.array(values, pa.binary()), None, None, None)


def test_each_cluster_gets_dead_letters_under_their_own_name_and_loses_no_count():
    leaders = LEADERS | {TopicPartition("all", 0): 1, TopicPartition("dlq", 0): 1}
    clients = {"east": AnsweringClient(leaders), "west": AnsweringClient(leaders)}
    large = b"L" * 3000
    options = {"kafka_max_request_size": 1024, "west__topic": "all", "east__onlyTopics": "t"}
    with fan_out(clients, "dlq", **options) as (to, _):
        made_before = replace(with_a_large_one(b"cannot be encoded"), topic="dlq")
        delivery = write(to, [with_a_large_one(b"a", large, b"b"), made_before, with_a_large_one(b"c")])
    for name, topic in (("east", "t"), ("west", "all")):
        records = Counter()
        for tp, one in delivery.written(name).items():
            records[tp.topic] += one.records
        assert records == {topic: 3, "dlq": 2}
        assert delivery.discarded(name) == {}
        assert sorted(values(clients[name])) == sorted([large, b"a", b"b", b"c", b"cannot be encoded"])


def test_dead_letters_that_a_dead_cluster_does_not_take_count_as_discarded():
    leaders = LEADERS | {TopicPartition("dlq", 0): 1}
    clients = {"east": AnsweringClient(leaders), "west": SilentClient(leaders)}
    options = {"kafka_max_request_size": 1024, "west__onSlowCluster": "discard", "west__slowClusterWait": "50ms"}
    with fan_out(clients, "dlq", **options) as (to, _):
        delivery = write(to, [with_a_large_one(b"a", b"L" * 3000, b"b")])
    assert (written(delivery, "east"), discarded(delivery, "east")) == (3, 0)
    assert (written(delivery, "west"), discarded(delivery, "west")) == (0, 3)


def test_a_producer_that_lingers_gives_way_to_one_that_needs_its_memory():
    clients = [AnsweringClient() for _ in range(2)]
    lingering = {"kafka_linger_ms": 60_000, "kafka_buffer_memory": 2048, "highWatermarkBytes": 2048}
    with fan_out({"east": clients}, producersPerCluster=2, **lingering) as (to, _):
        delivery = write(to, (rows(10, b"k%d" % (number % 9)) for number in range(60)))
    assert written(delivery, "east") == 600


class WithoutTheTopic(FakeMetadata):
    """A broker answers each question that it has no topic "t"."""

    def __init__(self, leaders=None, *names):
        super().__init__(leaders or {TopicPartition("other", 0): 1})
        self.topic_errors = dict.fromkeys(names or ["t"], 3)  # UNKNOWN_TOPIC_OR_PARTITION

    def request_update(self):
        self.version += 1
        return super().request_update()


@pytest.mark.parametrize("policy", [{"onSlowCluster": "fail"}, {"onSlowCluster": "block"}, {"maxRecordAge": 5}])
def test_a_topic_that_is_not_there_fails_the_task_unless_the_cluster_may_discard(policy):
    client = AnsweringClient()
    client.metadata = WithoutTheTopic()
    with (
        fan_out({"east": client}, kafka_max_block_ms=30, **policy) as (to, _),
        pytest.raises(DeadlineExceeded, match="Topic t not present"),
    ):
        write(to, [rows(10)])


class Refuses(WithoutTheTopic):
    def __init__(self, code, leaders=None):
        super().__init__(leaders, "t", "refused")
        self.topic_errors = dict.fromkeys(self.topic_errors, code)


class RefusesToWrite(AnsweringClient):
    def __init__(self, code):
        super().__init__()
        self._refusal = code

    def poll(self, timeout_ms):
        self.code = self._refusal
        super().poll(timeout_ms)


def refusing_topic(code):
    client = AnsweringClient()
    client.metadata = Refuses(code)
    return client


def refusing_producer(code):
    client = AnsweringClient()
    client.init_codes = [code] * 100
    return client


@pytest.mark.parametrize(
    ("west", "partition", "name"),
    [
        (lambda: refusing_topic(29), -1, "TOPIC_AUTHORIZATION_FAILED"),
        (lambda: refusing_topic(17), -1, "INVALID_TOPIC_EXCEPTION"),
        (lambda: refusing_topic(3), -1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (lambda: RefusesToWrite(29), 0, "TOPIC_AUTHORIZATION_FAILED"),
        (lambda: refusing_producer(31), 0, "CLUSTER_AUTHORIZATION_FAILED"),
    ],
)
def test_what_a_cluster_that_may_discard_refuses_is_discarded_with_a_warning_and_others_get_it(
    west, partition, name, caplog
):
    limits = {"kafka_max_block_ms": 1000, "west__onSlowCluster": "discard", "slowClusterWait": "30s"}
    with fan_out({"east": AnsweringClient(), "west": west()}, **limits) as (to, _):
        for _ in range(2):
            delivery = write(to, [rows(10, b"21"), rows(5, b"21")])
            assert [written(delivery, each) for each in ("east", "west")] == [15, 0]
            assert delivery.discarded("west").keys() == {TopicPartition("t", partition)}
            assert discarded(delivery, "west") == 15
    warnings = [each.getMessage() for each in caplog.records if name in each.getMessage()]
    assert len(warnings) == 1
    assert "'west'" in warnings[0]
    assert "discard" in warnings[0]


def test_a_name_that_is_too_long_at_a_cluster_that_may_discard_holds_up_no_other():
    """Kafka takes 249 characters (Topic.validate)."""
    west = {"west__onSlowCluster": "discard", "west__topic": "a" * 249 + "${topic}"}
    with fan_out({"east": AnsweringClient(), "west": AnsweringClient()}, **west) as (to, _):
        delivery = write(to, [rows(10)])
    assert (written(delivery, "east"), discarded(delivery, "west")) == (10, 10)


def mirrored(topic, first, count):
    """Rows of partition 0 as a mirror reads them, from this offset on."""
    numbers = pa.array(range(first, first + count), pa.int64())
    return Rows(topic, count, None, pa.array([b"v"] * count), None, pa.array([0] * count, pa.int32()), None, numbers)


OF_A_MIRROR = {"west__refusedTopics": '["listed"]', "west__offsetMap": "map", "kafka_max_block_ms": 30}
BOTH = {TopicPartition(name, 0): 1 for name in ("orders", "refused")}


def test_a_mirror_leaves_out_a_topic_whose_name_a_target_refuses_and_notes_its_offsets(caplog):
    """Under `block`: another topic goes on."""
    west = AnsweringClient({TopicPartition("orders", 0): 1})
    west.metadata = Refuses(17, west.metadata.leaders)  # INVALID_TOPIC_EXCEPTION
    with fan_out({"east": AnsweringClient(BOTH), "west": west}, **OF_A_MIRROR) as (to, _):
        for first in (0, 10):
            batches = [mirrored("orders", first, 10), mirrored("refused", first, 5), mirrored("refused", first + 5, 5)]
            delivery = write(to, batches)
            assert [written(delivery, name) for name in ("east", "west")] == [20, 10]
            assert discarded(delivery, "west") == 10
            mapped = delivery.mapped("west")
            assert mapped[TopicPartition("orders", 0)].left_out is None
            assert mapped[TopicPartition("refused", 0)] == Mapped("refused", (), (first, first + 10))
    assert caplog.text.count("cluster 'west' does not take topic refused") == 1


def test_a_right_that_is_missing_at_a_targets_topic_stops_a_mirror_as_nothing_is_lost_so():
    west = AnsweringClient({TopicPartition("orders", 0): 1})
    west.metadata = Refuses(29, west.metadata.leaders)
    for client in (west, RefusesToWrite(29)):
        with fan_out({"west": client}, **OF_A_MIRROR) as (to, _), pytest.raises(TopicAuthorizationFailed):
            write(to, [mirrored("refused" if client is west else "t", 0, 1)])


def test_a_topic_that_was_refused_when_the_mirror_started_is_left_out_and_one_that_is_late_is_not():
    """Nobody knows of the second whether it is refused, or is about to be made."""
    west = AnsweringClient({TopicPartition("orders", 0): 1})
    west.metadata = WithoutTheTopic(west.metadata.leaders, "listed", "late")
    clients = {"east": AnsweringClient(dict.fromkeys([TopicPartition("listed", 0), TopicPartition("late", 0)], 1))}
    with fan_out(clients | {"west": west}, **OF_A_MIRROR, slowClusterWait="5ms") as (to, _):
        delivery = write(to, [mirrored("listed", 7, 3)])
        assert (written(delivery, "east"), discarded(delivery, "west")) == (3, 3)
        assert delivery.mapped("west") == {TopicPartition("listed", 0): Mapped("listed", (), (7, 10))}
        with pytest.raises(DeadlineExceeded, match="Topic late not present"):
            write(to, [mirrored("late", 0, 1)])


def test_a_topic_that_a_target_has_taken_since_the_mirror_started_is_not_left_out_any_more():
    """Under `block`: a broker that starts, or a topic that was deleted, is no refusal."""
    west = AnsweringClient({TopicPartition("listed", 0): 1})
    with fan_out({"west": west}, **OF_A_MIRROR, slowClusterWait="5ms") as (to, _):
        assert written(write(to, [mirrored("listed", 0, 3)]), "west") == 3
        west.metadata = WithoutTheTopic({}, "listed")
        with pytest.raises(DeadlineExceeded, match="Topic listed not present"):
            write(to, [mirrored("listed", 3, 1)])


def test_a_topic_that_is_not_there_is_waited_for_once_and_asked_for_again_from_time_to_time():
    west, clock = AnsweringClient({}), FakeClock()
    west.metadata = WithoutTheTopic()
    limits = {"kafka_max_block_ms": 30, "west__onSlowCluster": "discard", "slowClusterWait": "5ms"}
    with fan_out({"east": AnsweringClient(), "west": west}, **limits) as (to, producers):
        producers["west"].refusals = Refusals(5, clock, "west")
        write(to, [rows(1)])
        asked = west.metadata.updates_requested
        write(to, [rows(1), rows(1)])
        assert west.metadata.updates_requested == asked
        west.metadata.leaders, west.metadata.topic_errors = dict(LEADERS), {}
        assert discarded(write(to, [rows(1)]), "west") == 1
        clock.now_ms += 50  # ten times slowClusterWait
        delivery = write(to, [rows(1), rows(1)])
    assert (written(delivery, "west"), delivery.discarded("west")) == (2, {})


NOT_SEEN = {TopicPartition("other", 0): 1}  # brokers are known, the topic of the rows is not


@pytest.mark.parametrize("seen", [NOT_SEEN, {}, {TopicPartition("t", 5): 1}], ids=["topic", "cluster", "partition"])
def test_block_waits_as_long_as_it_takes_for_brokers_that_are_down_and_metadata_never_seen(seen, caplog):
    client = SilentClient(seen)
    with fan_out({"west": client}, kafka_max_block_ms=10, partitioning="source") as (to, _):
        results = []
        task = threading.Thread(target=lambda: results.append(write(to, [at_partition(0, 10)])))
        with caplog.at_level("WARNING", "kafkasource.sink"):
            task.start()
            while caplog.text.count("the task waits for it") < 3:  # longer than max.block.ms, again and again
                assert task.is_alive()
                threading.Event().wait(0.001)
        client.is_back({TopicPartition("t", 0): 1})
        task.join(20)
        [delivery] = results
    assert (written(delivery, "west"), delivery.discarded("west")) == (10, {})


def test_a_delivery_timeout_that_is_given_ends_the_wait_of_block():
    limits = {"kafka_max_block_ms": 10, "kafka_delivery_timeout_ms": 30, "kafka_request_timeout_ms": 20}
    with fan_out({"west": SilentClient(NOT_SEEN)}, **limits) as (to, _), pytest.raises(DeadlineExceeded):
        write(to, [rows(10)])


@pytest.mark.parametrize("policy", ["block", "fail"])
@pytest.mark.parametrize("seen", [NOT_SEEN, {}], ids=["topic", "cluster"])
def test_rows_for_a_cluster_that_was_never_reached_are_dropped_when_they_are_too_old(policy, seen):
    clients = {"east": AnsweringClient(), "west": SilentClient(seen)}
    with fan_out(clients, west__maxRecordAge="20ms", west__onSlowCluster=policy) as (to, _):
        delivery = write(to, [rows(10), rows(5)])
    assert written(delivery, "east") == 15
    assert delivery.discarded("west") == {TopicPartition("t", -1): Discarded(15, 1500)}


def at_partition(partition, count):
    one = rows(count)
    return Rows("t", count, one.keys, one.values, None, pa.array([partition] * count, pa.int32()), None)
