"""Readers of a topic into Arrow record batches: `python -m lab.benchmarks.racers.readers READER SERVERS TOPIC RECORDS`.

Prints the seconds from making the client to its end, and the µs of the process's processor time for a row, as JSON. The
process reads the topic twice and measures the second time, so imports do not count.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from lab.benchmarks.clients import PATIENCE_S, TUNED
from lab.benchmarks.results import OURS

PARTITIONS = 4
PER_BATCH = 10_000  # records that the readers on librdkafka ask for at once
COLUMNS = {"key", "value", "partition", "offset", "timestamp"}
Batches = Iterator[pa.RecordBatch]


def read_pykafka(servers: str, topic: str, records: int) -> Batches:
    from kafkasource.reader import Reader

    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    with Reader(options) as reader:
        yield from reader


def read_kafkarrow(servers: str, topic: str, records: int) -> Batches:
    from kafkarrow import ConsumerManager, SourceTopic

    told = {name: str(value).lower() for name, value in TUNED.items()}
    config = {"bootstrap.servers": servers, "group.id": "benchmark", **told}
    manager = ConsumerManager(config=config, topics=[SourceTopic.from_earliest(topic)], batch_size=PER_BATCH)
    deadline = time.monotonic() + 60
    while records:
        batch = manager.poll(timeout_ms=1000)
        records -= batch.num_rows
        if time.monotonic() > deadline:
            raise TimeoutError(f"{records} records did not come")
        yield batch


def read_confluent(servers: str, topic: str, records: int) -> Batches:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "benchmark", "enable.auto.commit": False, **TUNED})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    while records:
        messages = consumer.consume(min(PER_BATCH, records), timeout=PATIENCE_S)
        if not messages:
            raise TimeoutError(f"{records} records did not come")
        records -= len(messages)
        columns = {
            "key": pa.array([message.key() for message in messages], pa.binary()),
            "value": pa.array([message.value() for message in messages], pa.binary()),
            "partition": pa.array([message.partition() for message in messages], pa.int32()),
            "offset": pa.array([message.offset() for message in messages], pa.int64()),
            "timestamp": pa.array([message.timestamp()[1] for message in messages], pa.timestamp("ms")),
        }
        yield pa.record_batch(columns)
    consumer.close()


READERS: dict[str, Callable[[str, str, int], Batches]] = {
    OURS: read_pykafka,
    "kafkarrow 0.1.1": read_kafkarrow,
    "confluent-kafka": read_confluent,
}


def main(reader: str, servers: str, topic: str, rows_there: str) -> None:
    records = int(rows_there)
    for _ in range(2):
        started, cpu, rows = time.perf_counter(), time.process_time(), 0
        for batch in READERS[reader](servers, topic, records):
            rows += batch.num_rows
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        if rows != records or not set(batch.schema.names) >= COLUMNS:
            raise ValueError(f"{rows} of {records} records, with the columns {batch.schema.names}")
    print(json.dumps({"seconds": seconds, "cpu_us": cpu / records * 1e6}))


if __name__ == "__main__":
    main(*sys.argv[1:])
