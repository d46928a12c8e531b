"""How many connections and requests an exactly-once query makes with many executors, counted between it and its broker.

    python -m lab.benchmarks.wide.executors --executors 16

Each executor is a JVM of 512 MB with one core (`local-cluster`), and each micro-batch has a task for each. The tests'
proxy counts. docs/scale.md has the model.
"""

from __future__ import annotations

import argparse
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proxy import Harm, Proxy

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import APIS
from kafkasource.testing.broker import Broker
from kafkasource.testing.broker.properties import free_ports
from lab.benchmarks.lab import prepare_environment, spark_conf, start_with_ours
from lab.benchmarks.soak.traffic import Traffic
from lab.benchmarks.streaming import with_rows
from lab.campaign.ending import on_sigterm_unwind

WARM_UP, BATCHES = 4, 12
TRIGGER_S = 3
RATE = 1_000
GIVE_UP_S = 240.0


class CountingProxy(Proxy):
    """Requests by API, those of the librdkafka producer of the records among them."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: Counter[str] = Counter()

    @property
    def open(self) -> int:
        return len(self._sockets) // 2

    def _harms(self) -> tuple[Harm, Harm]:
        held = bytearray()

        def to_broker(data: bytes) -> tuple[bytes, bool]:
            held.extend(data)
            while len(held) >= 8 and len(held) >= (size := 4 + struct.unpack_from(">i", held)[0]):
                (key,) = struct.unpack_from(">h", held, 4)
                self.requests[APIS[key].request.name if key in APIS else str(key)] += 1
                del held[:size]
            return data, False

        return to_broker, lambda data: (data, False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.wide.executors", description=__doc__)
    parser.add_argument("--executors", type=int, default=16, help="(16)")
    arguments = parser.parse_args()
    on_sigterm_unwind()
    prepare_environment()
    ports = free_ports(1)
    proxy = CountingProxy()
    with proxy, tempfile.TemporaryDirectory(prefix="many-", ignore_cleanup_errors=True) as home:
        proxy.upstream = ("127.0.0.1", ports[0])
        with Broker(ports=ports, advertised_ports=[proxy.address[1]], use_existing=False, heap_mb=512) as broker:
            for line in measured(proxy, broker.bootstrap_servers, Path(home), arguments.executors):
                print(line, flush=True)
    return 0


def measured(proxy: CountingProxy, servers: str, folder: Path, executors: int) -> list[str]:
    with Cluster(ClientConfig.of(servers, client_id="many")) as cluster:
        cluster.topics.create(["in", "out"], partitions=executors, replication_factor=1)
    traffic = Traffic(servers, "in", RATE)
    settings = {"spark.executor.memory": "512m", "spark.sql.streaming.numRecentProgressUpdates": "9999"}
    spark = start_with_ours(folder, f"local-cluster[{executors},1,512]", spark_conf() | settings)
    try:
        traffic.start()
        query = _query(spark, servers, folder, executors)
        try:
            _await(query, WARM_UP)
            before, began_s, done = proxy.requests.copy(), time.monotonic(), len(with_rows(query))
            _await(query, done + BATCHES)
            after, took_s, batches = proxy.requests.copy(), time.monotonic() - began_s, len(with_rows(query)) - done
            open_now = proxy.open
        finally:
            query.stop()
    finally:
        traffic.stop()
        spark.stop()
    lines = [f"{executors} executors, {batches} micro-batches in {took_s:.0f} s, {open_now} connections open"]
    for name, count in (after - before).most_common():
        lines.append(f"{name:28}{count:8} {count / batches:10.1f} a micro-batch {count / took_s:8.2f} a second")
    return lines


def _query(spark: Any, servers: str, folder: Path, executors: int) -> Any:
    broker = {"kafka.bootstrap.servers": servers}
    read = {"subscribe": "in", "minRecordsPerPartition": "1", "maxPartitions": str(executors)}
    return (
        spark.readStream.format("pykafka")
        .options(**broker, **read)
        .load()
        .select("key", "value", "partition")
        .writeStream.format("pykafka")
        .options(topic="out", deliveryGuarantee="exactly_once", **broker)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime=f"{TRIGGER_S} seconds")
        .start()
    )


def _await(query: Any, batches: int, clock: Callable[[], float] = time.monotonic) -> None:
    deadline = clock() + GIVE_UP_S
    while len(with_rows(query)) < batches:
        if query.exception() is not None:
            raise query.exception()
        if clock() > deadline:
            raise TimeoutError(f"{len(with_rows(query))} of {batches} micro-batches within {GIVE_UP_S:g} s")
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
