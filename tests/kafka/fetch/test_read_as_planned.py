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


def test_a_topic_that_was_empty_when_planned_is_read(kafka_broker):
    topic = Topic(kafka_broker.bootstrap_servers, partitions=3)
    reader = topic.reader()
    tasks = reader.partitions()
    topic.write([{"value": b"%d" % n, "partition": n % 3} for n in range(30)])
    assert sorted(int(row["value"]) for row in rows_of(reader, tasks)) == list(range(30))


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


def test_tolerated_the_read_begins_where_the_log_does(topic, caplog):
    reader, tasks = planned(topic, failOnDataLoss="false")
    topic.delete_records_before(8)
    assert offsets(rows_of(reader, tasks)) == list(range(8, COUNT))
    assert "8 offsets are skipped" in caplog.text


def test_a_range_that_is_gone_whole_gives_no_rows_where_that_is_tolerated(topic, caplog):
    reader, tasks = planned(topic, failOnDataLoss="false", endingOffsets=topic.from_offset(50))
    topic.delete_records_before(60)
    assert rows_of(reader, tasks) == []
    assert "50 offsets are skipped; reading goes on at 50" in caplog.text


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


def test_tolerated_a_log_start_that_moves_during_the_read_is_jumped_to(topic):
    reader, (task,) = planned(topic, failOnDataLoss="false", **IN_SMALL_FETCHES)
    batches = reader.read(task)
    read = offsets(next(batches).to_pylist())
    topic.delete_records_before(105)
    for batch in batches:
        read += offsets(batch.to_pylist())
    before = read.index(105)
    assert read == [*range(before), *range(105, COUNT)]
    assert before <= 30


# Another topic of the name.


def test_a_topic_recreated_after_the_plan_is_a_loss_though_it_is_longer(topic):
    reader, tasks = planned(topic)
    topic.delete()
    topic.create()
    topic.write([{"value": b"another"}] * (COUNT + 50))
    with pytest.raises(DataLoss, match=rf"offset \[0, {COUNT}\) for topic partition {topic.name}-0.*recreated"):
        rows_of(reader, tasks)


def test_a_second_action_from_earliest_to_latest_reads_a_topic_that_was_made_again(topic, caplog):
    reader = topic.reader(failOnDataLoss="false")
    tasks = reader.partitions()
    assert offsets(rows_of(reader, tasks)) == list(range(COUNT))
    topic.delete()
    topic.create()
    topic.write([{"value": b"another %d" % n} for n in range(7)])
    assert [row["value"] for row in rows_of(reader, tasks)] == [b"another %d" % n for n in range(7)]
    assert "recreated under its name" in caplog.text


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
