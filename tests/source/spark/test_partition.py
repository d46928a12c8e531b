"""How many tasks share the ranges of a micro-batch, by the options that speak of it."""

import pytest

from kafkasource import options
from kafkasource.source.spark.input_partition import input_partitions
from kafkasource.types import OffsetRange, TopicPartition

RANGES = [OffsetRange(TopicPartition("t", n), 0, size) for n, size in enumerate((40_000, 40_000, 100, 100))]


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ({}, [40_000, 40_000, 200]),  # 80,200 offsets and 4 x 500: three tasks of 25,000
        ({"minRecordsPerPartition": "1"}, [40_000, 40_000, 100, 100]),
        ({"minPartitions": "2"}, [40_000, 40_000, 100, 100]),
        ({"minPartitions": "6"}, [20_000, 20_000, 20_000, 20_000, 100, 100]),
        ({"minPartitions": "6", "maxPartitions": "6"}, [20_000, 20_000, 20_000, 20_000, 100, 100]),
        ({"maxRecordsPerPartition": "20000"}, [20_000, 20_000, 20_000, 20_000, 100, 100]),
        ({"maxRecordsPerPartition": "40000", "minRecordsPerPartition": "25000"}, [40_000, 40_000, 200]),
        ({"maxRecordsPerPartition": "20000", "maxPartitions": "2"}, [40_100, 40_100]),
    ],
)
def test_small_ranges_share_tasks_unless_the_number_or_size_of_tasks_is_asked_for(given, sizes):
    parsed = options.parse({"kafka.bootstrap.servers": "b:1", **given}, "source")
    tasks = [partition.value for partition in input_partitions(RANGES, parsed, least_size=25_000)]
    assert [sum(one.size for one in task) for task in tasks] == sizes
