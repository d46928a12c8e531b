"""One long-lived worker through 100,000 tasks, simulated: what Spark's worker does with our code, without Spark.

    python -m lab.benchmarks.soak.tasks --tasks 100000

A task unpickles what the driver made and reads four partitions, writes their rows, or writes them in a transaction, in
turns. The brokers are the tests' fake ones, in a process of their own, on a real socket. 100,000 tasks count as a day,
so the judgement is that of `slopes`. Exit code 1: a leak.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa

from kafkasource.metrics import process_counts
from lab.benchmarks.soak import report
from lab.benchmarks.soak.sampler import App, Sample, sample_of
from lab.benchmarks.soak.slopes import DAY_S
from lab.campaign.ending import on_sigterm_unwind

TASKS, PARTITIONS, ROWS = 100_000, 4, 400
SAMPLES = 250
TOPIC, TARGET = "t", "target"
KEPT_REQUESTS = 1_000  # of the fake brokers, whose list of them is for tests


def serve_fake(ready: Connection) -> None:
    """In a process of its own, until that is killed: a fake broker that holds 100 records in each partition."""
    from fake_broker import Request, serve
    from fetch_rig import Kafka

    class Forgetful(Kafka):
        def handle(self, node_id: int, frame: bytes) -> list[bytes | None]:
            if len(self.requests) > KEPT_REQUESTS:
                self.requests.clear()
            found: list[bytes | None] = super().handle(node_id, frame)
            return found

        def _fetch(self, request: Request) -> dict[str, object]:
            """Any number of partitions, where the tests' broker is asked for one at a time."""
            answered = []
            for topic in request.body["topics"]:
                for partition in topic["partitions"]:
                    one = {**request.body, "topics": [{**topic, "partitions": [partition]}]}
                    answered += super()._fetch(request._replace(body=one))["responses"]  # type: ignore[no-untyped-call]
            return {"error_code": 0, "responses": answered}

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kafka = Forgetful(topics={TOPIC: PARTITIONS, TARGET: PARTITIONS})  # type: ignore[no-untyped-call]
    with serve(kafka) as (host, port):
        ready.send(f"{host}:{port}")
        ready.poll(None)  # until the worker closes its end


class Context:
    """As much of pyspark's TaskContext as the sink asks for: all tasks are attempts of the first micro-batch's."""

    def __init__(self) -> None:
        self.number = 0

    def partitionId(self) -> int:
        return self.number % PARTITIONS

    def attemptNumber(self) -> int:
        return 0

    def getLocalProperty(self, name: str) -> str | None:
        return {"streaming.sql.batchId": "0", "sql.streaming.queryId": "soak"}.get(name)


def tasks_of(servers: str) -> list[Callable[[], int]]:
    """The kinds of tasks; each returns how many rows it has read or written."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    from kafkasource.datasource import KafkaDataSource
    from kafkasource.sink import writer
    from kafkasource.sink.clusters import targets

    context = Context()
    writer.TaskContext = SimpleNamespace(get=lambda: context)  # type: ignore[attr-defined]
    broker = {"kafka.bootstrap.servers": servers}
    source = KafkaDataSource({**broker, "subscribe": TOPIC, "startingOffsets": "earliest"})
    stream = source.streamReader(source.schema())
    start = stream.initialOffset()
    partitions = pickle.dumps(list(stream.partitions(start, stream.latestOffset())))
    reader = pickle.dumps(stream)
    stream.stop()
    schema = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])
    once = {"deliveryGuarantee": "exactly_once", "transactionalIdPrefix": "soak"}
    writers = [
        pickle.dumps(writer.StreamWriter(targets.parse({**broker, "topic": TARGET, **more}), schema))
        for more in ({}, once)
    ]

    def read() -> int:
        task = pickle.loads(reader)
        return sum(batch.num_rows for each in pickle.loads(partitions) for batch in task.read(each))

    def write(pickled: bytes) -> int:
        rows = pa.record_batch({"key": [b"%d" % n for n in range(ROWS)], "value": [b"x" * 100] * ROWS})
        rows = rows.cast(pa.schema([("key", pa.binary()), ("value", pa.binary())]))
        context.number += 1
        pickle.loads(pickled).write(iter([rows]))
        return ROWS

    return [read, *(lambda pickled=pickled: write(pickled) for pickled in writers)]


def run(count: int) -> Iterator[Sample]:
    """A sample after each 1/`SAMPLES` of the tasks. Raises where a task's rows are not what it must read or write."""
    mine, theirs = multiprocessing.get_context("spawn").Pipe()
    broker = multiprocessing.get_context("spawn").Process(target=serve_fake, args=(theirs,), daemon=True)
    broker.start()
    theirs.close()
    try:
        kinds = tasks_of(mine.recv())
        app = App("simulated", 0)
        for number in range(1, count + 1):
            rows = kinds[number % len(kinds)]()
            if rows != ROWS:
                raise AssertionError(f"task {number} had {rows} rows instead of {ROWS}")
            if number % max(1, count // SAMPLES) == 0:
                gc.collect()
                found = sample_of(multiprocessing.process.current_process().pid or 0, app)
                assert found is not None
                del found["cpu_s"]  # a day here is no day
                gauges = {
                    ".".join((name, *labels)): value
                    for (name, labels), value in process_counts().snapshot().gauges.items()
                }
                yield {"t_s": number / count * DAY_S, "app": app.name, **found, **gauges}
    finally:
        mine.close()
        broker.terminate()
        broker.join()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.soak.tasks", description=__doc__)
    parser.add_argument("--tasks", type=int, default=TASKS, help=f"({TASKS})")
    parser.add_argument("--folder", type=Path, default=Path("build/soak-tasks"), help="(build/soak-tasks)")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    on_sigterm_unwind()
    began_s = time.monotonic()
    failure = None
    with (arguments.folder / report.SAMPLES).open("w") as file:
        try:
            for sample in run(arguments.tasks):
                file.write(json.dumps(sample) + "\n")
        except (KeyboardInterrupt, SystemExit):
            failure = "ended early"
    print(f"{time.monotonic() - began_s:.0f} s, of which the first tenth is not judged")
    return report.write(arguments.folder, None, failure, DAY_S / 10)


if __name__ == "__main__":
    sys.exit(main())
