"""A query's first micro-batch, planned and not finished: the replay begins where the plan did.

The calls are those of Spark 4.2.0, as traced: a new query is asked `initialOffset` before `latestOffset` and once more
before `partitions`; a restarted one `initialOffset`, then at once `partitions` up to the end that was logged.
"""

import json

import pytest
from fake_cluster import FakeCluster

from kafkasource import options
from kafkasource.errors import DataLoss, GroupAuthorizationFailed, OptionError
from kafkasource.kafka.cluster.offsets import EARLIEST
from kafkasource.source.plan.offsets import StreamOffset, from_json
from kafkasource.source.spark.stream import StreamReader
from kafkasource.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
COMMITTED = {"startingOffsets": "committed", "kafka.group.id": "g", "commitOffsets": "false"}
FROM_TIME = {"startingOffsets": None, "startingTimestamp": "1000"}


def new_reader(cluster, **given):
    """The reader of a process that has just been started."""
    given = {
        "kafka.bootstrap.servers": "nowhere:1",
        "subscribe": "t",
        "startingOffsets": "earliest",
        "fetchOffset.retryIntervalMs": "0",
    } | given
    chosen = {key: value for key, value in given.items() if value is not None}
    return StreamReader(options.parse(chosen, "source"), lambda config: cluster)


def wire(offset):
    """Spark keeps offsets as JSON text."""
    return json.loads(json.dumps(offset))


def topics(offset):
    return {topic: partitions for topic, partitions in offset.items() if not topic.startswith("@")}


def spans(stream, start, end):
    planned = [r for one in stream.partitions(wire(start), wire(end)) for r in one.value]
    return [(r.topic_partition.partition, r.start_offset, r.end_offset) for r in planned]


def first_plan(cluster, **given):
    """What Spark logs as the end of a new query's first micro-batch, and the ranges of its tasks."""
    stream = new_reader(cluster, **given)
    end = wire(stream.latestOffset(wire(stream.initialOffset()), stream.getDefaultReadLimit()))
    return end, spans(stream, stream.initialOffset(), end)


def replay(cluster, end, **given):
    """The ranges of the first micro-batch as a restarted query does it again."""
    stream = new_reader(cluster, **given)
    return spans(stream, stream.initialOffset(), end)


def test_the_first_start_is_the_one_first_answered_though_records_come_between_spark_s_two_questions():
    cluster = FakeCluster(t=[(0, 5)])
    stream = new_reader(cluster, startingOffsets="latest")
    start = wire(stream.initialOffset())
    cluster.logs["t"] = [(0, 7)]
    end = wire(stream.latestOffset(start, stream.getDefaultReadLimit()))
    cluster.logs["t"] = [(0, 9)]
    assert spans(stream, stream.initialOffset(), end) == [(0, 5, 7)]


@pytest.mark.parametrize("again", ["earliest", "latest", '{"t":{"0":60}}'])
def test_a_first_batch_is_done_again_from_its_own_start_whatever_the_options_and_the_log_say_by_now(again):
    cluster = FakeCluster(t=[(0, 150)])
    end, planned = first_plan(cluster)
    cluster.logs["t"] = [(70, 500)]
    assert replay(cluster, end, startingOffsets=again) == planned == [(0, 0, 150)]  # its task finds [0, 70) gone


def test_a_first_batch_under_a_limit_is_done_again_as_it_was_planned():
    cluster = FakeCluster(t=[(2, 52), (0, 50)])
    end, planned = first_plan(cluster, maxOffsetsPerTrigger="10")
    assert topics(end) == {"t": {"0": 7, "1": 5}}
    cluster.logs["t"] = [(2, 99), (0, 99)]
    assert replay(cluster, end, maxOffsetsPerTrigger="90") == planned == [(0, 2, 7), (1, 0, 5)]


@pytest.mark.parametrize("given", [{"startingOffsets": '{"t":{"0":3}}'}, {"assign": '{"t":[0,1]}', "subscribe": None}])
def test_a_partition_added_before_the_restart_belongs_to_the_next_batch(given):
    cluster = FakeCluster(t=[(0, 5)])
    given = {"startingOffsets": '{"t":{"0":3}}'} | given
    end, planned = first_plan(cluster, **given)
    cluster.logs["t"] = [(0, 8), (0, 4)]
    stream = new_reader(cluster, **given)
    assert spans(stream, stream.initialOffset(), end) == planned == [(0, 3, 5)]
    later = wire(stream.latestOffset(end, stream.getDefaultReadLimit()))
    assert spans(stream, end, later) == [(0, 5, 8), (1, 0, 4)]


def test_a_start_as_committed_is_the_one_of_the_plan_though_the_group_moves_or_is_forgotten():
    cluster = FakeCluster(t=[(0, 9)])
    cluster.committed = {("g", T0): 4}
    end, planned = first_plan(cluster, **COMMITTED)
    cluster.committed = {("g", T0): 8}
    assert replay(cluster, end, **COMMITTED) == planned == [(0, 4, 9)]
    cluster.committed = {}
    assert replay(cluster, end, **COMMITTED) == planned


def test_a_start_by_time_is_the_one_of_the_plan_though_no_record_is_that_new_any_more():
    cluster = FakeCluster(t=[(0, 9)])
    cluster.timestamps = {T0: [0, 0, 1000, 2000]}
    end, planned = first_plan(cluster, **FROM_TIME)
    cluster.timestamps = {}
    assert replay(cluster, end, **FROM_TIME) == planned == [(0, 2, 9)]


def test_a_right_on_the_group_that_was_withdrawn_does_not_keep_a_planned_batch_from_being_done(monkeypatch):
    cluster = FakeCluster(t=[(0, 9)])
    cluster.committed = {("g", T0): 4}
    end, planned = first_plan(cluster, **COMMITTED)

    def refuse(group, partitions):
        raise GroupAuthorizationFailed(30, group)

    cluster.groups.committed_offsets = refuse
    assert replay(cluster, end, **COMMITTED) == planned


def test_a_first_batch_without_records_keeps_its_start_too():
    cluster = FakeCluster(t=[(0, 5)])
    end, planned = first_plan(cluster, startingOffsets="latest")
    assert (topics(end), planned) == ({"t": {"0": 5}}, [])
    cluster.logs["t"] = [(0, 8)]
    stream = new_reader(cluster, startingOffsets="latest")
    assert spans(stream, stream.initialOffset(), end) == []
    later = wire(stream.latestOffset(end, stream.getDefaultReadLimit()))
    assert spans(stream, end, later) == [(0, 5, 8)]


def test_the_first_batch_of_a_query_that_is_asked_to_stop_before_it_is_empty_and_keeps_its_start_too(tmp_path):
    cluster, file = FakeCluster(t=[(0, 5)]), tmp_path / "stop"
    for given, read in (({"startingOffsets": "latest"}, [(0, 5, 8)]), ({}, [(0, 0, 8)])):
        cluster.logs["t"] = [(0, 5)]
        file.touch()
        given = {"stopFile": str(file), **given}
        end, planned = first_plan(cluster, **given)
        assert planned == []
        assert not file.exists()
        cluster.logs["t"] = [(0, 8)]
        stream = new_reader(cluster, **given)
        assert spans(stream, stream.initialOffset(), end) == []
        later = wire(stream.latestOffset(end, stream.getDefaultReadLimit()))
        assert spans(stream, end, later) == read
        assert from_json(later).start is None


def test_a_query_that_is_asked_to_stop_before_its_first_batch_is_held_at_its_end(tmp_path):
    file = tmp_path / "stop"
    file.touch()
    stream = new_reader(FakeCluster(t=[(0, 5)]), stopFile=str(file))
    end = wire(stream.latestOffset(wire(stream.initialOffset()), stream.getDefaultReadLimit()))
    assert stream.latestOffset(end, stream.getDefaultReadLimit()) is end


def test_a_query_of_a_pattern_without_topics_that_is_asked_to_stop_has_no_start_to_keep(tmp_path):
    file = tmp_path / "stop"
    file.touch()
    given = {"subscribe": None, "subscribePattern": "t", "stopFile": str(file)}
    assert first_plan(FakeCluster(), **given) == ({}, [])


def test_a_first_batch_of_a_pattern_without_topics_is_done_again_without_any():
    cluster = FakeCluster()
    given = {"subscribe": None, "subscribePattern": "t"}
    end, planned = first_plan(cluster, **given)
    assert (end, planned) == ({}, [])
    cluster.logs["t"] = [(0, 3)]
    stream = new_reader(cluster, **given, **COMMITTED)  # which does not resolve
    assert spans(stream, stream.initialOffset(), end) == []
    later = wire(stream.latestOffset(end, stream.getDefaultReadLimit()))
    assert spans(stream, end, later) == [(0, 0, 3)]


def test_topics_that_come_between_the_start_and_the_end_of_the_first_batch_are_read_from_their_beginning():
    cluster = FakeCluster()
    given = {"subscribe": None, "subscribePattern": "t", "startingOffsets": "latest"}
    stream = new_reader(cluster, **given)
    start = wire(stream.initialOffset())
    cluster.logs["t"] = [(0, 3)]
    end = wire(stream.latestOffset(start, stream.getDefaultReadLimit()))
    assert spans(stream, stream.initialOffset(), end) == [(0, 0, 3)] == replay(cluster, end, **given)


def test_only_the_end_of_the_first_batch_keeps_a_start():
    cluster = FakeCluster(t=[(0, 5)])
    stream = new_reader(cluster)
    ends = [wire(stream.initialOffset())]
    for until in (5, 8, 8, 9):
        cluster.logs["t"] = [(0, until)]
        ends.append(wire(stream.latestOffset(ends[-1], stream.getDefaultReadLimit())))
        stream.initialOffset()
    first, *later = [from_json(end).start for end in ends[1:]]
    assert first == StreamOffset({T0: 0})
    assert later == [None, None, None]
    assert [len(end) for end in ends] == [1, 2, 1, 1, 1]


def test_a_query_that_stands_where_its_first_batch_ended_is_told_nothing_new():
    cluster = FakeCluster(t=[(0, 5)])
    end, _ = first_plan(cluster, startingOffsets="latest")
    for given in ({"startingOffsets": "latest"}, COMMITTED):
        assert new_reader(cluster, **given).latestOffset(end) is end


# A start that does not resolve. Whether it is needed is known only when Spark asks on.


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"startingOffsets": '{"t":{"0":3}}'}, "must specify all TopicPartitions"),
        (COMMITTED, "no committed offset"),
        (FROM_TIME, "No offset matched from request of topic-partition t-0"),
    ],
)
def test_a_new_query_whose_start_does_not_resolve_fails_before_a_batch_is_planned(given, text):
    stream = new_reader(FakeCluster(t=[(0, 5), (0, 5)]), **given)
    stream.prepareForTriggerAvailableNow()
    start = wire(stream.initialOffset())
    assert stream.reportLatestOffset() is None
    with pytest.raises(OptionError, match=text):
        stream.latestOffset(start, stream.getDefaultReadLimit())


# Ends that keep no start: of the JVM connector, which has it in a file of its own.

OF_OTHERS = {"t": {"0": 150}}


def test_a_start_given_as_offsets_is_known_also_where_partitions_were_added():
    cluster = FakeCluster(t=[(0, 200), (0, 9)])
    assert replay(cluster, OF_OTHERS, startingOffsets='{"t":{"0":30}}') == [(0, 30, 150)]
    assert replay(cluster, OF_OTHERS, startingOffsets='{"t":{"0":30,"1":0}}') == [(0, 30, 150)]


def test_a_start_at_the_beginning_of_a_log_that_holds_all_it_ever_held_is_known():
    cluster = FakeCluster(t=[(0, 200), (0, 9)])
    assert replay(cluster, OF_OTHERS) == [(0, 0, 150)]
    assert replay(cluster, OF_OTHERS, startingOffsets='{"t":{"0":-2,"1":-2}}') == [(0, 0, 150)]


@pytest.mark.parametrize(
    ("given", "from_now"),
    [
        ({"startingOffsets": "earliest"}, [(0, 70, 150)]),
        ({"startingOffsets": '{"t":{"0":-1}}'}, []),
        ({"startingOffsets": "latest"}, []),
        (COMMITTED, [(0, 100, 150)]),
        (FROM_TIME, [(0, 90, 150)]),
    ],
)
def test_a_start_that_nobody_knows_any_more_is_data_loss_and_else_the_one_of_now(caplog, given, from_now):
    cluster = FakeCluster(t=[(70, 200)])
    cluster.committed = {("g", T0): 100}
    cluster.timestamps = {T0: [0] * 90 + [1000] * 110}
    with pytest.raises(DataLoss, match=r"FIRST_START_UNKNOWN.*t-0.*sources/0/0.*startingOffsets"):
        replay(cluster, OF_OTHERS, **given)
    assert replay(cluster, OF_OTHERS, failOnDataLoss="false", **given) == from_now
    assert "sources/0/0" in caplog.text


def test_a_start_that_is_not_known_and_does_not_resolve_is_an_error_also_where_loss_is_not():
    with pytest.raises(OptionError, match="no committed offset"):
        replay(FakeCluster(t=[(0, 200)]), OF_OTHERS, failOnDataLoss="false", **COMMITTED)


def test_what_ends_at_0_began_there():
    assert replay(FakeCluster(t=[(0, 4)]), {"t": {"0": 0}}, startingOffsets="latest") == []


def test_the_batch_after_one_that_another_planned_begins_at_its_end_also_where_that_is_the_start_of_now():
    cluster = FakeCluster(t=[(0, 5)])
    stream, end = new_reader(cluster, startingOffsets='{"t":{"0":5}}'), {"t": {"0": 5}}
    assert spans(stream, stream.initialOffset(), end) == []
    assert stream.latestOffset(end) is end
    cluster.logs["t"] = [(0, 9)]
    later = wire(stream.latestOffset(end))
    assert (later, spans(stream, end, later)) == ({"t": {"0": 9}}, [(0, 5, 9)])


def test_the_first_start_costs_no_question_where_the_end_keeps_it():
    cluster = FakeCluster(t=[(0, 5)])
    end, _ = first_plan(cluster, startingOffsets='{"t":{"0":3}}')
    cluster.listed.clear()
    replay(cluster, end, startingOffsets='{"t":{"0":3}}')
    assert EARLIEST not in {symbol for asked in cluster.listed for symbol in asked.values()}
