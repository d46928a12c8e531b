"""Limits of a streaming query through Spark, on a real Kafka: the rows of the JVM connector's own suite for them."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.needs_spark("limited_available_now"),
]


@pytest.fixture
def query(pykafka, kafka_topic, tmp_path):
    return Query(pykafka, kafka_topic(partitions=3), tmp_path)


class Query:
    """A query over one topic whose every start goes on from one checkpoint, and whose batches are kept as lists."""

    def __init__(self, pykafka, topic, folder):
        self.pykafka, self.topic, self.folder = pykafka, topic, folder

    def write(self, *values_of_partitions):
        """`range(100, 201), range(10, 21)`: values for partition 0, for partition 1, in this order in their logs."""
        rows = [(str(v), p) for p, values in enumerate(values_of_partitions) for v in values]
        frame = self.pykafka.spark.createDataFrame(rows, "value string, partition int").coalesce(1)
        self.pykafka.write(frame, self.topic)

    def run(self, trigger, crash_after=None, **options):
        """The values of each batch, sorted, until the query ends by itself or is made to fail in the next batch."""
        batches = []

        def keep(frame, _):
            if len(batches) == crash_after:
                raise InterruptedError("crash as asked for")
            batches.append(sorted(int(bytes(row.value)) for row in frame.select("value").collect()))

        stream = self.pykafka.reading(self.topic, stream=True, startingOffsets="earliest", **options).load()
        writer = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(self.folder))
        started = writer.trigger(**trigger).start()
        try:
            started.awaitTermination()
        except StreamingQueryException as error:
            if "crash as asked for" not in str(error):
                raise
        return [batch for batch in batches if batch]


AVAILABLE_NOW, ONCE = {"availableNow": True}, {"once": True}


def test_at_most_ten_offsets_are_the_jvm_connectors_batches_and_trigger_once_takes_the_rest(query):
    query.write(range(100, 201), range(10, 21), [1])
    # The JVM connector's test "maxOffsetsPerTrigger", which starts the query again in between too.
    batches = query.run(AVAILABLE_NOW, crash_after=3, maxOffsetsPerTrigger="10")
    assert batches == [[1, 10, *range(100, 108)], [11, *range(108, 117)], [12, *range(117, 126)]]
    assert query.run(ONCE, maxOffsetsPerTrigger="10") == [[13, *range(126, 135)]]  # as it was planned
    assert query.run(ONCE, maxOffsetsPerTrigger="10") == [[*range(14, 21), *range(135, 201)]]


def test_at_least_fifteen_holds_back_what_came_after_the_first_batch_and_trigger_once_does_not(query):
    query.write(range(100, 121), range(10, 21), [1])
    limits = {"minOffsetsPerTrigger": "15", "maxOffsetsPerTrigger": "20"}
    # The JVM connector's test "compositeReadLimit": the first batch always comes, the 14 that are left are too few.
    first = [1, *range(10, 16), *range(100, 112)]
    rest = [*range(16, 21), *range(112, 121)]
    assert query.run(AVAILABLE_NOW, **limits) == [first]
    assert query.run(ONCE, **limits) == [rest]


def test_bytes_bound_each_batch(query):
    value = 10**3000  # 3001 bytes stored, and some for the batch
    query.write(range(value, value + 10))
    batches = query.run(AVAILABLE_NOW, maxBytesPerTrigger="10k")
    assert [len(batch) for batch in batches] == [3, 3, 3, 1]
