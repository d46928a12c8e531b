"""Limits of a streaming query that runs until it is stopped, on each release of Spark: `trigger` names its trigger."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException

import kafkasource
from kafkasource.types import TopicPartition

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.each_kind]


def write(pykafka, topic, first, end):
    pykafka.write(pykafka.spark.range(first, end).coalesce(1).selectExpr("CAST(id AS STRING) AS value"), topic)


def start(stream, folder, take, **trigger):
    writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(folder))
    return writer.trigger(**trigger).start()


def values(frame):
    return sorted(int(bytes(row.value)) for row in frame.select("value").collect())


def test_a_limit_holds_over_a_failed_batch_and_a_restart_and_the_lag_is_what_is_left(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    write(pykafka, topic, 0, 25)
    limited = {"maxOffsetsPerTrigger": "10", "trigger": "processingTime", "startingOffsets": "earliest"}
    stream = pykafka.reading(topic, stream=True, **limited).load()
    batches = []

    def fail_in_the_second(frame, batch_id):
        if batch_id == 1:
            raise InterruptedError("crash as asked for")
        batches.append(values(frame))

    query = start(stream, tmp_path, fail_in_the_second, processingTime="0 seconds")
    with pytest.raises(StreamingQueryException, match="crash as asked for"):
        query.awaitTermination()
    query = start(stream, tmp_path, lambda frame, _: batches.append(values(frame)), processingTime="0 seconds")
    try:
        query.processAllAvailable()
        write(pykafka, topic, 25, 30)
        query.processAllAvailable()
        assert [batch for batch in batches if batch] == [
            list(range(10)),
            list(range(10, 20)),
            list(range(20, 25)),
            list(range(25, 30)),
        ]
        lags = {progress["batchId"]: kafkasource.lag(progress) for progress in query.recentProgress}
        assert lags[2] == {TopicPartition(topic, 0): 0}
        assert kafkasource.lag(query) == {TopicPartition(topic, 0): 0}
    finally:
        query.stop()


def test_a_run_of_available_now_that_names_its_trigger_leaves_nothing_unread(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    write(pykafka, topic, 0, 25)
    options = {"maxOffsetsPerTrigger": "10", "trigger": "availableNow", "startingOffsets": "earliest"}
    stream = pykafka.reading(topic, stream=True, **options).load()
    read = []
    start(stream, tmp_path, lambda frame, _: read.extend(values(frame)), availableNow=True).awaitTermination()
    write(pykafka, topic, 25, 40)
    start(stream, tmp_path, lambda frame, _: read.extend(values(frame)), availableNow=True).awaitTermination()
    assert sorted(read) == list(range(40))
    ends = {"endingOffsets": f'{{"{topic}":{{"0":7}}}}', "trigger": "availableNow", "startingOffsets": "earliest"}
    bounded, read = pykafka.reading(topic, stream=True, **ends).load(), []
    start(
        bounded, tmp_path / "bounded", lambda frame, _: read.extend(values(frame)), availableNow=True
    ).awaitTermination()
    assert sorted(read) == list(range(7))


def test_a_trigger_that_is_not_the_one_named_ends_the_query_with_an_error(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    write(pykafka, topic, 0, 5)
    stream = pykafka.reading(topic, stream=True, startingOffsets="earliest", trigger="availableNow").load()
    query = start(stream, tmp_path, lambda frame, _: None, processingTime="0 seconds")
    with pytest.raises(StreamingQueryException, match=r"option 'trigger'=availableNow: the query has another trigger"):
        query.awaitTermination()


@pytest.mark.needs_spark("refused_limit")
def test_a_limit_without_the_trigger_named_is_refused_before_anything_is_read(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    stream = pykafka.reading(topic, stream=True, startingOffsets="earliest", maxOffsetsPerTrigger="10").load()
    with pytest.raises(StreamingQueryException, match=r"option 'maxOffsetsPerTrigger': Spark 4.*option 'trigger'"):
        start(stream, tmp_path, lambda frame, _: None, availableNow=True).awaitTermination()
