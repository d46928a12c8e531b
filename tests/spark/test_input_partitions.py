"""Ranges that share tasks, through Spark: the same rows in any number of tasks, each partition in order."""

from __future__ import annotations

from itertools import pairwise

import pytest
from pyspark.sql import functions as F

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def filled(pykafka, topic):
    """100 rows in five of six partitions, most of them in the first."""
    partition = "CAST(CASE WHEN id < 60 THEN 0 ELSE id % 5 END AS INT) AS partition"
    pykafka.write(pykafka.spark.range(100).coalesce(1).selectExpr("CAST(id AS STRING) AS value", partition), topic)
    return topic


def tasks_and_rows(frame):
    """Rows per task, each (partition, offset, value), as the task gave them."""
    tasks = {}
    for row in frame.select(F.spark_partition_id().alias("task"), "partition", "offset", "value").collect():
        tasks.setdefault(row.task, []).append((row.partition, row.offset, bytes(row.value)))
    return list(tasks.values())


def in_order(task):
    return all(a[1] < b[1] for a, b in pairwise(task) if a[0] == b[0])


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        ({}, 5),
        ({"maxPartitions": "2"}, 2),
        ({"maxPartitions": "9"}, 5),
        ({"minRecordsPerPartition": "1000000"}, 1),
        ({"minRecordsPerPartition": "1"}, 5),
        ({"minPartitions": "10"}, 10),  # 68 of 100 offsets in six pieces, four of 8 whole
        ({"maxRecordsPerPartition": "25"}, 7),
    ],
)
def test_a_batch_read_gives_the_same_rows_in_any_number_of_tasks(pykafka, kafka_topic, options, tasks):
    topic = filled(pykafka, kafka_topic(partitions=6))
    read = tasks_and_rows(pykafka.read(topic, **options))
    assert len(read) == tasks
    assert all(map(in_order, read))
    assert sorted(int(value) for task in read for _, _, value in task) == list(range(100))


@pytest.mark.parametrize(("options", "tasks"), [({}, 1), ({"minRecordsPerPartition": "1"}, 5)])
def test_a_small_micro_batch_is_one_task_unless_told_otherwise(pykafka, kafka_topic, tmp_path, options, tasks):
    topic = filled(pykafka, kafka_topic(partitions=6))
    stream = pykafka.reading(topic, stream=True, startingOffsets="earliest", **options).load()
    seen = []
    query = (
        stream.writeStream.foreachBatch(lambda frame, _: seen.append(tasks_and_rows(frame)))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [len(batch) for batch in seen] == [tasks]
    assert sorted(int(value) for task in seen[0] for _, _, value in task) == list(range(100))


def test_tasks_run_where_pysparks_daemon_collects_garbage_after_each(pykafka):
    """`kafkasource.spark.garbage` acts in such processes only, and knows them by this name."""

    def program(batches):
        import sys

        import pyarrow as pa

        list(batches)
        yield pa.RecordBatch.from_pydict({"program": [sys.modules["__main__"].__spec__.name]})

    rows = pykafka.spark.range(1).coalesce(1).mapInArrow(program, "program string").collect()
    assert [row.program for row in rows] == ["pyspark.daemon"]
