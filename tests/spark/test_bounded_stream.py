"""A streaming query with an end of its own, and one whose topic is another one of the same name."""

import json

import pytest
from pyspark.errors import StreamingQueryException

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def numbers(pykafka, first, end):
    return pykafka.spark.range(first, end).coalesce(1).selectExpr("CAST(id AS STRING) AS value")


def start(stream, folder, read, **trigger):
    """A query that adds what it reads to the list `read`."""

    def take(frame, batch_id):
        read.extend(int(bytes(row.value)) for row in frame.select("value").collect())

    writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(**trigger).start()


@pytest.mark.needs_spark("trigger_is_told")
def test_a_query_with_an_end_stops_there_under_available_now_and_is_refused_otherwise(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    pykafka.write(numbers(pykafka, 0, 20), topic)
    end = json.dumps({topic: {"0": 13}})
    stream = pykafka.reading(topic, stream=True, startingOffsets="earliest", endingOffsets=end).load()
    read = []
    for _ in range(2):  # the second time there is nothing left
        start(stream, tmp_path, read, availableNow=True).awaitTermination()
        assert read == list(range(13))
    with pytest.raises(
        StreamingQueryException, match=r"ending offset not valid in streaming queries.*availableNow=True"
    ):
        start(stream, tmp_path, read, processingTime="0 seconds").awaitTermination()


def test_a_query_that_is_asked_to_stop_before_its_first_batch_goes_on_from_its_start(pykafka, kafka_topic, tmp_path):
    topic, stop_file, read = kafka_topic(partitions=1), tmp_path / "stop", []
    pykafka.write(numbers(pykafka, 0, 5), topic)
    stop_file.touch()
    stream = pykafka.reading(topic, stream=True, startingOffsets="latest", stopFile=str(stop_file)).load()
    query = start(stream, tmp_path, read, processingTime="0 seconds")
    query.processAllAvailable()
    query.stop()
    assert (read, stop_file.exists()) == ([], False)
    for commit in (tmp_path / "checkpoint" / "commits").iterdir():
        commit.unlink()  # as if it had been stopped while Spark ran the empty first batch
    pykafka.write(numbers(pykafka, 5, 8), topic)
    for _ in range(2):  # Spark 4.0 and 4.1 end after the batch that was not finished
        start(stream, tmp_path, read, availableNow=True).awaitTermination()
    assert read == [5, 6, 7]


def test_a_recreated_topic_stops_a_query_until_it_is_told_to_go_on(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    pykafka.write(numbers(pykafka, 0, 5), topic)
    read = []
    strict = pykafka.reading(topic, stream=True, startingOffsets="earliest").load()
    start(strict, tmp_path, read, availableNow=True).awaitTermination()
    with Cluster(ClientConfig.of(pykafka.bootstrap_servers)) as cluster:
        cluster.topics.delete([topic])
        cluster.topics.create([topic])
    pykafka.write(numbers(pykafka, 100, 120), topic)
    for _ in range(2):  # a restart does not get round it
        with pytest.raises(StreamingQueryException, match=rf"TOPIC_RECREATED.*{topic}"):
            start(strict, tmp_path, read, availableNow=True).awaitTermination()
    tolerant = pykafka.reading(topic, stream=True, startingOffsets="earliest", failOnDataLoss="false").load()
    start(tolerant, tmp_path, read, availableNow=True).awaitTermination()
    assert read == [*range(5), *range(100, 120)]
