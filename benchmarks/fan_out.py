"""`python -m benchmarks.fan_out [ROWS]`: one task's rows to one, two and three clusters on this machine, with several
producers, and what it costs that one cluster is killed half way, under each policy.

The writer's own method is timed, without Spark: what a task does between the Arrow batches that Spark gives it and its
report. Three brokers share the machine with it, so look at ratios.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from kafkasource.broker import Broker
from kafkasource.client.cluster import Cluster
from kafkasource.client.config import ClientConfig
from kafkasource.errors import KafkaSourceError
from kafkasource.sink.clusters import targets
from kafkasource.sink.writer import BatchWriter

PARTITIONS, PER_BATCH, VALUE = 8, 8192, b"v" * 93
SCHEMA = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])


def batches(rows: int, half_way: Callable[[], object] | None) -> Iterator[pa.RecordBatch]:
    values = pa.array([VALUE] * PER_BATCH, pa.binary())
    for first in range(0, rows, PER_BATCH):
        if half_way is not None and first <= rows // 2 < first + PER_BATCH:
            half_way()
        keys = pa.array([b"%07d" % (number % 5000) for number in range(first, first + PER_BATCH)], pa.binary())
        yield pa.record_batch([keys, values], names=["key", "value"])


class Bench:
    def __init__(self, brokers: Mapping[str, Broker], rows: int) -> None:
        self._brokers = brokers
        self._rows = -(-rows // PER_BATCH) * PER_BATCH
        self._topics = 0

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
        self._topics += 1
        topic = f"fan-out-{self._topics}"
        for name in topics_in or names:
            with Cluster(ClientConfig.of(self._brokers[name].bootstrap_servers)) as cluster:
                cluster.topics.create([topic], partitions=PARTITIONS, replication_factor=1)
        servers = {name: {"kafka.bootstrap.servers": self._brokers[name].bootstrap_servers} for name in names}
        written = {"clusters": json.dumps(servers), "topic": topic} | dict(options or {})
        writer = BatchWriter(targets.parse(written), SCHEMA)
        began, cpu = time.monotonic(), time.process_time()
        try:
            report = writer.write(batches(self._rows, half_way))
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


def main(rows: int) -> None:
    with (
        Broker(heap_mb=256, use_existing=False) as a,
        Broker(heap_mb=256, use_existing=False) as b,
        Broker(heap_mb=256, use_existing=False) as c,
    ):
        zstd, four = {"kafka.compression.type": "zstd"}, {"producersPerCluster": "4"}
        bench = Bench({"a": a, "b": b, "c": c}, rows)
        bench.run("(warm)", "abc")
        bench.run("one", "a")
        bench.run("one, four producers", "a", options=four)
        bench.run("one, zstd", "a", options=zstd)
        bench.run("one, zstd, four producers", "a", options=zstd | four)
        bench.run("two", "ab")
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
