"""The driver's side of a streaming query, driven by the calls that Spark makes, in Spark's order."""

import json
import pickle
import uuid

import pytest
from fake_cluster import FakeCluster

from kafkasource import options
from kafkasource.errors import DataLoss, KafkaSourceError, OptionError, UnknownTopicOrPartition, error_for
from kafkasource.kafka.network.metadata import PartitionMetadata
from kafkasource.source.plan.open_transactions import OpenTransactions
from kafkasource.source.spark.stream import StreamReader
from kafkasource.spark.releases import ReadAllAvailable, ReadMaxRows
from kafkasource.types import IsolationLevel, OffsetRange, TopicPartition


class Offers(list):
    """Instead of a GroupCommitter: what was offered, by whose name."""

    def __call__(self, config, group):
        self.group = group
        return self

    def offer(self, offsets, topic_ids, leader_epochs):
        self.append((dict(offsets), dict(topic_ids), dict(leader_epochs)))

    def flush(self):
        self.append("flushed")

    def close(self):
        self.append("closed")


def reader(cluster, committer=None, **given):
    given = {
        "kafka.bootstrap.servers": "nowhere:1",
        "startingOffsets": "earliest",
        "fetchOffset.retryIntervalMs": "0",
    } | given
    if not {"subscribe", "subscribePattern", "assign"} & given.keys():
        given["subscribe"] = "t"
    return StreamReader(
        options.parse(given, "source"), lambda config: cluster, Offers() if committer is None else committer
    )


def wire(offset):
    """Spark keeps offsets as JSON text."""
    return json.loads(json.dumps(offset))


def topics(offset):
    """What the JVM connector sees of it."""
    return {topic: partitions for topic, partitions in offset.items() if not topic.startswith("@")}


def ranges(stream, start, end):
    return [r for partition in stream.partitions(wire(start), wire(end)) for r in partition.value]


def r(topic, partition, start, end):
    return OffsetRange(TopicPartition(topic, partition), start, end)


def test_a_new_query_reads_from_its_starting_offsets_to_the_end():
    stream = reader(FakeCluster(t=[(0, 5), (2, 9)]))
    start = stream.initialOffset()
    end = stream.latestOffset(wire(start), ReadAllAvailable())
    assert (start, topics(end)) == ({"t": {"0": 0, "1": 2}}, {"t": {"0": 5, "1": 9}})
    assert ranges(stream, start, end) == [r("t", 0, 0, 5), r("t", 1, 2, 9)]


def test_a_query_on_the_checkpoint_of_another_one_is_told_so():
    cluster = FakeCluster(orders=[(0, 5)], bills=[(0, 7)])
    other = reader(cluster, subscribe="orders")
    checkpointed = wire(other.latestOffset(wire(other.initialOffset())))
    stream = reader(cluster, subscribe="bills")
    with pytest.raises(DataLoss, match=r"checkpoint is of a query that read orders-0.* reads Subscribe\[bills\]"):
        stream.partitions(checkpointed, wire(stream.latestOffset(checkpointed)))


def test_latest_is_the_default_start():
    cluster = FakeCluster(t=[(0, 5)])
    parsed = options.parse({"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t"}, "source")
    assert StreamReader(parsed, lambda config: cluster).initialOffset() == {"t": {"0": 5}}


def test_nothing_new_is_answered_with_the_start_itself():
    stream = reader(FakeCluster(t=[(0, 5)]))
    start = {"t": {"0": 5}}
    assert stream.latestOffset(start, ReadAllAvailable()) is start
    assert stream.partitions(start, start) == []


def test_a_query_that_is_asked_to_stop_plans_no_further_micro_batch_and_says_so_by_removing_the_file(tmp_path):
    file = tmp_path / "stop"
    stream = reader(FakeCluster(t=[(0, 5)]), stopFile=str(file))
    start = {"t": {"0": 2}}
    assert stream.latestOffset(start, ReadAllAvailable()) == {"t": {"0": 5}}
    file.touch()
    assert stream.latestOffset(start, ReadAllAvailable()) == start
    assert not file.exists()
    assert stream.latestOffset(start, ReadAllAvailable()) == start  # held from then on
    stream.stop()
    again = reader(FakeCluster(t=[(0, 5)]), stopFile=str(file))
    assert again.latestOffset(start, ReadAllAvailable()) == {"t": {"0": 5}}


def test_an_empty_offset_is_never_made_when_all_partitions_vanish():
    cluster = FakeCluster()
    stream = reader(cluster, subscribePattern="t.*")
    assert stream.latestOffset({"t1": {"0": 5}}, ReadAllAvailable()) == {"t1": {"0": 5}}


def test_the_limit_is_announced_and_obeyed_unless_spark_lifts_it():
    stream = reader(FakeCluster(t=[(0, 101), (0, 11), (0, 1)]), maxOffsetsPerTrigger="10")
    assert stream.getDefaultReadLimit() == ReadMaxRows(10)
    start = stream.initialOffset()
    assert topics(stream.latestOffset(start, ReadMaxRows(10))) == {"t": {"0": 8, "1": 1, "2": 1}}
    assert topics(stream.latestOffset(start, ReadAllAvailable())) == {"t": {"0": 101, "1": 11, "2": 1}}
    assert reader(FakeCluster()).getDefaultReadLimit() == ReadAllAvailable()


def test_the_old_call_without_arguments_means_everything():
    assert reader(FakeCluster(t=[(0, 5)])).latestOffset() == {"t": {"0": 5}}


def test_a_partition_added_later_is_read_from_its_beginning_also_under_a_limit():
    cluster = FakeCluster(t=[(0, 5)])
    stream = reader(cluster, startingOffsets="latest", maxOffsetsPerTrigger="4")
    start = stream.initialOffset()
    cluster.logs["t"].append((0, 9))
    end = stream.latestOffset(start, ReadMaxRows(4))
    assert topics(end) == {"t": {"0": 5, "1": 4}}
    assert ranges(stream, start, end) == [r("t", 1, 0, 4)]


def test_a_pattern_finds_new_topics_and_never_internal_ones():
    cluster = FakeCluster(t1=[(0, 1)], t_internal=[(0, 1)])
    cluster.internal.add("t.internal")
    stream = reader(cluster, subscribePattern="t.*")
    start = stream.initialOffset()
    cluster.logs["t2"] = [(0, 3)]
    assert topics(stream.latestOffset(start, ReadAllAvailable())) == {"t1": {"0": 1}, "t2": {"0": 3}}


def test_assigned_partitions_that_do_not_exist_are_left_out_with_a_warning(caplog):
    stream = reader(FakeCluster(t=[(0, 1)]), assign='{"t":[0,7]}')
    assert stream.initialOffset() == {"t": {"0": 0}}
    assert "t-7" in caplog.text


def test_a_query_warns_once_of_partitions_that_stay_missing(caplog):
    cluster = FakeCluster(t=[(0, 1)])
    stream = reader(cluster, assign='{"t":[0,1]}')
    for _ in range(3):
        stream.latestOffset({"t": {"0": 1}}, ReadAllAvailable())
    assert len(caplog.records) == 1
    assert cluster.patience == [5000, 0, 0]  # news of a new topic may take a while, but not at each micro-batch
    cluster.logs["t"].append((0, 4))
    assert stream.latestOffset({"t": {"0": 1}}, ReadAllAvailable()) == {"t": {"0": 1, "1": 4}}


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


def of_pattern(cluster, **given):
    return reader(cluster, subscribePattern=".", failOnDeletedTopic="false", **given)


def test_a_deleted_topic_is_said_and_the_others_are_read(caplog):
    """Of t-0, 50 records from 100 on were never read; of t-1, all."""
    cluster = FakeCluster(t=[(0, 150), (0, 7)], u=[(0, 5)])
    stream = of_pattern(cluster, maxOffsetsPerTrigger="1000")
    start = {"t": {"0": 100, "1": 7}, "u": {"0": 5}}
    stream.latestOffset(start, ReadMaxRows(1000))
    del cluster.logs["t"]
    cluster.logs["u"] = [(0, 9)]
    end = stream.latestOffset(start, ReadMaxRows(1000))
    assert end == {"u": {"0": 9}}
    caplog.clear()
    assert ranges(stream, start, end) == [r("u", 0, 5, 9)]
    (said,) = caplog.messages
    assert "KAFKA_DATA_LOSS.PARTITIONS_DELETED" in said
    assert "t-0, t-1 have been deleted" in said
    assert "Not read of them: t-0 (50 offsets from 100 on)." in said


def test_a_restart_behind_the_deletion_goes_on_and_says_how_far_it_had_read(caplog):
    stream = of_pattern(FakeCluster(u=[(0, 9)]))
    start, end = {"t": {"0": 100}, "u": {"0": 5}}, {"u": {"0": 9}}
    assert ranges(stream, start, end) == [r("u", 0, 5, 9)]
    assert "not known whether there was more: t-0 (up to offset 100)." in caplog.text


def test_a_topic_that_was_deleted_before_anything_of_it_was_read_may_be_left_out():
    stream = of_pattern(FakeCluster(u=[(0, 9)]))
    assert ranges(stream, {"u": {"0": 5}}, {"u": {"0": 9}, "t": {"0": 4}}) == [r("u", 0, 5, 9)]


def test_a_topic_that_was_made_again_before_the_query_missed_it_stops_the_query():
    cluster = FakeCluster(t=[(0, 5)])
    cluster.recreate("t", (0, 5))
    stream = of_pattern(cluster)
    start = stream.latestOffset({}, ReadAllAvailable())
    cluster.recreate("t", (0, 9))
    end = stream.latestOffset(start, ReadAllAvailable())
    with pytest.raises(DataLoss, match="TOPIC_RECREATED"):
        stream.partitions(start, end)


def test_a_topic_that_was_made_again_after_the_query_missed_it_is_another_one():
    cluster = FakeCluster(t=[(0, 5)], u=[(0, 5)])
    cluster.recreate("t", (0, 5))
    stream = of_pattern(cluster)
    start = stream.latestOffset({}, ReadAllAvailable())
    del cluster.logs["t"]
    missed = stream.latestOffset(start, ReadAllAvailable())
    cluster.recreate("t", (0, 3))
    assert stream.partitions(start, missed) == []
    (new,) = ranges(stream, missed, stream.latestOffset(missed, ReadAllAvailable()))
    assert (str(new.topic_partition), new.start_offset, new.end_offset) == ("t-0", 0, 3)


def test_a_topic_that_exists_and_that_the_list_lacks_stops_the_query():
    """As where the right to see it was taken away: asked for it by name, the broker refuses."""
    start, end = {"t": {"0": 5}, "u": {"0": 5}}, {"u": {"0": 5}}
    refused = FakeCluster(u=[(0, 5)])
    refused.topics.describe = lambda names, **_: (_ for _ in ()).throw(error_for(29, "topic 't'"))
    for cluster in (FakeCluster(t=[(0, 5)], u=[(0, 5)]), refused):
        with pytest.raises(DataLoss, match=r"PARTITIONS_DELETED.*t-0"):
            of_pattern(cluster).partitions(start, end)


def test_records_that_aged_out_stop_a_query_that_goes_on_without_deleted_topics():
    stream = of_pattern(FakeCluster(t=[(0, 3)]), **{"fetchOffset.retryIntervalMs": "0"})
    start = {"t": {"0": 8}}
    with pytest.raises(DataLoss, match="offset was changed from 8 to 3"):
        stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))


def test_topics_that_are_named_must_exist_so_their_deletion_cannot_be_tolerated():
    with pytest.raises(OptionError, match="'failOnDeletedTopic'=false needs 'subscribePattern'"):
        reader(FakeCluster(t=[(0, 1)]), failOnDeletedTopic="false")


def test_the_isolation_level_rules_where_logs_end():
    cluster = FakeCluster(t=[(0, 1)])
    reader(cluster, **{"kafka.isolation.level": "READ_COMMITTED"}).latestOffset({}, None)
    assert cluster.isolation_levels == {IsolationLevel.READ_COMMITTED}


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


# Under read_committed a log ends where its oldest open transaction begins, and a checkpoint may be beyond that: it was
# made under read_uncommitted, or its query began where such a consumer's group stood.

T0 = TopicPartition("t", 0)
READ_COMMITTED = {"kafka.isolation.level": "read_committed"}


def test_a_checkpoint_behind_an_open_transaction_waits_for_its_end_and_loses_and_doubles_nothing(caplog):
    cluster = FakeCluster(t=[(0, 120)])
    cluster.stable = {T0: 100}
    stream, begin = reader(cluster, **READ_COMMITTED), {"t": {"0": 120}}
    for _ in range(3):
        assert stream.latestOffset(begin, ReadAllAvailable()) is begin
        assert stream.partitions(begin, begin) == []
    assert caplog.messages == []
    cluster.stable, cluster.logs["t"] = {}, [(0, 130)]
    end = stream.latestOffset(begin, ReadAllAvailable())
    assert (end, ranges(stream, begin, end)) == ({"t": {"0": 130}}, [r("t", 0, 120, 130)])


def test_a_new_query_may_start_behind_an_open_transaction():
    cluster = FakeCluster(t=[(0, 120)])
    cluster.stable, cluster.committed = {T0: 100}, {("g", T0): 115}
    for given, at in (
        ({"startingOffsets": '{"t":{"0":120}}'}, 120),
        ({"startingOffsets": "committed", "kafka.group.id": "g"}, 115),
    ):
        stream = reader(cluster, **given, **READ_COMMITTED)
        start = wire(stream.initialOffset())
        end = wire(stream.latestOffset(start, ReadAllAvailable()))
        assert (topics(start), topics(end)) == ({"t": {"0": at}}, {"t": {"0": at}})
        assert ranges(stream, start, end) == []


def test_other_partitions_are_read_while_one_waits_for_a_transaction_also_by_a_run_that_ends():
    cluster = FakeCluster(t=[(0, 120), (0, 9)])
    cluster.stable = {T0: 100}
    start, end = {"t": {"0": 120, "1": 4}}, {"t": {"0": 120, "1": 9}}
    stream = reader(cluster, **READ_COMMITTED)
    assert stream.latestOffset(start, ReadAllAvailable()) == end
    assert ranges(stream, start, end) == [r("t", 1, 4, 9)]
    assert available_now(cluster, start, **READ_COMMITTED) == ([(1, 4, 9)], end)
    limited = {"maxOffsetsPerTrigger": "3", **READ_COMMITTED}
    assert available_now(cluster, start, **limited) == ([(1, 4, 7), (1, 7, 9)], end)


def test_a_partition_that_waits_for_a_transaction_keeps_its_epoch_so_a_truncation_is_found_when_it_moves():
    cluster = identified(t=[(0, 120), (0, 5)])
    start = checkpoint(cluster)
    cluster.stable, cluster.logs["t"] = {T0: 100}, [(0, 125), (0, 6)]
    cluster.epochs[T0] = 4
    cluster.ends_of_epochs = {(T0, 3): 90}
    stream = reader(cluster, **READ_COMMITTED)
    waits = wire(stream.latestOffset(start, ReadAllAvailable()))
    assert (waits["t"], spans(ranges(stream, start, waits))) == ({"0": 120, "1": 6}, [(1, 5, 6)])
    cluster.stable = {}
    end = wire(stream.latestOffset(waits, ReadAllAvailable()))
    with pytest.raises(DataLoss, match=r"LOG_TRUNCATED.*t-0 was truncated to offset 90"):
        stream.partitions(waits, end)


def test_a_log_that_ends_before_what_was_read_is_a_loss_under_read_committed_too():
    cluster = FakeCluster(t=[(0, 110)])
    cluster.stable, begin = {T0: 100}, {"t": {"0": 120}}
    stream = reader(cluster, **READ_COMMITTED)
    end = stream.latestOffset(begin, ReadAllAvailable())
    with pytest.raises(DataLoss, match="Partition t-0 offset was changed from 120 to 110"):
        stream.partitions(begin, end)


def test_a_transaction_before_what_was_read_is_told_by_its_own_offset_once_it_has_held_the_query_back(caplog):
    cluster, now = FakeCluster(t=[(0, 120)]), [0.0]
    cluster.stable, begin = {T0: 100}, {"t": {"0": 120}}
    stream = reader(cluster, **READ_COMMITTED)
    stream._open_transactions = OpenTransactions(lambda: now[0])
    for now[0] in range(0, 200, 10):
        stream.latestOffset(begin, ReadAllAvailable())
    (message,) = caplog.messages
    assert "last stable offset has been 100 and its high watermark (now 120)" in message
    assert "--start-offset 100" in message
    assert stream.reportLatestOffset() == begin  # no lag below 0


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


def test_available_now_fails_when_its_end_vanishes_whatever_fail_on_data_loss_says():
    before = reader(FakeCluster(t=[(0, 5), (0, 5)]), subscribePattern="t")
    end = before.latestOffset(before.initialOffset(), ReadAllAvailable())
    stream = reader(FakeCluster(t=[(0, 5)]), failOnDataLoss="false", subscribePattern="t")
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    stream.latestOffset(start, ReadAllAvailable())
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
    assert "headers" in in_the_task.settings.columns
    assert in_the_task.config.bootstrap_servers == (("nowhere", 1),)
    assert len(sent) < 2000


@pytest.mark.parametrize(
    "given",
    [{"subscribe": "t", "assign": "{}"}, {"startingOffsets": "x"}, {"endingOffsets": "x"}, {"subscribe": ","}],
)
def test_wrong_options_fail_before_any_broker_is_asked(given):
    with pytest.raises(OptionError):
        reader(None, **given)


# Which logs these are. The JVM connector knows offsets only.


def identified(**logs):
    cluster = FakeCluster(**logs)
    cluster.topic_ids |= {topic: uuid.uuid4() for topic in logs}
    cluster.epochs = {TopicPartition(topic, n): 3 for topic in logs for n in range(len(logs[topic]))}
    return cluster


def checkpoint(cluster, **given):
    """Of a query that has read everything there is."""
    stream = reader(cluster, **given)
    return wire(stream.latestOffset(wire(stream.initialOffset()), ReadAllAvailable()))


def spans(planned):
    return [(r.topic_partition.partition, r.start_offset, r.end_offset) for r in planned]


def test_a_checkpoint_of_the_jvm_connector_goes_on_and_learns_which_logs_they_are():
    cluster = identified(t=[(0, 5), (0, 4)])
    stream, start = reader(cluster), {"t": {"0": 5, "1": 4}}
    assert stream.latestOffset(start, ReadAllAvailable()) is start
    cluster.logs["t"][0] = (0, 7)
    end = stream.latestOffset(start, ReadAllAvailable())
    (planned,) = ranges(stream, start, end)
    assert (planned.start_offset, planned.end_offset) == (5, 7)
    assert (planned.topic_id, planned.leader_epoch) == (cluster.topic_ids["t"], 3)
    (entry,) = end.keys() - {"t"}
    assert (end["t"], end[entry]) == ({"0": 7, "1": 4}, {})


@pytest.mark.parametrize("length", [3, 5, 50])
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("ids", [True, False])  # False: Kafka 2.4 to 2.7, where only the epoch shows it
def test_a_recreated_topic_is_data_loss_however_long_and_is_read_whole_where_that_may_be(length, restarted, ids):
    for fail in ("true", "false"):
        cluster = identified(t=[(0, 5), (0, 5)])
        if not ids:
            cluster.topic_ids.clear()
        stream = reader(cluster, failOnDataLoss=fail)
        start = checkpoint(cluster)
        if not restarted:
            assert stream.latestOffset(start, ReadAllAvailable()) == start
        cluster.recreate("t", (0, length), (1, length))
        if not ids:
            cluster.topic_ids.clear()
            cluster.epochs = dict.fromkeys(cluster.epochs, 0)
            cluster.ends_of_epochs = dict.fromkeys([(tp, 3) for tp in cluster.epochs])
        end = wire(stream.latestOffset(start, ReadAllAvailable()))
        if fail == "true":
            with pytest.raises(DataLoss, match=r"TOPIC_RECREATED.*Topic t "):
                stream.partitions(start, end)
        else:
            assert spans(ranges(stream, start, end)) == [(0, 0, length), (1, 1, length)]
            assert stream.latestOffset(end, ReadAllAvailable()) == end


def test_a_recreated_topic_keeps_the_limit():
    cluster = identified(t=[(0, 50)])
    stream, start = reader(cluster, failOnDataLoss="false", maxOffsetsPerTrigger="10"), checkpoint(cluster)
    cluster.recreate("t", (0, 60))
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert spans(ranges(stream, start, end)) == [(0, 0, 10)]


@pytest.mark.parametrize("length", [3, 5, 50])
def test_a_truncated_log_is_data_loss_however_long_it_is_again(length):
    cluster = identified(t=[(0, 5), (0, 5)])
    start = checkpoint(cluster)
    cluster.logs["t"] = [(0, length), (0, 9)]
    cluster.epochs = {TopicPartition("t", 0): 4, TopicPartition("t", 1): 4}
    cluster.ends_of_epochs = {(TopicPartition("t", 0), 3): 2, (TopicPartition("t", 1), 3): 5}
    stream = reader(cluster)
    end = wire(stream.latestOffset(start, ReadAllAvailable()))
    with pytest.raises(DataLoss, match=r"LOG_TRUNCATED.*t-0 was truncated to offset 2.*\[2, 5\)"):
        stream.partitions(start, end)
    stream = reader(cluster, failOnDataLoss="false")
    assert spans(ranges(stream, start, end)) == [(0, 2, length), (1, 5, 9)]
    cluster.logs["t"][0] = (0, length + 1)
    again = wire(stream.latestOffset(end, ReadAllAvailable()))
    assert spans(ranges(stream, end, again)) == [(0, length, length + 1)]


def test_an_older_epoch_of_one_leader_alone_is_not_written_to_the_checkpoint():
    """Without ids, the leader that is cut off looks like the leader of a topic made again."""
    cluster = identified(t=[(0, 5)])
    cluster.topic_ids.clear()
    stream, start = reader(cluster), checkpoint(cluster)
    cluster.logs["t"], cluster.epochs[T0] = [(0, 9)], 2
    listing = cluster.offsets.list

    def of_before(wanted, isolation_level):
        found = listing(wanted, isolation_level)
        cluster.logs["t"], cluster.epochs[T0] = [(0, 7)], 3  # once other brokers were asked for the leader
        return found

    cluster.offsets.list = of_before
    end = wire(stream.latestOffset(start, ReadAllAvailable()))
    assert cluster.patience[-1] == 0
    assert spans(ranges(stream, start, end)) == [(0, 5, 7)]


def test_one_wrong_end_of_an_epoch_is_no_loss():
    """Redpanda #5435, #15112: a leader that was just elected, asked once."""
    for fail in ("true", "false"):
        cluster = identified(t=[(0, 8996)])
        stream, start = reader(cluster, failOnDataLoss=fail), checkpoint(cluster)
        cluster.logs["t"], cluster.epochs[T0] = [(0, 9000)], 4
        cluster.ends_of_epochs[T0, 3] = 8378
        cluster.offsets.epoch_ends = wrong_once(cluster)
        end = wire(stream.latestOffset(start, ReadAllAvailable()))
        assert spans(ranges(stream, start, end)) == [(0, 8996, 9000)]


def wrong_once(cluster):
    right = cluster.offsets.epoch_ends

    def epoch_ends(asked):
        found = right(asked)
        cluster.ends_of_epochs.clear()
        return found

    return epoch_ends


@pytest.mark.parametrize("tolerant", [True, False])
def test_a_log_truncated_behind_an_open_transaction_is_not_read_twice(tolerant):
    """Read up to 20 under read_uncommitted; a transaction is open since 5; an unclean election cuts the log to 15."""
    cluster = identified(t=[(0, 20)])
    cluster.stable[T0] = 5
    start = checkpoint(cluster)
    cluster.logs["t"], cluster.epochs[T0], cluster.ends_of_epochs[T0, 3] = [(0, 15)], 4, 15
    stream = reader(cluster, failOnDataLoss="false" if tolerant else "true", **READ_COMMITTED)
    end = wire(stream.latestOffset(start, ReadAllAvailable()))
    assert end["t"] == {"0": 15}
    if not tolerant:
        with pytest.raises(DataLoss, match="t-0 was truncated to offset 15"):
            stream.partitions(start, end)
        return
    assert ranges(stream, start, end) == []
    cluster.stable.clear()
    cluster.logs["t"] = [(0, 18)]
    again = wire(stream.latestOffset(end, ReadAllAvailable()))
    assert spans(ranges(stream, end, again)) == [(0, 15, 18)]


def test_a_log_truncated_and_grown_to_the_very_offset_is_noticed_before_it_moves():
    cluster = identified(t=[(0, 5), (0, 5)])
    start = checkpoint(cluster)
    cluster.epochs = {TopicPartition("t", 0): 4, TopicPartition("t", 1): 4}
    cluster.ends_of_epochs = {(TopicPartition("t", 0), 3): 2, (TopicPartition("t", 1), 3): 5}
    stream = reader(cluster, failOnDataLoss="false")
    end = wire(stream.latestOffset(start, ReadAllAvailable()))
    assert (topics(end), end == start) == (topics(start), False)
    assert spans(ranges(stream, start, end)) == [(0, 2, 5)]
    assert stream.latestOffset(end, ReadAllAvailable()) == end  # once


def test_what_was_found_of_a_log_does_not_count_for_the_next_topic_of_its_name():
    cluster = identified(t=[(0, 5)])
    stream, start = reader(cluster, failOnDataLoss="false"), checkpoint(cluster)
    cluster.epochs[T0] = 4
    assert stream.latestOffset(start, ReadAllAvailable()) == start  # its leader has all that was read
    cluster.recreate("t", (0, 5))
    cluster.epochs[T0] = 3
    begun = wire(stream.latestOffset(start, ReadAllAvailable()))
    cluster.epochs[T0], cluster.ends_of_epochs[T0, 3] = 4, 2
    end = wire(stream.latestOffset(begun, ReadAllAvailable()))
    assert spans(ranges(stream, begun, end)) == [(0, 2, 5)]


def test_an_election_in_a_log_that_stands_still_is_asked_about_once():
    cluster = identified(t=[(0, 5), (0, 5)])
    stream, start = reader(cluster), checkpoint(cluster)
    cluster.epochs[TopicPartition("t", 0)] = 4
    for _ in range(5):
        assert stream.latestOffset(start, ReadAllAvailable()) == start
    assert cluster.epochs_asked == [{TopicPartition("t", 0): 3}]


def test_leaders_are_asked_for_epochs_only_where_they_changed():
    cluster = identified(t=[(0, 5)] * 1000)
    stream, start = reader(cluster), checkpoint(cluster)
    cluster.logs["t"] = [(0, 6)] * 1000
    end = stream.latestOffset(start, ReadAllAvailable())
    assert len(ranges(stream, start, end)) == 1000
    assert cluster.epochs_asked == []
    cluster.epochs[TopicPartition("t", 7)] = 4
    cluster.logs["t"] = [(0, 7)] * 1000
    ranges(stream, end, stream.latestOffset(end, ReadAllAvailable()))
    assert cluster.epochs_asked == [{TopicPartition("t", 7): 3}]


# A fail-over to a cluster that keeps offsets: Cluster Linking's mirror topics, a replica by another vendor.


def failed_over(end=120, cluster_id="west"):
    """Another cluster with the same topic: another id, other epochs."""
    cluster = identified(t=[(0, end), (0, 5)])
    cluster.epochs = {T0: 9, TopicPartition("t", 1): 0}
    cluster.ends_of_epochs = {(T0, 3): 7}  # an epoch means nothing there
    cluster.metadata.cluster_id = cluster_id
    return cluster


def test_a_checkpoint_of_another_cluster_names_the_option_that_takes_it():
    start = checkpoint(identified(t=[(0, 100), (0, 5)]))
    stream = reader(failed_over())
    end = wire(stream.latestOffset(start, ReadAllAvailable()))
    with pytest.raises(DataLoss, match=r"checkpoint is of cluster fake, and cluster west .* 'failedOverTo' to west"):
        stream.partitions(start, end)


@pytest.mark.parametrize("planned_before", [False, True])
def test_a_query_that_has_failed_over_goes_on_at_the_same_offsets_once(planned_before, caplog):
    old = identified(t=[(0, 90), (0, 5)])
    start = checkpoint(old)
    if planned_before:  # and not finished: the batch is done again in the new cluster
        old.logs["t"][0] = (0, 100)
        end = wire(reader(old).latestOffset(start, ReadAllAvailable()))
        again = reader(failed_over(), failedOverTo="west")
        assert ranges(again, start, end) == [r("t", 0, 90, 100)]
        start = end
    west = failed_over()
    stream = reader(west, failedOverTo="west")
    end = wire(stream.latestOffset(start, ReadAllAvailable()))
    assert spans(ranges(stream, start, end)) == [(0, start["t"]["0"], 120)]
    assert "offsets of cluster fake are taken for those of cluster west" in caplog.text
    west.recreate("t", (0, 200), (0, 5))
    for one in (stream, reader(west, failedOverTo="west")):
        after = wire(one.latestOffset(end, ReadAllAvailable()))
        with pytest.raises(DataLoss, match="TOPIC_RECREATED"):
            one.partitions(end, after)


def test_records_that_the_new_cluster_does_not_have_yet_are_a_loss():
    stream, start = reader(failed_over(end=80), failedOverTo="west"), checkpoint(identified(t=[(0, 90), (0, 5)]))
    end = wire(stream.latestOffset(start, ReadAllAvailable()))
    with pytest.raises(DataLoss, match="offset was changed from 90 to 80"):
        stream.partitions(start, end)


def test_another_cluster_than_the_one_that_was_failed_over_to_is_refused():
    stream, start = reader(failed_over(), failedOverTo="north"), checkpoint(identified(t=[(0, 90), (0, 5)]))
    with pytest.raises(OptionError, match="'failedOverTo' is north, and cluster west answers"):
        stream.latestOffset(start, ReadAllAvailable())


# Bounded streams


def available_now(cluster, start=None, **given):
    """The ranges that a run under Trigger.AvailableNow reads, and where it ends."""
    stream = reader(cluster, **given)
    stream.prepareForTriggerAvailableNow()
    offset, seen = wire(start or stream.initialOffset()), []
    while (end := wire(stream.latestOffset(offset, stream.getDefaultReadLimit()))) != offset:
        seen += spans(ranges(stream, offset, end))
        offset = end
    return seen, topics(offset)


def test_a_bounded_stream_reads_to_its_end_and_stops():
    cluster = FakeCluster(t=[(0, 9), (0, 9)])
    seen, end = available_now(cluster, endingOffsets='{"t":{"0":5,"1":-1}}', maxOffsetsPerTrigger="7")
    assert sorted(seen)[0] == (0, 0, 2)  # 7 of 14, as 5 to 9
    assert end == {"t": {"0": 5, "1": 9}}
    assert available_now(cluster, start=end, endingOffsets='{"t":{"0":5,"1":-1}}') == ([], end)


@pytest.mark.parametrize(
    "end", [{"endingTimestamp": "2000"}, {"endingOffsetsByTimestamp": '{"t":{"0":2000,"1":2000}}'}]
)
def test_a_bounded_stream_ends_before_the_first_record_that_is_not_older_or_at_the_log_s_end(end):
    cluster = FakeCluster(t=[(0, 3), (0, 3)])
    cluster.timestamps = {TopicPartition("t", 0): [1000, 2000, 3000], TopicPartition("t", 1): [10, 20, 30]}
    assert available_now(cluster, **end) == ([(0, 0, 1), (1, 0, 3)], {"t": {"0": 1, "1": 3}})


def test_a_query_that_has_read_past_its_end_already_reads_nothing_and_does_not_go_back():
    cluster = FakeCluster(t=[(0, 9), (0, 9)])
    start = {"t": {"0": 7, "1": 2}}
    assert available_now(cluster, start, endingOffsets='{"t":{"0":5,"1":5}}') == ([(1, 2, 5)], {"t": {"0": 7, "1": 5}})


def test_partitions_that_the_end_does_not_speak_of_stay_where_they_are_and_new_ones_are_not_read():
    cluster = FakeCluster(t=[(0, 9), (0, 9), (0, 9)])
    start = {"t": {"0": 1, "1": 2}}
    assert available_now(cluster, start, endingOffsets='{"t":{"0":5}}') == ([(0, 1, 5)], {"t": {"0": 5, "1": 2}})


def test_a_new_partition_that_begins_behind_the_end_is_not_read():
    cluster = FakeCluster(t=[(0, 9), (6, 9)])
    start = {"t": {"0": 1}}
    seen, end = available_now(cluster, start, endingOffsets='{"t":{"0":5,"1":5}}', failOnDataLoss="false")
    assert (seen, end["t"]["0"]) == ([(0, 1, 5)], 5)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries.*'endingOffsets'"),
        ({"endingTimestamp": "1"}, "ending timestamp not valid in streaming queries.*'endingTimestamp'"),
        (
            {"endingOffsetsByTimestamp": '{"t":{"0":1}}'},
            "ending timestamp not valid in streaming queries.*'endingOffsetsByTimestamp'",
        ),
    ],
)
def test_an_end_without_available_now_is_refused_before_any_broker_is_asked(given, text):
    with pytest.raises(OptionError, match=text) as caught:
        reader(None, **given).initialOffset()
    assert "trigger(availableNow=True)" in str(caught.value)
    with pytest.raises(OptionError):
        reader(None, **given).latestOffset({"t": {"0": 1}}, ReadAllAvailable())


# The consumer group


def test_what_is_finished_is_offered_to_the_group_when_spark_commits_and_when_it_asks_for_more():
    cluster, offers = identified(t=[(0, 5)]), Offers()
    stream = reader(cluster, offers, **{"kafka.group.id": "g"})
    start = wire(stream.initialOffset())
    end = wire(stream.latestOffset(start, ReadAllAvailable()))
    assert offers.group == "g"
    offers.clear()
    stream.commit(end)
    stream.latestOffset(end, ReadAllAvailable())
    assert offers == [({TopicPartition("t", 0): 5}, cluster.topic_ids, cluster.epochs)] * 2
    stream.stop()
    assert offers[-1] == "closed"


def test_the_end_of_a_run_under_available_now_reaches_the_group_before_spark_ends_the_process():
    cluster, offers = FakeCluster(t=[(0, 5)]), Offers()
    stream = reader(cluster, offers, **{"kafka.group.id": "g"})
    stream.prepareForTriggerAvailableNow()
    end = wire(stream.latestOffset(wire(stream.initialOffset()), ReadAllAvailable()))
    assert "flushed" not in offers
    stream.latestOffset(end, ReadAllAvailable())
    assert offers[-2:] == [({TopicPartition("t", 0): 5}, {}, {}), "flushed"]


@pytest.mark.parametrize("given", [{}, {"kafka.group.id": "g", "commitOffsets": "false"}])
def test_no_group_is_told_where_none_is_to_be(given):
    offers = Offers()
    stream = reader(FakeCluster(t=[(0, 5)]), offers, **given)
    stream.commit(stream.latestOffset(stream.initialOffset(), ReadAllAvailable()))
    stream.stop()
    assert not offers


def test_progress_shows_topics_alone():
    cluster = identified(t=[(0, 101)])
    stream = reader(cluster, maxOffsetsPerTrigger="10")
    stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    assert stream.reportLatestOffset() == {"t": {"0": 101}}


def test_a_leader_that_metadata_have_not_heard_of_is_no_truncation():
    cluster = identified(t=[(0, 100)])  # of which the last ten were written under epoch 4
    cluster.metadata.partition = lambda tp: PartitionMetadata(0, leader_id=1, leader_epoch=3)
    cluster.epochs = {TopicPartition("t", 0): 4}
    cluster.ends_of_epochs = {(TopicPartition("t", 0), 3): 90}
    stream = reader(cluster, startingOffsets='{"t":{"0":100}}')
    start = wire(stream.initialOffset())
    cluster.logs["t"] = [(0, 120)]
    assert spans(ranges(stream, start, wire(stream.latestOffset(start, ReadAllAvailable())))) == [(0, 100, 120)]
