"""A batch read's plan, from options to input partitions."""

import json
import pickle
import uuid

import pytest
from fake_cluster import FakeCluster
from pyspark.sql.datasource import InputPartition

from kafkasource import options
from kafkasource.errors import DataLoss, KafkaSourceError, OptionError
from kafkasource.source.plan.positions import AtOffsets
from kafkasource.source.spark import batch
from kafkasource.source.spark.batch import BatchReader
from kafkasource.types import OffsetRange, TopicPartition


@pytest.fixture
def cluster(monkeypatch):
    fake = FakeCluster(t=[(0, 5), (2, 9), (4, 4)])
    monkeypatch.setattr(batch, "shared_cluster", lambda config: fake)
    return fake


def reader(**given):
    written = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "fetchOffset.retryIntervalMs": "0"}
    return BatchReader(options.parse(written | given, "source"))


def tasks(reader):
    return [partition.value for partition in pickle.loads(pickle.dumps(reader.partitions()))]


def ranges(reader):
    return sorted((r for task in tasks(reader) for r in task), key=lambda one: one.topic_partition)


def r(partition, start, end, **more):
    return OffsetRange(TopicPartition("t", partition), start, end, **more)


def late(partition, start, end):
    """Of an unbounded read: both ends are bound in the task."""
    return r(partition, start, end, from_earliest=True, to_latest=True)


def of_t(*numbers):
    return json.dumps({"t": dict(enumerate(numbers))})


ENDS = of_t(5, 9, 4)


def test_everything_is_read_by_default_from_the_earliest_to_the_latest_of_the_time_of_reading(cluster):
    assert ranges(reader()) == [late(0, 0, 5), late(1, 2, 9), late(2, 4, 4)]


def test_a_partition_that_is_empty_when_planned_is_read_by_the_task_with_least_to_do(cluster):
    assert tasks(reader()) == [(late(0, 0, 5), late(2, 4, 4)), (late(1, 2, 9),)]
    cluster.logs["t"] = [(0, 0)] * 50
    assert tasks(reader()) == [tuple(late(n, 0, 0) for n in range(50))]


def test_what_ends_at_an_offset_is_left_out_when_empty(cluster):
    assert ranges(reader(endingOffsets=ENDS)) == [r(0, 0, 5, from_earliest=True), r(1, 2, 9, from_earliest=True)]
    assert tasks(reader(startingOffsets=ENDS, endingOffsets=ENDS)) == []


def test_fewer_tasks_can_be_asked_for(cluster):
    ends = {"startingOffsets": of_t(0, 2, 4), "endingOffsets": ENDS}
    assert tasks(reader(maxPartitions="1", **ends)) == [(r(0, 0, 5), r(1, 2, 9))]
    assert tasks(reader(minRecordsPerPartition="100000", **ends)) == [(r(0, 0, 5), r(1, 2, 9))]


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ({"minPartitions": "6"}, [1, 2, 2, 1, 2, 2, 2]),  # round(5 / 12 * 6) and round(7 / 12 * 6), halves up
        ({"minPartitions": "2"}, [5, 7]),
        ({"maxRecordsPerPartition": "3"}, [2, 3, 2, 2, 3]),
        ({"maxRecordsPerPartition": "4", "minPartitions": "2"}, [2, 3, 3, 4]),
        ({"maxRecordsPerPartition": "3", "maxPartitions": "1"}, [12]),
        ({"minPartitions": "2", "minRecordsPerPartition": "100000"}, [5, 7]),
    ],
)
def test_more_and_smaller_tasks_can_be_asked_for(cluster, given, sizes):
    read = reader(startingOffsets=of_t(0, 2, 4), endingOffsets=ENDS, **given)
    assert [sum(one.size for one in task) for task in tasks(read)] == sizes


def test_a_default_read_is_cut_and_bound_at_its_outer_ends(cluster):
    """The JVM connector takes such a read for one offset and does not cut it for maxRecordsPerPartition."""
    cluster.logs["t"] = [(0, 10)]
    assert tasks(reader(maxRecordsPerPartition="4")) == [
        (r(0, 0, 3, from_earliest=True),),
        (r(0, 3, 6),),
        (r(0, 6, 10, to_latest=True),),
    ]


def test_planning_again_sees_new_records(cluster):
    read = reader()
    ranges(read)
    cluster.logs["t"] = [(0, 6)]
    assert ranges(read) == [late(0, 0, 6)]


def test_both_ends_may_mix_offsets_and_words(cluster):
    read = reader(startingOffsets=of_t(3, -2, 4), endingOffsets=of_t(4, -1, -1))
    assert ranges(read) == [r(0, 3, 4), late(1, 2, 9), r(2, 4, 4, to_latest=True)]


# Records at 100 ms, 200 ms, ...: offset 2 of partition 0 is the first one not older than 250 ms.
TIMES = {TopicPartition("t", 0): [100, 200, 300, 400, 500], TopicPartition("t", 1): [100, 200, 300, 400, 500]}
STARTS = {
    "startingOffsets": {"startingOffsets": of_t(2, 2)},
    "startingOffsetsByTimestamp": {"startingOffsetsByTimestamp": of_t(250, 201)},
    "startingTimestamp": {"startingTimestamp": "300"},
}
STOPS = {
    "endingOffsets": {"endingOffsets": of_t(4, 4)},
    "endingOffsetsByTimestamp": {"endingOffsetsByTimestamp": of_t(500, 401)},
    "endingTimestamp": {"endingTimestamp": "500"},
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("stop", STOPS)
def test_offsets_and_timestamps_of_either_kind_bound_a_read_and_bind_when_planned(cluster, start, stop):
    cluster.logs["t"], cluster.timestamps = [(0, 5), (0, 5)], TIMES
    assert ranges(reader(**STARTS[start], **STOPS[stop])) == [r(0, 2, 4), r(1, 2, 4)]


def test_a_timestamp_after_all_records_ends_a_read_at_the_latest_of_when_it_was_planned(cluster):
    cluster.logs["t"], cluster.timestamps = [(0, 5), (0, 5)], TIMES
    assert ranges(reader(startingTimestamp="500", endingTimestamp="501")) == [r(0, 4, 5), r(1, 4, 5)]
    after = {"startingTimestamp": "501", "startingOffsetsByTimestampStrategy": "latest"}
    assert ranges(reader(endingTimestamp="600", **after)) == []
    with pytest.raises(OptionError, match="No offset matched from request of topic-partition t-0 and timestamp 501"):
        ranges(reader(startingTimestamp="501"))


def test_a_read_starts_where_a_group_stands(cluster):
    cluster.committed = {("g", TopicPartition("t", 0)): 3, ("g", TopicPartition("t", 1)): 9}
    read = reader(startingOffsets="committed:earliest", **{"kafka.group.id": "g"})
    assert ranges(read) == [r(0, 3, 5, to_latest=True), r(1, 9, 9, to_latest=True), r(2, 4, 4, to_latest=True)]


def test_ranges_name_the_topic_and_the_leader_epoch_that_they_were_planned_for(cluster):
    topic_id = uuid.uuid4()
    cluster.topic_ids["t"] = topic_id
    cluster.epochs = {TopicPartition("t", 0): 7}
    assert [(one.topic_id, one.leader_epoch) for one in ranges(reader())] == [
        (topic_id, 7),
        (topic_id, None),
        (topic_id, None),
    ]


START_IS_GREATER = (
    "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET.*"
    "resolved start offset 2 is greater than the resolved end offset 1 for topic t partition 1"
)


def test_a_start_behind_the_end_is_an_error_not_an_empty_read(cluster):
    with pytest.raises(KafkaSourceError, match=START_IS_GREATER):
        ranges(reader(endingOffsets=of_t(5, 1, 4)))


def test_a_start_behind_the_time_of_the_end_is_one_too(cluster):
    cluster.logs["t"], cluster.timestamps = [(0, 5), (0, 5)], TIMES
    with pytest.raises(KafkaSourceError, match=START_IS_GREATER):
        ranges(reader(startingOffsets=of_t(0, 2), endingTimestamp="200"))


def test_a_start_beyond_the_log_is_an_error(cluster):
    with pytest.raises(KafkaSourceError, match="resolved start offset 6 is greater than the resolved end offset 5"):
        ranges(reader(startingOffsets=of_t(6, 2, 4)))


def test_an_end_that_the_log_has_not_reached_is_a_loss_before_any_task_runs(cluster):
    with pytest.raises(DataLoss, match=r"Could not read records in offset \[5, 7\) for topic partition t-0"):
        ranges(reader(endingOffsets=of_t(7, 9, 4)))


def test_what_there_is_is_read_where_that_is_tolerated(cluster):
    read = reader(endingOffsets=of_t(7, 8, 9), failOnDataLoss="false")
    assert ranges(read) == [r(0, 0, 5, from_earliest=True), r(1, 2, 8, from_earliest=True)]


def test_an_open_transaction_is_waited_for_by_the_tasks(cluster):
    cluster.stable = {TopicPartition("t", 0): 3}
    read = reader(endingOffsets=of_t(5, 9, 4), **{"kafka.isolation.level": "read_committed"})
    assert [(one.start_offset, one.end_offset) for one in ranges(read)] == [(0, 5), (2, 9)]


def behind_a_transaction(cluster, **given):
    """A read from where a group stands, in partition 0 behind a transaction that is open at 3."""
    cluster.stable = {TopicPartition("t", 0): 3}
    cluster.committed = {("g", TopicPartition("t", n)): offset for n, offset in enumerate((4, 8, 4))}
    read_committed = {"kafka.isolation.level": "read_committed", "kafka.group.id": "g"}
    return ranges(reader(startingOffsets="committed", **read_committed, **given))


def test_a_start_behind_an_open_transaction_has_nothing_to_read_yet_and_goes_on_to_the_latest_of_the_time_of_reading(
    cluster,
):
    planned = [r(0, 4, 4, to_latest=True), r(1, 8, 9, to_latest=True), r(2, 4, 4, to_latest=True)]
    assert behind_a_transaction(cluster) == planned
    assert behind_a_transaction(cluster, endingOffsets=of_t(-1, -1, -1)) == planned


def test_a_transaction_that_ends_between_two_questions_makes_no_start_an_error(cluster):
    resolve = AtOffsets.resolve

    def ended_after(position, assigned, asked):
        found = resolve(position, assigned, asked)
        cluster.stable = {}
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(AtOffsets, "resolve", ended_after)
        assert behind_a_transaction(cluster)[0] == r(0, 4, 4, to_latest=True)


def test_an_end_by_time_that_no_stable_record_reaches_is_the_end_of_the_log(cluster):
    assert behind_a_transaction(cluster, endingTimestamp="1000") == [r(1, 8, 9)]


def test_an_end_as_offset_is_waited_for_and_is_an_error_before_the_start(cluster):
    assert behind_a_transaction(cluster, endingOffsets=of_t(5, 9, 4)) == [r(0, 4, 5), r(1, 8, 9)]
    for end in (2, 3):
        greater = f"resolved start offset 4 is greater than the resolved end offset {end}"
        with pytest.raises(OptionError, match=greater):
            behind_a_transaction(cluster, endingOffsets=of_t(end, 9, 4))


def test_an_end_by_time_before_the_start_is_an_error_also_behind_an_open_transaction(cluster):
    cluster.timestamps = {TopicPartition("t", 0): [100, 200, 300, 400, 500]}
    with pytest.raises(OptionError, match="resolved start offset 4 is greater than the resolved end offset 1"):
        behind_a_transaction(cluster, endingTimestamp="200")


def test_a_start_beyond_the_log_is_an_error_under_read_committed_too(cluster):
    cluster.logs["t"][0] = (0, 3)
    with pytest.raises(OptionError, match="resolved start offset 4 is greater than the resolved end offset 3"):
        behind_a_transaction(cluster)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"startingOffsets": of_t(3), "endingOffsets": of_t(2)}, "greater than the end offset"),
        ({"startingOffsets": of_t(3), "endingOffsets": of_t(3, 3)}, "MISMATCHED_TOPIC_PARTITIONS"),
        ({"startingTimestamp": "3", "endingTimestamp": "2"}, "greater than the end timestamp"),
        ({"startingOffsets": "committed"}, "set 'kafka.group.id'"),
        ({"minPartitions": "3", "maxPartitions": "2"}, "'minPartitions'"),
    ],
)
def test_contradicting_options_fail_before_any_broker_is_asked(given, says):
    with pytest.raises(OptionError, match=says):
        reader(**given)


def test_fetching_more_than_is_accepted_names_both_options():
    with pytest.raises(OptionError, match=r"max.partition.fetch.bytes' \(5000\).*receive.message.max.bytes' \(4000\)"):
        reader(**{"kafka.max.partition.fetch.bytes": "5000", "kafka.receive.message.max.bytes": "4000"})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("maxOffsetsPerTrigger", "5"),
        ("maxBytesPerTrigger", "1m"),
        ("minOffsetsPerTrigger", "5"),
        ("maxTriggerDelay", "1s"),
        ("commitOffsets", "true"),
        ("stopFile", "/tmp/stop"),
        ("trigger", "availableNow"),
    ],
)
def test_what_is_for_streams_has_no_meaning_here_and_says_so(option, value, caplog):
    reader(**{option: value, "kafka.group.id": "g"})
    assert [option in record.getMessage() for record in caplog.records] == [True]


def test_the_partition_that_spark_makes_up_for_an_empty_plan_holds_nothing():
    assert list(reader().read(InputPartition(None))) == []
