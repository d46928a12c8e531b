"""What happens to a topic between the plan and its reading, or during it, on a real Kafka: exactly which rows come."""

import pytest
from confluent_topic import Topic, rows_of

from kafkasource.errors import DataLoss

pytestmark = pytest.mark.broker

COUNT = 200
IN_SMALL_FETCHES = {"kafka.max.partition.fetch.bytes": "1"}  # a record batch each


@pytest.fixture
def topic(kafka_broker):
    topic = Topic(kafka_broker.bootstrap_servers)
    topic.write([{"value": b"%d" % n} for n in range(COUNT)], batch_num_messages=10)
    return topic


def offsets(rows):
    return [row["offset"] for row in rows]


def planned(topic, **given):
    """A reader and its tasks, for offsets [0, COUNT) as numbers: nothing of them is bound later."""
    ends = {"startingOffsets": topic.from_offset(0), "endingOffsets": topic.from_offset(COUNT)}
    reader = topic.reader(**(ends | given))
    return reader, reader.partitions()


# Late binding.


def test_latest_is_the_end_of_when_the_task_begins(topic):
    reader = topic.reader()
    tasks = reader.partitions()
    topic.write([{"value": b"later"}] * 5)
    assert offsets(rows_of(reader, tasks)) == list(range(COUNT + 5))


def test_earliest_is_the_start_of_when_the_task_reads(topic, caplog):
    reader = topic.reader()
    tasks = reader.partitions()
    topic.delete_records_before(8)
    assert offsets(rows_of(reader, tasks)) == list(range(8, COUNT))
    assert "lost" not in caplog.text


def test_offsets_as_numbers_are_bound_by_the_plan(topic):
    reader, tasks = planned(topic)
    topic.write([{"value": b"later"}] * 5)
    assert offsets(rows_of(reader, tasks)) == list(range(COUNT))


# What ages out.


def test_records_deleted_after_the_plan_are_a_loss(topic):
    reader, tasks = planned(topic)
    topic.delete_records_before(8)
    with pytest.raises(DataLoss, match=rf"offset \[0, 8\) for topic partition {topic.name}-0.*\[8, {COUNT}\)"):
        rows_of(reader, tasks)


def test_a_log_start_that_moves_during_the_read_is_a_loss_of_exactly_what_is_below_it(topic):
    reader, (task,) = planned(topic, **IN_SMALL_FETCHES)
    batches = reader.read(task)
    read = offsets(next(batches).to_pylist())
    topic.delete_records_before(105)
    with pytest.raises(DataLoss) as loss:
        read += (offset for batch in batches for offset in offsets(batch.to_pylist()))
    assert f"Could not read records in offset [{len(read)}, 105)" in str(loss.value)
    assert read == list(range(len(read)))
    assert len(read) <= 30  # what was here already: a record batch held and one in flight


# Another topic of the name.


def test_a_topic_recreated_after_the_plan_is_a_loss_though_it_is_longer(topic):
    reader, tasks = planned(topic)
    topic.delete()
    topic.create()
    topic.write([{"value": b"another"}] * (COUNT + 50))
    with pytest.raises(DataLoss, match=rf"offset \[0, {COUNT}\) for topic partition {topic.name}-0.*recreated"):
        rows_of(reader, tasks)


def test_a_topic_deleted_during_the_read_ends_it_behind_what_was_read(topic, caplog):
    reader, (task,) = planned(topic, failOnDataLoss="false", **IN_SMALL_FETCHES)
    batches = reader.read(task)
    read = next(batches).column("offset").to_pylist()
    topic.delete()
    for batch in batches:
        read += batch.column("offset").to_pylist()
    assert read == list(range(len(read)))
    assert len(read) < COUNT
    assert f"Could not read records in offset [{len(read)}, {COUNT})" in caplog.text
