"""What happens to the cost as a topic has more partitions: planning, micro-batches, reads; also with most idle."""

from __future__ import annotations

from collections.abc import Iterator

from lab.benchmarks.lab import Lab
from lab.benchmarks.read import readers
from lab.benchmarks.records import Records
from lab.benchmarks.results import SECONDS, Row
from lab.benchmarks.stages import Effort, compare
from lab.benchmarks.streaming import compare_queries

TITLE = "cost as partitions grow"
ROWS_PER_BATCH = 4000
WARM_UP = 2
GIVE_UP_S = 45.0  # of each query
MANY = 1000
# Seen: the JVM connector reads a small partition in half a second of waiting, so a thousand in minutes.
JVM_AT_MOST = 100


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    for partitions in (4, MANY) if effort.quick else (4, JVM_AT_MOST, MANY):
        batches = 4 if partitions > JVM_AT_MOST else 10
        records = Records(max(effort.rows(100_000), ROWS_PER_BATCH * (batches + WARM_UP)), partitions=partitions)
        with lab.topic_of(records) as topic:
            work = f"read {records.rows:,} records of {partitions:,} partitions"
            contestants = readers(lab, topic, records)
            del contestants["ready-arrow"]
            if partitions > JVM_AT_MOST:
                del contestants["jvm"]
            yield from compare(
                work, contestants, 1 if partitions == JVM_AT_MOST else min(effort.turns, 2), records=records, warm_up=1
            )
            if "jvm" not in contestants:
                yield Row(work, "jvm", SECONDS, failure=f"not run: minutes (see {JVM_AT_MOST} partitions)")
            yield from _stream(
                lab, f"micro-batch of {ROWS_PER_BATCH:,} rows of {partitions:,} partitions", topic, batches
            )
    yield from _mostly_idle(lab, 4 if effort.quick else 10)


def _mostly_idle(lab: Lab, batches: int) -> Iterator[Row]:
    """A thousand partitions of which four hold records: should cost what four partitions cost."""
    records = Records(ROWS_PER_BATCH * (batches + WARM_UP), partitions=1000)
    topic = lab.new_topic(1000)
    frame = records.frame(lab.spark).selectExpr("*", "CAST(CAST(key AS INT) % 4 * 250 AS INT) AS partition")
    lab.fill(topic, frame)
    yield from _stream(lab, f"micro-batch of {ROWS_PER_BATCH:,} rows, 4 of 1,000 partitions hold any", topic, batches)
    lab.drop(topic)


def _stream(lab: Lab, work: str, topic: str, batches: int) -> Iterator[Row]:
    options = {
        "kafka.bootstrap.servers": lab.servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(ROWS_PER_BATCH),
    }
    sources = {"pykafka": ("pykafka", options), "jvm": ("kafka", options)}
    yield from compare_queries(
        lab, work, sources, 1, rows_per_batch=ROWS_PER_BATCH, warm_up=WARM_UP, at_most=batches, give_up_s=GIVE_UP_S
    )
