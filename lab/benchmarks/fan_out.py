"""`python -m lab.benchmarks.fan_out [ROWS]`: one task's rows to one, two and three clusters on this machine, and what
it costs that one cluster is killed half way, under each policy.

The writer's own method is timed, without Spark: what a task does between the Arrow batches that Spark gives it and its
report. First to brokers that store nothing, on another core, so that the writer's own costs show. Then to three of
Kafka's, which share the machine with the writer: look at ratios.
"""

from __future__ import annotations

import json
import logging
import os
import random
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.sink.clusters import targets
from kafkasource.sink.reports import TaskReport
from kafkasource.sink.writer import BatchWriter
from kafkasource.testing.broker import Broker
from lab.benchmarks.null_broker import PARTITIONS, TOPIC, null_broker
from lab.benchmarks.processes import cpu_seconds, own_cpu_seconds
from lab.benchmarks.turns import in_turn

PER_BATCH, VALUE_BYTES = 8192, 93
TURNS, WARM_UP = 6, 3
SCHEMA = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])


def batches(rows: int, half_way: Callable[[], object] | None = None) -> Iterator[pa.RecordBatch]:
    """Values of words that repeat, as in logs: zstd makes them half as long."""
    chance = random.Random(1)
    words = [b"%x," % chance.getrandbits(24) for _ in range(2000)]
    texts = [b"".join(chance.choices(words, k=VALUE_BYTES))[:VALUE_BYTES] for _ in range(PER_BATCH)]
    values = pa.array(texts, pa.binary())
    for first in range(0, rows, PER_BATCH):
        if half_way is not None and first <= rows // 2 < first + PER_BATCH:
            half_way()
        keys = pa.array([b"%07d" % (number % 5000) for number in range(first, first + PER_BATCH)], pa.binary())
        yield pa.record_batch([keys, values], names=["key", "value"])


def written_to(
    servers: Mapping[str, str], topic: str, rows: Iterator[pa.RecordBatch], options: Mapping[str, str]
) -> TaskReport:
    clusters = {name: {"kafka.bootstrap.servers": address} for name, address in servers.items()}
    writer = BatchWriter(targets.parse({"clusters": json.dumps(clusters), "topic": topic} | dict(options)), SCHEMA)
    return writer.write(rows)


# What sending costs.


class Cost(NamedTuple):
    seconds: float
    writer: float  # seconds of processor time
    brokers: float


def costs(servers: Mapping[str, str], rows: int, new_topic: Callable[[], str]) -> None:
    """Print what it costs to send `rows` rows to one, two and all of the servers, for each codec. They take turns, too:
    a JVM that has had fewer rows would be slower."""
    made = list(batches(rows))  # before the clock starts
    contestants = {
        f"{codec:4} to {number}": (codec, number)
        for codec in ("none", "lz4", "zstd")
        for number in range(1, len(servers) + 1)
    }
    found: dict[str, list[Cost]] = {label: [] for label in contestants}
    for turn in range(WARM_UP + TURNS):
        for label in in_turn(contestants, turn):
            codec, number = contestants[label]
            names = in_turn(servers, turn)[:number]
            cost = _cost({name: servers[name] for name in names}, made, codec, new_topic())
            if turn >= WARM_UP:
                found[label].append(cost)
    for label, runs in found.items():
        seconds, writer, brokers = (statistics.median(values) for values in zip(*runs, strict=True))
        one = found[label[:-1] + "1"]
        times = seconds / statistics.median(cost.seconds for cost in one)
        work = writer / statistics.median(cost.writer for cost in one)
        print(
            f"  {label}: {seconds:5.2f} s ({times:.2f} x), processor time of the writer {writer:5.2f} s "
            f"({work:.2f} x), of the brokers {brokers:5.2f} s",
            flush=True,
        )


def _cost(servers: Mapping[str, str], made: list[pa.RecordBatch], codec: str, topic: str) -> Cost:
    me = os.getpid()
    began, own, all_of_us = time.perf_counter(), own_cpu_seconds(me), cpu_seconds(me)
    report = written_to(servers, topic, iter(made), {"kafka.compression.type": codec})
    seconds, own = time.perf_counter() - began, own_cpu_seconds(me) - own
    for name, each in report.clusters.items():
        if sum(one.records for one in each.written.values()) != sum(map(len, made)):
            raise SystemExit(f"cluster {name!r} has not acknowledged every row")
    return Cost(seconds, own, cpu_seconds(me) - all_of_us - own)


# A cluster that dies.


class Bench:
    def __init__(self, brokers: Mapping[str, Broker], rows: int) -> None:
        self._brokers = brokers
        self._rows = -(-rows // PER_BATCH) * PER_BATCH

    def run(
        self,
        label: str,
        names: str,
        half_way: Callable[[], object] | None = None,
        *,
        topics_in: str = "",
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Print seconds and what each cluster got. `names`: of clusters, a letter each."""
        topic = _new_topic([self._brokers[name].bootstrap_servers for name in topics_in or names])
        servers = {name: self._brokers[name].bootstrap_servers for name in names}
        began, cpu = time.monotonic(), time.process_time()
        try:
            report = written_to(servers, topic, batches(self._rows, half_way), options or {})
        except KafkaSourceError as error:
            print(f"{label:36} failed after {time.monotonic() - began:.2f} s: {error}", flush=True)
            return
        seconds, cpu = time.monotonic() - began, time.process_time() - cpu
        got = ", ".join(
            f"{name} {sum(one.records for one in each.written.values()):,} (discarded "
            f"{sum(one.records for one in each.discarded.values()):,})"
            for name, each in report.clusters.items()
        )
        print(
            f"{label:36} {seconds:5.2f} s, CPU {cpu:5.2f} s, {self._rows / seconds / 1e3:4.0f} k rows/s: {got}",
            flush=True,
        )


def _new_topic(addresses: Collection[str]) -> str:
    topic = f"fan-out-{uuid.uuid4()}"
    for address in addresses:
        with Cluster(ClientConfig.of(address)) as cluster:
            cluster.topics.create([topic], partitions=PARTITIONS, replication_factor=1)
    return topic


def main(rows: int) -> None:
    logging.getLogger("kafkasource").setLevel(logging.ERROR)  # its producers warn of each broker that is gone
    ours, *others = cores = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        print(f"{rows:,} rows to brokers that store nothing, on another core than the writer's:", flush=True)
        os.sched_setaffinity(0, others or cores)
        brokers = {name: stack.enter_context(null_broker()) for name in "abc"}
        os.sched_setaffinity(0, [ours])
        costs(brokers, rows, lambda: TOPIC)
    os.sched_setaffinity(0, cores)
    with (
        Broker(heap_mb=256, use_existing=False) as a,
        Broker(heap_mb=256, use_existing=False) as b,
        Broker(heap_mb=256, use_existing=False) as c,
    ):
        servers = {name: broker.bootstrap_servers for name, broker in {"a": a, "b": b, "c": c}.items()}
        print(f"{rows:,} rows to Kafka's brokers:", flush=True)
        costs(servers, rows, lambda: _new_topic(servers.values()))
        print("With a slow cluster:", flush=True)
        bench = Bench({"a": a, "b": b, "c": c}, rows)
        bench.run("one, four producers", "a", options={"producersPerCluster": "4"})
        bench.run("three", "abc")
        bench.run("three, discard", "abc", options={"onSlowCluster": "discard"})
        bench.run("c killed half way, discard", "abc", c.kill, options={"onSlowCluster": "discard"})
        bench.run("c dead, discard", "abc", topics_in="ab", options={"onSlowCluster": "discard"})
        c.restart()

        def kill_for_a_while() -> None:
            c.kill()
            threading.Thread(target=c.restart).start()

        bench.run("c killed half way and back, block", "abc", kill_for_a_while)
        bench.run("c killed half way, fail", "abc", c.kill, options={"onSlowCluster": "fail"})


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
