"""The driver's side of a streaming query, driven by the calls that Spark makes, in Spark's order."""

import json
import pickle

import pytest
from fake_cluster import FakeCluster
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kafkasource import options
from kafkasource.errors import DataLoss, KafkaSourceError, OptionError, UnknownTopicOrPartition
from kafkasource.source.stream import StreamReader
from kafkasource.types import OffsetRange, TopicPartition


def reader(cluster, **given):
    given = {
        "kafka.bootstrap.servers": "nowhere:1",
        "startingOffsets": "earliest",
        "fetchOffset.retryIntervalMs": "0",
    } | given
    if not {"subscribe", "subscribePattern", "assign"} & given.keys():
        given["subscribe"] = "t"
    return StreamReader(options.parse(given, "source"), open_cluster=lambda config: cluster)


def wire(offset):
    """Spark keeps offsets as JSON text."""
    return json.loads(json.dumps(offset))


def ranges(stream, start, end):
    return [r for partition in stream.partitions(wire(start), wire(end)) for r in partition.value]


def r(topic, partition, start, end):
    return OffsetRange(TopicPartition(topic, partition), start, end)


def test_a_new_query_reads_from_its_starting_offsets_to_the_end():
    stream = reader(FakeCluster(t=[(0, 5), (2, 9)]))
    start = stream.initialOffset()
    end = stream.latestOffset(wire(start), ReadAllAvailable())
    assert (start, end) == ({"t": {"0": 0, "1": 2}}, {"t": {"0": 5, "1": 9}})
    assert ranges(stream, start, end) == [r("t", 0, 0, 5), r("t", 1, 2, 9)]


def test_latest_is_the_default_start():
    cluster = FakeCluster(t=[(0, 5)])
    parsed = options.parse({"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t"}, "source")
    assert StreamReader(parsed, lambda config: cluster).initialOffset() == {"t": {"0": 5}}


def test_nothing_new_is_answered_with_the_start_itself():
    stream = reader(FakeCluster(t=[(0, 5)]))
    start = {"t": {"0": 5}}
    assert stream.latestOffset(start, ReadAllAvailable()) is start
    assert stream.partitions(start, start) == []


def test_an_empty_offset_is_never_made_when_all_partitions_vanish():
    cluster = FakeCluster()
    stream = reader(cluster, subscribePattern="t.*")
    assert stream.latestOffset({"t1": {"0": 5}}, ReadAllAvailable()) == {"t1": {"0": 5}}


def test_the_limit_is_announced_and_obeyed_unless_spark_lifts_it():
    stream = reader(FakeCluster(t=[(0, 101), (0, 11), (0, 1)]), maxOffsetsPerTrigger="10")
    assert stream.getDefaultReadLimit() == ReadMaxRows(10)
    start = stream.initialOffset()
    assert stream.latestOffset(start, ReadMaxRows(10)) == {"t": {"0": 8, "1": 1, "2": 1}}
    assert stream.latestOffset(start, ReadAllAvailable()) == {"t": {"0": 101, "1": 11, "2": 1}}
    assert reader(FakeCluster()).getDefaultReadLimit() == ReadAllAvailable()


def test_the_old_call_without_arguments_means_everything():
    assert reader(FakeCluster(t=[(0, 5)])).latestOffset() == {"t": {"0": 5}}


def test_a_partition_added_later_is_read_from_its_beginning_also_under_a_limit():
    cluster = FakeCluster(t=[(0, 5)])
    stream = reader(cluster, startingOffsets="latest", maxOffsetsPerTrigger="4")
    start = stream.initialOffset()
    cluster.logs["t"].append((0, 9))
    end = stream.latestOffset(start, ReadMaxRows(4))
    assert end == {"t": {"0": 5, "1": 4}}
    assert ranges(stream, start, end) == [r("t", 1, 0, 4)]


def test_a_pattern_finds_new_topics_and_never_internal_ones():
    cluster = FakeCluster(t1=[(0, 1)], t_internal=[(0, 1)])
    cluster.internal.add("t.internal")
    stream = reader(cluster, subscribePattern="t.*")
    start = stream.initialOffset()
    cluster.logs["t2"] = [(0, 3)]
    assert stream.latestOffset(start, ReadAllAvailable()) == {"t1": {"0": 1}, "t2": {"0": 3}}


def test_assigned_partitions_that_do_not_exist_are_left_out_with_a_warning(caplog):
    stream = reader(FakeCluster(t=[(0, 1)]), assign='{"t":[0,7]}')
    assert stream.initialOffset() == {"t": {"0": 0}}
    assert "t-7" in caplog.text


def test_an_unknown_topic_names_the_option():
    with pytest.raises(UnknownTopicOrPartition, match="option 'subscribe': topic 'x'"):
        reader(FakeCluster(t=[(0, 1)]), subscribe="t,x").initialOffset()


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_new_partition_deleted_before_it_was_read_is_a_loss_not_a_crash(fail):
    cluster = FakeCluster(t=[(0, 1)])
    stream = reader(cluster, failOnDataLoss=fail)
    start, end = {"t": {"0": 0}}, {"t": {"0": 1}, "gone": {"0": 4}}
    if fail == "true":
        with pytest.raises(DataLoss, match=r"INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS.*gone-0"):
            stream.partitions(start, end)
    else:
        assert ranges(stream, start, end) == [r("t", 0, 0, 1)]


def test_the_isolation_level_rules_where_logs_end():
    cluster = FakeCluster(t=[(0, 1)])
    reader(cluster, **{"kafka.isolation.level": "READ_COMMITTED"}).latestOffset({}, None)
    assert cluster.isolation_levels == {"read_committed"}


def test_a_shrunken_log_stops_the_query_or_goes_on_from_its_end():
    start = {"t": {"0": 8}}
    for fail, outcome in (("true", None), ("false", [])):
        stream = reader(FakeCluster(t=[(0, 3)]), failOnDataLoss=fail, **{"fetchOffset.retryIntervalMs": "0"})
        end = stream.latestOffset(start, ReadAllAvailable())
        assert end == {"t": {"0": 3}}
        if outcome is None:
            with pytest.raises(DataLoss, match="Partition t-0 offset was changed from 8 to 3"):
                stream.partitions(start, end)
        else:
            assert stream.partitions(start, end) == outcome


def test_a_restart_replays_the_planned_batch_from_the_checkpoint_alone():
    stream = reader(FakeCluster(t=[(0, 50)]))
    assert ranges(stream, {"t": {"0": 8}}, {"t": {"0": 12}}) == [r("t", 0, 8, 12)]


def test_a_first_batch_from_latest_that_never_finished_is_no_loss_at_the_restart():
    cluster = FakeCluster(t=[(0, 5)])
    planned_end = {"t": {"0": 5}}
    cluster.logs["t"] = [(0, 7), (0, 2)]  # records and a partition came while the query was down
    stream = reader(cluster, startingOffsets="latest")
    assert ranges(stream, stream.initialOffset(), planned_end) == []
    end = stream.latestOffset(planned_end, ReadAllAvailable())
    assert ranges(stream, planned_end, end) == [r("t", 0, 5, 7), r("t", 1, 0, 2)]


# Many partitions, few of them with anything new


def test_idle_partitions_cost_no_task_and_no_further_question():
    cluster = FakeCluster(t=[(0, 5)] * 1000)
    stream = reader(cluster, startingOffsets="latest")
    start = stream.initialOffset()
    cluster.logs["t"][7], cluster.logs["t"][900] = (0, 6), (0, 25)
    cluster.listed.clear()
    end = stream.latestOffset(wire(start), stream.getDefaultReadLimit())
    (partition,) = stream.partitions(wire(start), wire(end))
    assert partition.value == (r("t", 7, 5, 6), r("t", 900, 5, 25))
    assert [len(asked) for asked in cluster.listed] == [1000]


def test_a_micro_batch_takes_tasks_by_its_size():
    def tasks(size, **given):
        stream = reader(FakeCluster(t=[(0, size)] * 4), **given)
        return len(stream.partitions(stream.initialOffset(), stream.latestOffset({}, ReadAllAvailable())))

    assert tasks(1000) == 1
    assert tasks(10**6) == 4
    assert tasks(10**6, maxPartitions="3") == 3
    assert tasks(1000, minRecordsPerPartition="1") == 4
    assert tasks(1000, minRecordsPerPartition="3000") == 2  # each range counts 500 more
    assert tasks(1000, minRecordsPerPartition="1", maxPartitions="2") == 2


def test_offsets_come_from_sparks_arguments_not_from_what_was_seen_before():
    stream = reader(FakeCluster(t=[(0, 50), (0, 50)]))
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert ranges(stream, {"t": {"0": 8, "1": 50}}, {"t": {"0": 12, "1": 50}}) == [r("t", 0, 8, 12)]
    assert ranges(stream, {"t": {"0": 12, "1": 50}}, end) == [r("t", 0, 12, 50)]


# Trigger.AvailableNow


def test_available_now_ends_at_what_was_there_when_it_first_looked():
    cluster = FakeCluster(t=[(0, 5)])
    stream = reader(cluster, maxOffsetsPerTrigger="3")
    stream.prepareForTriggerAvailableNow()
    cluster.logs["t"] = [(0, 6)]  # still before the first look
    offset, seen = stream.initialOffset(), []
    while True:
        end = stream.latestOffset(wire(offset), stream.getDefaultReadLimit())
        cluster.logs["t"] = [(0, 60), (0, 9)]
        if end == offset:
            break
        seen += ranges(stream, offset, end)
        offset = end
    assert seen == [r("t", 0, 0, 3), r("t", 0, 3, 6)]


def test_available_now_replays_a_batch_planned_before_without_freezing_first():
    cluster = FakeCluster(t=[(0, 9), (0, 4)])
    stream = reader(cluster)
    stream.prepareForTriggerAvailableNow()
    assert ranges(stream, {"t": {"0": 2}}, {"t": {"0": 6}}) == [r("t", 0, 2, 6)]
    assert stream.latestOffset({"t": {"0": 6}}, ReadAllAvailable()) == {"t": {"0": 9, "1": 4}}


def test_available_now_fails_when_its_goal_vanishes_whatever_fail_on_data_loss_says():
    cluster = FakeCluster(t=[(0, 5), (0, 5)])
    stream = reader(cluster, failOnDataLoss="false", subscribePattern="t")
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    stream._frozen = {TopicPartition("t", 0): 5}
    with pytest.raises(KafkaSourceError, match=r"Trigger.AvailableNow.*t-1"):
        stream.partitions(start, end)


# Life


def test_the_reader_reports_how_far_the_logs_reach():
    stream = reader(FakeCluster(t=[(0, 101)]), maxOffsetsPerTrigger="10")
    assert stream.reportLatestOffset() is None
    stream.latestOffset(stream.initialOffset(), ReadMaxRows(10))
    assert stream.reportLatestOffset() == {"t": {"0": 101}}


def test_stop_closes_the_connections_and_may_come_twice():
    cluster = FakeCluster(t=[(0, 1)])
    stream = reader(cluster)
    stream.stop()
    stream.initialOffset()
    stream.stop()
    stream.stop()
    assert cluster.closed


def test_tasks_get_a_few_plain_values_however_much_the_driver_holds():
    everything = {"t": {str(number): 0 for number in range(1000)}}
    stream = reader(FakeCluster(t=[(0, 5)] * 1000), startingOffsets=json.dumps(everything), includeHeaders="true")
    stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    sent = pickle.dumps(stream)
    in_the_task = pickle.loads(sent)
    assert in_the_task.settings.include_headers
    assert in_the_task.config.bootstrap_servers == (("nowhere", 1),)
    assert len(sent) < 2000


def test_committing_is_spark_s_alone():
    reader(FakeCluster()).commit({"t": {"0": 1}})


@pytest.mark.parametrize(
    "given",
    [{"subscribe": "t", "assign": "{}"}, {"startingOffsets": "x"}, {"endingOffsets": "latest"}, {"subscribe": ","}],
)
def test_wrong_options_fail_before_any_broker_is_asked(given):
    with pytest.raises(OptionError):
        reader(None, **given)
