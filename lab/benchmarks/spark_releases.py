"""A stream read and a stream write on several releases of Spark, by turns, on one broker.

    python -m lab.benchmarks.spark_releases [--rounds 5] [PYTHON ...]     default: the Makefile's environments

Prints a Markdown table: medians in thousand rows a second, and how many times as fast as the last one named. Each
Python has a Spark application of its own, which stays for all rounds, and only one of them works at a time. One
micro-batch has all rows. Counted is `addBatch` of Spark's progress: the tasks, without planning and the checkpoint.
The read is Kafka to the noop sink; the write is Parquet (made before, the same rows) to Kafka.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import IO, Any, cast

from lab.benchmarks.lab import ROOT, Lab, prepare_environment, spark_conf, start_with_ours
from lab.benchmarks.records import Records, size_name
from lab.benchmarks.turns import take_turns

ROWS = {100: 1_000_000, 1_000: 300_000}  # by bytes of the value
PYTHONS = [f"{folder}/bin/python" for folder in (".venv-4.0", ".venv-4.1", ".venv", ".venv-newest")]
SCHEMA = "key string, value string"
Work = tuple[str, int]  # read or write, bytes of the value
WORKS: list[Work] = [(kind, value_bytes) for value_bytes in ROWS for kind in ("read", "write")]


class Application:
    """Spark in another Python. It takes lines of JSON and answers each with one."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.release = str(self._read())

    def ask(self, **command: Any) -> float:
        to = cast(IO[str], self._process.stdin)
        to.write(json.dumps(command) + "\n")
        to.flush()
        return float(self._read())

    def _read(self) -> Any:
        line = cast(IO[str], self._process.stdout).readline()
        if not line:
            raise RuntimeError("the Spark application has ended, see its words above")
        return json.loads(line)


@contextmanager
def application(python: str) -> Iterator[Application]:
    with TemporaryDirectory(prefix="kafkasource-bench-", ignore_cleanup_errors=True) as folder:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
        process = subprocess.Popen(
            [python, "-m", "lab.benchmarks.spark_releases", "--serve", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=ROOT,
        )
        try:
            yield Application(process)
        finally:
            cast(IO[str], process.stdin).close()  # it ends in order
            process.wait(60)


def serve(folder: str) -> None:
    """The other process: answers until its input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Spark and Java print goes to stderr
    spark = start_with_ours(Path(folder), "local[2]", spark_conf())
    for value_bytes, rows in ROWS.items():
        Records(rows, value_bytes).frame(spark).write.parquet(f"{folder}/rows-{value_bytes}")
    print(json.dumps(spark.version), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(one_query(spark, folder, **json.loads(line))), file=answers, flush=True)
    spark.stop()


def one_query(spark: Any, folder: str, kind: str, servers: str, topic: str, value_bytes: int) -> float:
    """Milliseconds of the micro-batch that takes all rows."""
    kafka = {"kafka.bootstrap.servers": servers}
    if kind == "read":
        options = {**kafka, "subscribe": topic, "startingOffsets": "earliest"}
        writer = spark.readStream.format("pykafka").options(**options).load().writeStream.format("noop")
    else:
        rows = spark.readStream.schema(SCHEMA).parquet(f"{folder}/rows-{value_bytes}")
        writer = rows.writeStream.format("pykafka").options(**kafka, topic=topic)
    query = writer.option("checkpointLocation", mkdtemp(dir=folder)).trigger(availableNow=True).start()
    query.awaitTermination()
    (batch,) = [progress for progress in query.recentProgress if progress["numInputRows"]]
    if batch["numInputRows"] != ROWS[value_bytes]:
        raise RuntimeError(f"{batch['numInputRows']} rows, not {ROWS[value_bytes]}")
    return float(batch["durationMs"]["addBatch"])


def compare(pythons: Sequence[str], rounds: int) -> str:
    """The table."""
    medians: dict[Work, dict[str, float]] = {}
    with Lab() as lab, ExitStack() as stack:
        applications = [stack.enter_context(application(python)) for python in pythons]
        for kind, value_bytes in WORKS:
            filled = lab.new_topic()
            if kind == "read":
                applications[-1].ask(kind="write", servers=lab.servers, topic=filled, value_bytes=value_bytes)

            def run(one: Application, kind: str = kind, value_bytes: int = value_bytes, filled: str = filled) -> float:
                topic = filled if kind == "read" else lab.new_topic()
                took_ms = one.ask(kind=kind, servers=lab.servers, topic=topic, value_bytes=value_bytes)
                if kind == "write":
                    lab.drop(topic)
                return ROWS[value_bytes] / took_ms  # thousand rows a second

            turns = take_turns({one.release: partial(run, one) for one in applications}, rounds)
            failed = {release: turn.failure for release, turn in turns.items() if turn.failure}
            if failed:
                raise RuntimeError(str(failed))
            medians[kind, value_bytes] = {release: statistics.median(turn.values) for release, turn in turns.items()}
            print(
                kind, value_bytes, {name: [round(v) for v in turn.values] for name, turn in turns.items()}, flush=True
            )
            lab.drop(filled)
    return table(medians)


def table(medians: dict[Work, dict[str, float]]) -> str:
    releases = list(next(iter(medians.values())))
    lines = [f"| | {' | '.join(releases)} |", f"|---|{'---|' * len(releases)}"]
    for (kind, value_bytes), speeds in medians.items():
        cells = (f"{speed:.0f} ({speed / speeds[releases[-1]]:.2f})" for speed in speeds.values())
        lines.append(f"| stream {kind}, {size_name(value_bytes)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.spark_releases")
    parser.add_argument(
        "pythons", nargs="*", default=PYTHONS, help="interpreters, each with a pyspark of another release"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    prepare_environment()
    if given.serve:
        serve(given.serve)
    else:
        print(compare([str(Path(python).absolute()) for python in given.pythons], given.rounds))


if __name__ == "__main__":
    main()
