"""The driver's side of a streaming query on Spark 4.0 and 4.1, driven by the calls that those releases make."""

import logging

import pytest
from fake_cluster import FakeCluster

from kafkasource import options
from kafkasource.errors import OptionError
from kafkasource.source.spark.stream import StreamReader
from kafkasource.source.spark.unaided_stream import UnaidedStreamReader
from kafkasource.types import OffsetRange, TopicPartition


def reader(cluster, kind=UnaidedStreamReader, **given):
    needed = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "fetchOffset.retryIntervalMs": "0"}
    return kind(options.parse(needed | {"startingOffsets": "earliest"} | given, "source"), lambda config: cluster)


def topics(offset):
    return {topic: partitions for topic, partitions in offset.items() if not topic.startswith("@")}


def ranges(stream, start, end):
    return [r for partition in stream.partitions(start, end) for r in partition.value]


def r(start, end):
    return OffsetRange(TopicPartition("t", 0), start, end)


LIMITED = {"maxOffsetsPerTrigger": "10", "trigger": "processingTime"}


def test_a_new_query_starts_where_it_says_afterwards_though_the_log_grows_in_between():
    cluster = FakeCluster(t=[(0, 5)])
    stream = reader(cluster, startingOffsets="latest")
    end = stream.latestOffset()
    cluster.logs["t"] = [(0, 50)]
    assert (topics(stream.initialOffset()), topics(end)) == ({"t": {"0": 5}}, {"t": {"0": 5}})
    later = stream.latestOffset()
    assert ranges(stream, end, later) == [r(5, 50)]


def test_each_batch_begins_where_the_last_one_ended_and_keeps_the_limit():
    stream = reader(FakeCluster(t=[(0, 25)]), **LIMITED)
    first = stream.latestOffset()
    start = stream.initialOffset()
    found = [ranges(stream, start, first)]
    for last in (first, second := stream.latestOffset()):
        if last is second:
            found.append(ranges(stream, first, second))
    third = stream.latestOffset()
    found.append(ranges(stream, second, third))
    assert found == [[r(0, 10)], [r(10, 20)], [r(20, 25)]]
    assert stream.latestOffset() == third  # nothing new


def test_a_restart_after_a_finished_batch_goes_on_from_its_end():
    stream = reader(FakeCluster(t=[(0, 25)]), **LIMITED)
    done = {"t": {"0": 10}}
    assert stream.partitions(done, done) == []
    assert topics(stream.latestOffset()) == {"t": {"0": 20}}


def test_a_restart_does_the_planned_batch_again_and_goes_on_from_its_end():
    stream = reader(FakeCluster(t=[(0, 25)]), **LIMITED)
    done, planned = {"t": {"0": 4}}, {"t": {"0": 7}}
    assert stream.partitions(planned, planned) == []
    assert ranges(stream, done, planned) == [r(4, 7)]
    assert topics(stream.latestOffset()) == {"t": {"0": 17}}


def test_a_first_batch_that_was_not_finished_begins_where_it_was_planned_though_the_log_has_moved():
    cluster = FakeCluster(t=[(3, 25)])
    planned = reader(cluster, **LIMITED).latestOffset()
    cluster.logs["t"] = [(3, 99)]
    stream = reader(cluster, **(LIMITED | {"startingOffsets": "latest"}))
    assert stream.partitions(planned, planned) == []
    assert ranges(stream, stream.initialOffset(), planned) == [r(3, 13)]
    assert topics(stream.latestOffset()) == {"t": {"0": 23}}


def test_a_new_query_that_is_asked_to_stop_has_an_empty_first_batch_that_a_restart_can_do_again(tmp_path):
    cluster, file = FakeCluster(t=[(0, 5)]), tmp_path / "stop"
    file.touch()
    given = {"startingOffsets": "latest", "stopFile": str(file)}
    stream = reader(cluster, **given)
    end = stream.latestOffset()
    assert ranges(stream, stream.initialOffset(), end) == []
    assert stream.latestOffset() == end  # held
    cluster.logs["t"] = [(0, 8)]
    stream = reader(cluster, **given)
    assert stream.partitions(end, end) == []
    assert ranges(stream, stream.initialOffset(), end) == []
    assert ranges(stream, end, stream.latestOffset()) == [r(5, 8)]


@pytest.mark.parametrize("limit", ["maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger"])
def test_a_limit_is_refused_unless_the_trigger_is_named(limit):
    with pytest.raises(OptionError, match=rf"option '{limit}': Spark 4.*'trigger'.*'processingTime', 'availableNow'"):
        reader(FakeCluster(t=[(0, 25)]), **{limit: "10"})


@pytest.mark.parametrize("trigger", ["availableNow", "once"])
def test_a_run_of_one_batch_takes_everything_and_says_that_its_limit_has_no_effect(trigger, caplog):
    stream = reader(FakeCluster(t=[(0, 25)]), maxOffsetsPerTrigger="10", trigger=trigger)
    with caplog.at_level(logging.WARNING, "kafkasource.source"):
        assert topics(stream.latestOffset()) == {"t": {"0": 25}}
    assert [
        record.getMessage()
        for record in caplog.records
        if "'maxOffsetsPerTrigger' has no effect" in record.msg % record.args
    ]


@pytest.mark.parametrize("trigger", ["availableNow", "once"])
def test_a_query_that_goes_on_after_one_batch_has_not_the_trigger_that_it_names(trigger):
    stream = reader(FakeCluster(t=[(0, 25)]), trigger=trigger)
    stream.latestOffset()
    with pytest.raises(OptionError, match=rf"'trigger'={trigger}: the query has another trigger"):
        stream.latestOffset()


def test_a_query_with_an_end_of_its_own_needs_the_trigger_named_and_stops_at_its_end():
    end = {"endingOffsets": '{"t":{"0":13}}'}
    with pytest.raises(OptionError, match=r"option 'endingOffsets'.*'trigger' to 'availableNow'"):
        reader(FakeCluster(t=[(0, 25)]), **end)
    stream = reader(FakeCluster(t=[(0, 25)]), **end, trigger="availableNow")
    assert topics(stream.latestOffset()) == {"t": {"0": 13}}


@pytest.mark.parametrize(("trigger", "told"), [("processingTime", True), ("once", True), ("availableNow", False)])
def test_from_4_2_on_a_trigger_that_is_not_the_one_named_is_an_error(trigger, told):
    stream = reader(FakeCluster(t=[(0, 25)]), StreamReader, trigger=trigger)
    if told:
        stream.prepareForTriggerAvailableNow()
    with pytest.raises(OptionError, match=f"option 'trigger'={trigger}: the query has "):
        stream.initialOffset()
