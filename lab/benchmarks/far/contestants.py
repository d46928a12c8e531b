"""What goes over the line: each is called with a number of records, and returns when they are all there."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka

from kafkasource import register
from kafkasource.mirror import job, toml_file
from lab.benchmarks.lab import load, save, to_noop

PARTITIONS = 4
VALUE_BYTES = 1_000
MOVE_S = 300.0

Move = Callable[[int], None]

MIRROR = """
checkpoint = "{folder}"
exactly_once = true
[clusters.far]
"kafka.bootstrap.servers" = "{far}"
[clusters.near]
"kafka.bootstrap.servers" = "{near}"
[[flows]]
from = "far"
to = ["near"]
topics = ["{topic}"]
topic = "{name}.${{topic}}"
"""


def fill(servers: str, topic: str, records: int) -> None:
    """A quarter of the records in each partition."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 20, "log_level": 0})
    for number in range(records):
        while True:
            try:
                producer.produce(topic, b"x" * VALUE_BYTES, partition=number % PARTITIONS)
                break
            except BufferError:  # its queue is full
                producer.poll(0.1)
    if producer.flush(60):
        raise TimeoutError("the topic could not be filled")


class Contestants:
    """`servers`: through the line; `near`: another broker, beside us. `full[n]` is a topic that holds n records."""

    def __init__(self, spark: Any, folder: Path, servers: str, near: str, full: dict[int, str], target: str) -> None:
        self._spark, self._folder, self._servers, self._near = spark, folder, servers, near
        self._full, self._target = full, target

    def all(self) -> dict[str, Move]:
        return {
            "read: pykafka": lambda count: self._spark_reads("pykafka", count),
            "read: JVM connector": lambda count: self._spark_reads("kafka", count),
            "read: librdkafka": self._librdkafka_reads,
            "mirror, exactly once": self._mirrors,
            "write: pykafka": lambda count: self._spark_writes("pykafka", count, {}),
            "write: pykafka, exactly once": lambda count: self._spark_writes(
                "pykafka", count, {"deliveryGuarantee": "exactly_once", "transactionalIdPrefix": uuid.uuid4().hex[:8]}
            ),
            "write: JVM connector": lambda count: self._spark_writes("kafka", count, {}),
            "write: librdkafka": self._librdkafka_writes,
        }

    def _spark_reads(self, name: str, count: int) -> None:
        read = {"subscribe": self._full[count], "startingOffsets": "earliest"}
        to_noop(load(self._spark, name, {"kafka.bootstrap.servers": self._servers, **read}))

    def _spark_writes(self, name: str, count: int, options: dict[str, str]) -> None:
        rows = self._spark.range(0, count, 1, 2).selectExpr(
            "CAST(CAST(id AS STRING) AS BINARY) AS key", f"CAST(repeat('x', {VALUE_BYTES}) AS BINARY) AS value"
        )
        save(rows, name, {"kafka.bootstrap.servers": self._servers, "topic": self._target, **options})

    def _librdkafka_reads(self, count: int) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self._servers, "group.id": "far", "enable.auto.commit": False, "log_level": 0}
        )
        topic = self._full[count]
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        got = 0
        while got < count:
            found = consumer.consume(min(10_000, count - got), MOVE_S)  # it waits for all that it is asked for
            got += sum(message.error() is None for message in found)
            if not found:
                raise TimeoutError(f"{got} of {count} records")
        consumer.close()

    def _librdkafka_writes(self, count: int) -> None:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 20, "log_level": 0}
        )
        for number in range(count):
            while True:
                try:
                    producer.produce(self._target, b"x" * VALUE_BYTES, str(number).encode())
                    break
                except BufferError:
                    producer.poll(0.1)
        if producer.flush(MOVE_S):
            raise TimeoutError("records are not acknowledged")

    def _mirrors(self, count: int) -> None:
        """`pykafka mirror --once` in this Spark session, to the near broker."""
        name, topic = uuid.uuid4().hex[:8], self._full[count]
        text = MIRROR.format(
            folder=self._folder / name, far=self._servers, near=self._near, topic=json.dumps(topic)[1:-1], name=name
        )
        register(self._spark)
        mirror = job.start(toml_file.parse(text, "far"), self._spark, once=True)
        try:
            mirror.wait()
        finally:
            mirror.stop()
