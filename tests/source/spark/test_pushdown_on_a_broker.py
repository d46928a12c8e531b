"""Random filters on a real topic, whose timestamps are in part out of order: the same rows, fewer offsets."""

from __future__ import annotations

import pickle
import random

import pyarrow as pa
import pytest
from confluent_topic import Topic, rows_of

from kafkasource import options
from kafkasource.spark import releases

if not releases.HAS_FILTERS:
    pytest.skip("this release of Spark gives no filters", allow_module_level=True)

from test_pushdown import moment, random_filters

from kafkasource.source.spark.pushdown import FilteringBatchReader
from kafkasource.spark.releases import GreaterThanOrEqual

pytestmark = pytest.mark.broker

TIME = 1_700_000_000_000
PARTITIONS, COUNT = 3, 40


@pytest.fixture(scope="module")
def topic(kafka_broker):
    topic, rng = Topic(kafka_broker.bootstrap_servers, PARTITIONS, retention_ms=-1), random.Random(7)
    for first in range(0, COUNT, 8):  # several record batches
        topic.write(
            [
                {"value": b"v", "partition": p, "timestamp": TIME + i + rng.choice([0, 0, -15, 9])}
                for i in range(first, first + 8)
                for p in range(PARTITIONS)
            ]
        )
    return topic


def read(topic, filters, **given):
    """(rows, offsets planned)."""
    given = {"kafka.bootstrap.servers": topic.bootstrap_servers, "subscribe": topic.name} | given
    reader = FilteringBatchReader(options.parse(given, "source"))
    reader.pushFilters(filters)
    tasks = reader.partitions()
    rows = []
    for task in tasks:
        for arrow in reader.read(task):
            columns = [arrow[name].to_pylist() for name in ("topic", "partition", "offset")]
            times = [us // 1000 for us in arrow["timestamp"].cast(pa.int64()).to_pylist()]
            rows += zip(*columns, times, strict=True)
    return rows, sum(one.size for task in tasks for one in task.value)


@pytest.mark.parametrize("ends", [{}, {"endingOffsets": '{"%s":{"0":40,"1":30,"2":40}}'}], ids=["latest", "offsets"])
def test_what_filters_leave_out_would_not_pass(topic, ends):
    ends = {name: value % topic.name for name, value in ends.items()}
    everything, planned = read(topic, [], **ends)
    assert len(everything) == planned == (110 if ends else 120)
    values = {
        "topic": [topic.name, "no"],
        "partition": range(PARTITIONS + 1),
        "offset": range(-1, COUNT + 2),
        "timestamp": range(TIME - 20, TIME + COUNT + 12),
    }
    narrower = 0
    for seed in range(150):
        filters, text = random_filters(random.Random(seed), values)

        def passing(rows, text=text):
            names = ("topic", "partition", "offset", "timestamp")
            return sorted(row for row in rows if eval(text, dict(zip(names, row, strict=True))))

        rows, offsets = read(topic, filters, **ends)
        assert passing(rows) == passing(everything), text
        assert len(rows) == offsets <= planned
        narrower += offsets < planned
    assert narrower > 75


@pytest.mark.parametrize("limit", [1, 8, 9, 1000])
def test_each_task_of_a_query_with_a_limit_reads_the_first_rows_and_no_more(topic, limit):
    given = {"kafka.bootstrap.servers": topic.bootstrap_servers, "subscribe": topic.name}
    reader = FilteringBatchReader(options.parse(given, "source"))
    assert reader.pushLimit(limit)
    tasks = reader.partitions()
    of_tasks = pickle.loads(pickle.dumps(reader))
    for task in tasks:
        offsets = [offset for batch in of_tasks.read(task) for offset in batch["offset"].to_pylist()]
        assert offsets == list(range(min(limit, COUNT)))


def test_a_time_is_looked_for_in_each_partition(topic):
    rows, offsets = read(topic, [GreaterThanOrEqual(("timestamp",), moment(TIME + 30))])
    assert offsets == len(rows) < 120
    by_partition = {p: [row for row in rows if row[1] == p] for p in range(PARTITIONS)}
    for found in by_partition.values():
        assert found[0][3] >= TIME + 30, "the first record read is the first that is not older"


def test_records_behind_an_open_transaction_that_the_read_waits_for_are_read(kafka_broker):
    topic = Topic(kafka_broker.bootstrap_servers, retention_ms=-1)
    records = [{"value": b"v", "partition": 0, "timestamp": TIME + number} for number in range(10)]
    topic.write(records[:4])
    producer = topic.transactional_producer()
    producer.begin_transaction()
    for record in records[4:]:
        producer.produce(topic.name, **record)
    producer.flush(30)
    given = {"kafka.isolation.level": "read_committed", "endingOffsets": topic.from_offset(10)}
    given |= {"kafka.bootstrap.servers": topic.bootstrap_servers, "subscribe": topic.name}
    reader = FilteringBatchReader(options.parse(given, "source"))
    reader.pushFilters([GreaterThanOrEqual(("timestamp",), moment(TIME + 6))])
    tasks = reader.partitions()
    producer.commit_transaction(30)
    assert [row["offset"] for row in rows_of(reader, tasks)] == [*range(4, 10)]  # Spark leaves out the first two
