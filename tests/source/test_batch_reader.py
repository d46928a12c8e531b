"""A batch read's plan, from options to input partitions."""

import pickle

import pytest
from fake_cluster import FakeCluster
from pyspark.sql.datasource import InputPartition

from kafkasource import options
from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.source import batch
from kafkasource.source.batch import BatchReader
from kafkasource.types import OffsetRange, TopicPartition


@pytest.fixture
def cluster(monkeypatch):
    fake = FakeCluster(t=[(0, 5), (2, 9), (4, 4)])
    monkeypatch.setattr(batch, "shared_cluster", lambda config: fake)
    return fake


def reader(**given):
    return BatchReader(options.parse({"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t"} | given, "source"))


def ranges(reader):
    return [r for partition in pickle.loads(pickle.dumps(reader.partitions())) for r in partition.value]


def r(partition, start, end):
    return OffsetRange(TopicPartition("t", partition), start, end)


def test_everything_is_read_by_default_by_one_task_per_partition_that_holds_anything(cluster):
    assert ranges(reader()) == [r(0, 0, 5), r(1, 2, 9)]


def test_fewer_tasks_can_be_asked_for(cluster):
    (partition,) = reader(maxPartitions="1").partitions()
    assert partition.value == (r(0, 0, 5), r(1, 2, 9))
    (partition,) = reader(minRecordsPerPartition="100000").partitions()
    assert partition.value == (r(0, 0, 5), r(1, 2, 9))


def test_planning_again_sees_new_records(cluster):
    read = reader()
    ranges(read)
    cluster.logs["t"] = [(0, 6)]
    assert ranges(read) == [r(0, 0, 6)]


def test_both_ends_may_mix_offsets_and_words(cluster):
    read = reader(
        startingOffsets='{"t":{"0":3,"1":-2,"2":4}}',
        endingOffsets='{"t":{"0":4,"1":-1,"2":-1}}',
    )
    assert ranges(read) == [r(0, 3, 4), r(1, 2, 9)]


def test_a_start_behind_the_end_is_an_error_not_an_empty_read(cluster):
    with pytest.raises(KafkaSourceError, match="resolved start offset 2 is greater than the resolved end offset 1"):
        ranges(reader(endingOffsets='{"t":{"0":5,"1":1,"2":4}}'))


def test_contradicting_options_fail_before_any_broker_is_asked():
    with pytest.raises(OptionError, match="greater than the end offset"):
        reader(startingOffsets='{"t":{"0":3}}', endingOffsets='{"t":{"0":2}}')


def test_fetching_more_than_is_accepted_names_both_options():
    with pytest.raises(OptionError, match=r"max.partition.fetch.bytes' \(5000\).*receive.message.max.bytes' \(4000\)"):
        reader(**{"kafka.max.partition.fetch.bytes": "5000", "kafka.receive.message.max.bytes": "4000"})


def test_a_limit_per_micro_batch_has_no_meaning_here_and_says_so(caplog):
    reader(maxOffsetsPerTrigger="5")
    assert "maxOffsetsPerTrigger" in caplog.text


def test_the_partition_that_spark_makes_up_for_an_empty_plan_holds_nothing():
    assert list(reader().read(InputPartition(None))) == []
