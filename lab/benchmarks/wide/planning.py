"""The driver's side of a stream alone, without Spark: what one micro-batch costs it, and how large its answers are."""

from __future__ import annotations

import json
import pickle
import statistics
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kafkasource import options
from kafkasource.source.spark.input_partition import KafkaInputPartition
from kafkasource.source.spark.stream import StreamReader
from kafkasource.types import TopicPartition

Answer = TypeVar("Answer")
Figures = dict[str, float]
FAKE_TOPICS, FAKE_PARTITIONS, FAKE_BUSY = 1_000, 100, 1_000
ROUNDS = 5


def _taken(call: Callable[[], Answer]) -> tuple[Answer, float, float]:
    """Its answer, milliseconds of processor time of this process, and milliseconds."""
    began_s, used_s = time.monotonic(), time.process_time()
    answer = call()
    return answer, (time.process_time() - used_s) * 1000, (time.monotonic() - began_s) * 1000


def measure(reader: StreamReader, busy: Callable[[], None]) -> Figures:
    """`busy`: makes the busy partitions move. Medians of `ROUNDS` micro-batches with records, and as many without."""
    limit = reader.getDefaultReadLimit()
    start, first_cpu, first = _taken(reader.initialOffset)
    start = reader.latestOffset(start, limit)
    idle, moved, planned = list[tuple[float, float]](), list[tuple[float, float]](), list[tuple[float, float]]()
    tasks: list[KafkaInputPartition] = []
    for _ in range(ROUNDS):
        start, cpu, wall = _taken(partial(reader.latestOffset, start, limit))
        idle.append((cpu, wall))
        busy()
        end, cpu, wall = _taken(partial(reader.latestOffset, start, limit))
        moved.append((cpu, wall))
        tasks, cpu, wall = _taken(partial(reader.partitions, start, end))
        planned.append((cpu, wall))
        start = end
    found = {"initialOffset, CPU ms": first_cpu, "initialOffset, ms": first}
    for name, rows in {
        "latestOffset, nothing new": idle,
        "latestOffset, 1 % busy": moved,
        "partitions, 1 % busy": planned,
    }.items():
        found[f"{name}, CPU ms"] = statistics.median(cpu for cpu, _ in rows)
        found[f"{name}, ms"] = statistics.median(wall for _, wall in rows)
    return found | {
        "offset as JSON, bytes": len(json.dumps(start)),
        "pickled reader, bytes": len(pickle.dumps(reader)),
        "tasks": len(tasks),
        "largest pickled task, bytes": max(len(pickle.dumps(task)) for task in tasks),
    }


def reader_of(servers: str, pattern: str) -> StreamReader:
    wanted = {"kafka.bootstrap.servers": servers, "subscribePattern": pattern, "startingOffsets": "latest"}
    return StreamReader(options.parse(wanted, "source"))


def on_fake_cluster() -> Figures:
    """100,000 partitions. The cluster is a table in this process: its own cost is in the figures, and shown alone."""
    from fake_cluster import FakeCluster

    cluster = FakeCluster()  # type: ignore[no-untyped-call]
    names = [f"wide-{number:04d}" for number in range(FAKE_TOPICS)]
    for name in names:
        cluster.logs[name] = [(0, 1000)] * FAKE_PARTITIONS
        cluster.topic_ids[name] = uuid.uuid4()
        cluster.epochs |= {TopicPartition(name, partition): 5 for partition in range(FAKE_PARTITIONS)}
    wanted = {"kafka.bootstrap.servers": "none:9092", "subscribePattern": "wide-.*", "startingOffsets": "latest"}
    reader = StreamReader(options.parse(wanted, "source"), open_cluster=lambda _: cluster)  # type: ignore[arg-type,return-value]
    of_each = FAKE_BUSY // 10

    def busy() -> None:
        for name in names[:10]:
            cluster.logs[name] = [(low, high + (at < of_each)) for at, (low, high) in enumerate(cluster.logs[name])]

    found = measure(reader, busy)
    all_logs = {TopicPartition(name, partition): -1 for name in names for partition in range(FAKE_PARTITIONS)}
    _, listed, _ = _taken(lambda: cluster.offsets.list(all_logs, None))
    _, described, _ = _taken(cluster.topics.list)
    return found | {"of each latestOffset the fake cluster's own, CPU ms": listed + described}
