"""What a reader without Spark tells of records that are gone: by the rule of a streaming query, on brokers in this
process. The real brokers' share of it is in `test_reader_on_a_broker`.
"""

import contextlib
import uuid

import pytest
from fake_broker import FakeNet, FakeTopic
from fake_cluster import FakeCluster
from fetch_rig import Kafka, record_batch

from kafkasource import reader as reader_module
from kafkasource.errors import DataLoss, OptionError
from kafkasource.kafka.protocol.apis import LIST_OFFSETS, METADATA
from kafkasource.reader import Reader
from kafkasource.source.plan.offset_reader import OffsetReader
from kafkasource.source.plan.positions import AtOffsets
from kafkasource.source.plan.reader_positions import FetchPositions
from kafkasource.source.plan.subscription import SubscribeTopics
from kafkasource.tools.admin.positions import position
from kafkasource.types import IsolationLevel, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Logs(Kafka):
    """Every partition holds [start, end) of its topic, in batches of ten."""

    def __init__(self, partitions=1):
        super().__init__(topics={"t": partitions})
        self.holds = dict.fromkeys(range(partitions), (0, 100))
        self.stable = {}  # by partition: the last stable offset, where a transaction is open

    def recreate(self, end):
        topic = FakeTopic([1] * len(self.holds))
        self.topics["t"] = topic
        self.holds = dict.fromkeys(self.holds, (0, end))

    def _list_offsets(self, request):
        body = super()._list_offsets(request)
        asked = {
            (topic["name"], row["partition_index"]): row["timestamp"]
            for topic in request.body["topics"]
            for row in topic["partitions"]
        }
        for topic in body["topics"]:
            for row in topic["partitions"]:
                if row["error_code"] == 0:
                    start, end = self.holds[row["partition_index"]]
                    if request.body["isolation_level"] == 1:
                        end = self.stable.get(row["partition_index"], end)
                    row["offset"] = start if asked[topic["name"], row["partition_index"]] == -2 else end
        return body

    def _of_partition(self, request, topic, asked):
        start, end = self.holds[asked["partition"]]
        at, epoch = asked["fetch_offset"], asked["current_leader_epoch"]
        if epoch != -1 and epoch != topic.epochs[asked["partition"]]:
            return {"error_code": 74 if epoch < topic.epochs[asked["partition"]] else 75}
        if not start <= at <= end:
            return {"error_code": 1}
        return {"high_watermark": end, "records": b"".join(map(record_batch, range(at // 10 * 10, end, 10)))}


@pytest.fixture
def logs():
    return Logs()


@pytest.fixture
def opened(monkeypatch):
    """Makes readers of a fake cluster; gives them with its network, whose clock is theirs."""
    with contextlib.ExitStack() as stack:

        def make(logs, start=None, **options):
            net = FakeNet(logs)
            monkeypatch.setattr(reader_module, "Cluster", lambda config: net.cluster())
            given = {"kafka.bootstrap.servers": "bootstrap:9092", "subscribe": "t", "fetchOffset.retryIntervalMs": "0"}
            return stack.enter_context(Reader({**given, **options}, start=start)), net

        yield make


def follow(reader, net, *events):
    """Offsets that are read until the last event has passed: one happens whenever there is nothing to read."""
    script = list(events)

    def sleep(seconds):
        net.now += seconds
        if not script:
            raise StopIteration
        script.pop(0)()

    found = []
    with contextlib.suppress(RuntimeError):  # what a generator makes of StopIteration
        for batch in reader.follow(sleep=sleep, clock=lambda: net.now):
            found += batch.column("offset").to_pylist()
    return found


def nothing():
    pass


@pytest.mark.parametrize("end", [150, 100, 40])
def test_a_followed_topic_made_again_is_a_loss_however_long_it_is(logs, opened, end):
    reader, net = opened(logs)
    with pytest.raises(DataLoss, match="TOPIC_RECREATED") as error:
        follow(reader, net, lambda: logs.recreate(end), *[nothing] * 30)
    assert "failOnDataLoss" in str(error.value)


@pytest.mark.parametrize("end", [150, 100, 40])
def test_a_followed_topic_made_again_is_read_from_its_start_where_loss_is_tolerated(logs, opened, caplog, end):
    reader, net = opened(logs, failOnDataLoss="false")
    found = follow(reader, net, lambda: logs.recreate(end), *[nothing] * 30)
    assert found == [*range(100), *range(end)]
    assert "TOPIC_RECREATED" in caplog.text


def test_a_topic_made_again_with_as_many_records_is_a_loss_also_where_a_further_partition_tells_of_it():
    """A rebalance brings the partition that is new, within the seconds in which nobody looks at what did not move."""
    cluster, now_s = FakeCluster(t=[(0, 5)]), [0.0]
    cluster.topic_ids["t"] = uuid.uuid4()
    asked = OffsetReader(cluster, SubscribeTopics(("t",)), IsolationLevel.READ_UNCOMMITTED, retry_ms=0)
    start = AtOffsets("startingOffsets", others=-2)
    positions = FetchPositions(asked, start, fail_on_data_loss=True, clock=lambda: now_s[0])
    positions.begin([T0])
    positions.reached(positions.next_ranges())
    cluster.recreate("t", (0, 5), (0, 3))
    now_s[0] = 1.0
    with pytest.raises(DataLoss, match="TOPIC_RECREATED"):
        positions.begin([T1])


def test_a_topic_made_again_between_plan_and_fetch_is_told_and_then_read_whole(logs, opened, caplog):
    reader, net = opened(logs, failOnDataLoss="false")

    def grow_then_recreate():
        logs.holds = {0: (0, 110)}
        fault = logs.answer

        def answer(request):  # the ends of the old topic are listed; then it is another one
            body = fault(request)
            if request.api is LIST_OFFSETS and logs.holds == {0: (0, 110)}:
                logs.answer = fault
                logs.recreate(130)
            return body

        logs.answer = answer

    found = follow(reader, net, grow_then_recreate, *[nothing] * 30)
    assert found == [*range(100), *range(130)]
    assert "deleted, or recreated" in caplog.text or "TOPIC_RECREATED" in caplog.text


def test_a_followed_log_that_was_truncated_and_written_on_is_a_loss(logs, opened):
    reader, net = opened(logs)

    def unclean_election():
        logs.move_leader("t", 0, 1)
        logs.topics["t"].epoch_ends[0, 0] = 70
        logs.holds = {0: (0, 130)}

    with pytest.raises(DataLoss, match=r"LOG_TRUNCATED.*t-0 was truncated to offset 70"):
        follow(reader, net, unclean_election, nothing)


def test_a_followed_topic_that_was_deleted_is_a_loss(opened):
    logs = Logs()
    reader, net = opened(logs)
    with pytest.raises(DataLoss, match="PARTITIONS_DELETED"):
        follow(reader, net, logs.topics.clear, nothing)


STARTS = {
    "a start in offsets": {"startingOffsets": '{"t":{"0":10}}'},
    "the offset of a group": {"startingOffsets": "committed", "kafka.group.id": "g"},
}


@pytest.mark.parametrize("options", STARTS.values(), ids=STARTS.keys())
@pytest.mark.parametrize("how", ["follow", "plan", "positions"])
def test_a_start_below_the_log_is_a_loss_and_not_moved_in_silence(logs, opened, caplog, options, how):
    logs.holds, logs.committed["g", "t", 0] = {0: (30, 60)}, 10

    def read(reader, net):
        if how == "follow":
            return follow(reader, net, nothing)
        ranges = reader.plan()
        if how == "positions":
            positions = reader.positions()
            positions.begin({T0})
            ranges = positions.next_ranges()
        return [offset for batch in reader.read(ranges) for offset in batch.column("offset").to_pylist()]

    with pytest.raises(DataLoss, match=r"offset \[10, 30\) for topic partition t-0.*holds \[30, 60\)") as error:
        read(*opened(logs, **options))
    assert "failOnDataLoss to false" in str(error.value)
    assert "startingOffsets" in str(error.value)
    assert read(*opened(logs, failOnDataLoss="false", **options)) == [*range(30, 60)]
    assert "Reading begins at 30" in caplog.text


@pytest.mark.parametrize("options", STARTS.values(), ids=STARTS.keys())
def test_an_offset_that_was_in_the_log_and_is_beyond_its_end_now_is_a_loss(logs, opened, options):
    logs.holds, logs.committed["g", "t", 0] = {0: (0, 5)}, 10
    with pytest.raises(DataLoss, match=r"t-0 offset was changed from 10 to 5"):
        opened(logs, **options)[0].plan()


# Under read_committed a log ends where its oldest open transaction begins. A group whose consumer read under
# read_uncommitted may be beyond that.

BEHIND = {
    "a start in offsets": ({"startingOffsets": '{"t":{"0":90}}'}, None),
    "the offset of a group": ({"startingOffsets": "committed", "kafka.group.id": "g"}, None),
    "an offset for all partitions": ({}, "90"),
}


@pytest.mark.parametrize(("options", "start"), BEHIND.values(), ids=BEHIND.keys())
def test_a_start_behind_an_open_transaction_is_no_loss_and_reading_waits_there(logs, opened, caplog, options, start):
    logs.stable, logs.committed["g", "t", 0] = {0: 70}, 90
    given = {"kafka.isolation.level": "read_committed", **options}
    reader, net = opened(logs, start and position(start), **given)
    assert reader.plan() == []
    assert reader.start_of([T0]) == {T0: 90}
    assert follow(reader, net, nothing, nothing, logs.stable.clear, nothing) == [*range(90, 100)]
    assert caplog.messages == []


@pytest.mark.parametrize("options", STARTS.values(), ids=STARTS.keys())
def test_a_start_beyond_the_log_is_a_loss_under_read_committed_too(logs, opened, options):
    logs.holds, logs.stable, logs.committed["g", "t", 0] = {0: (0, 5)}, {0: 3}, 10
    with pytest.raises(DataLoss, match=r"t-0 offset was changed from 10 to 5"):
        opened(logs, **options, **{"kafka.isolation.level": "read_committed"})[0].plan()


def test_earliest_is_wherever_the_log_begins(logs, opened):
    logs.holds = {0: (30, 60)}
    reader, net = opened(logs)
    assert follow(reader, net, nothing) == [*range(30, 60)]
    assert [(one.start_offset, one.from_earliest) for one in reader.plan()] == [(30, True)]


def test_what_earliest_meant_may_age_out_before_it_is_fetched(logs, opened):
    reader, _ = opened(logs)
    ranges = reader.plan()
    logs.holds = {0: (50, 100)}
    offsets = [offset for batch in reader.read(ranges) for offset in batch.column("offset").to_pylist()]
    assert offsets == [*range(50, 100)]


def test_a_plan_knows_which_logs_it_is_of(logs, opened):
    reader, _ = opened(logs)
    (one,) = reader.plan()
    assert one.topic_id == logs.topics["t"].topic_id
    assert one.leader_epoch == 0
    logs.recreate(200)
    with pytest.raises(DataLoss, match="deleted, or recreated"):
        list(reader.read([one]))


# Partitions that a group gives and takes away.


def held(reader, *partitions, **clock):
    positions = reader.positions(**clock)
    positions.begin(partitions)
    return positions


def take(reader, positions):
    ranges = positions.next_ranges()
    offsets = [offset for batch in reader.read(ranges) for offset in batch.column("offset").to_pylist()]
    return offsets, positions.reached(ranges)


def test_a_group_that_has_committed_nothing_starts_where_the_start_says(opened):
    logs = Logs(partitions=2)
    logs.committed["g", "t", 1] = 90
    group = {"kafka.group.id": "g"}
    reader, _ = opened(logs, startingOffsets="committed:earliest", **group)
    offsets, done = take(reader, held(reader, T0, T1))
    assert offsets == [*range(100), *range(90, 100)]
    assert done == {T0: 100, T1: 100}
    reader, _ = opened(logs, startingOffsets="committed:latest", **group)
    assert take(reader, held(reader, T0, T1))[0] == [*range(90, 100)]
    reader, _ = opened(logs, startingOffsets="committed", **group)
    with pytest.raises(OptionError, match=r"no committed offset for \{t-0\}.*committed:earliest"):
        held(reader, T0, T1)


def test_positions_go_on_from_what_was_reached(logs, opened):
    reader, _ = opened(logs)
    positions = held(reader, T0)
    assert positions.next_ranges() == positions.next_ranges()
    take(reader, positions)
    assert positions.next_ranges() == []
    logs.holds = {0: (0, 120)}
    assert take(reader, positions)[0] == [*range(100, 120)]
    positions.move({T0: 110})
    assert positions.offsets == {T0: 110}


def test_what_was_dropped_is_not_read_and_cannot_be_reached(opened):
    logs = Logs(partitions=2)
    reader, _ = opened(logs)
    positions = held(reader, T0, T1)
    ranges = positions.next_ranges()
    positions.drop({T0, TopicPartition("other", 7)})
    assert [one.topic_partition for one in positions.next_ranges()] == [T1]
    with pytest.raises(ValueError, match="t-0"):
        positions.reached(ranges)


@pytest.mark.parametrize("end", [150, 100])
def test_a_member_of_a_group_notices_a_topic_made_again(logs, opened, end):
    reader, net = opened(logs)
    positions = held(reader, T0, clock=lambda: net.now)
    take(reader, positions)
    logs.recreate(end)
    net.now += 6  # as long as the old one: seen when it is looked for
    with pytest.raises(DataLoss, match="TOPIC_RECREATED"):
        positions.next_ranges()


def test_a_partition_assigned_of_a_topic_made_again_tells_what_the_others_lost(opened, caplog):
    logs = Logs(partitions=2)
    reader, _ = opened(logs, failOnDataLoss="false")
    positions = held(reader, T0)
    take(reader, positions)
    logs.recreate(120)
    positions.begin([T1])
    assert "TOPIC_RECREATED" in caplog.text
    assert take(reader, positions)[0] == [*range(120), *range(120)]


def test_a_deleted_topic_that_comes_back_is_read_from_its_start(logs, opened, caplog):
    reader, net = opened(logs, failOnDataLoss="false")
    positions = held(reader, T0, clock=lambda: net.now)
    take(reader, positions)
    gone = logs.topics.pop("t")
    assert take(reader, positions) == ([], {})
    assert "PARTITIONS_DELETED" in caplog.text
    logs.topics["t"] = FakeTopic(gone.leaders, uuid.uuid4())
    net.now += 6
    assert take(reader, positions)[0] == [*range(100)]


def test_a_reader_that_waits_asks_for_the_ends_of_logs_alone(logs, opened):
    reader, _ = opened(logs)
    positions = held(reader, T0)
    take(reader, positions)
    before = len(logs.requests)
    for _ in range(3):
        assert positions.next_ranges() == []
    assert [request.api for request in logs.requests[before:]] == [LIST_OFFSETS] * 3
    assert METADATA in [request.api for request in logs.requests[:before]]
