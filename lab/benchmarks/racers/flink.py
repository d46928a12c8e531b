"""Flink's SQL from topic to topic, by PyFlink in a process of its own: `python -m lab.benchmarks.racers.flink`.

Each line of its standard input is a job, the arguments of `start` as JSON, or null to end the job. Each line of its
standard output is an answer: null, or why it failed. The rows never leave the JVM.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLINK = "PyFlink 2.3.0"
CONNECTOR = "flink-sql-connector-kafka:5.0.0-2.2"


@contextmanager
def flink(folder: Path) -> Iterator[Callable[[dict[str, Any] | None], None]]:
    """Runs the process for the block. The function starts and ends a job, and raises RuntimeError where that fails."""
    from kafkasource.testing.broker import cache_dir, resolve_jars
    from lab.benchmarks.racers.packages import environment

    jar = resolve_jars(f"org.apache.flink:{CONNECTOR}!", dest=cache_dir() / CONNECTOR.replace(":", "-"))[0]
    told = {**environment(FLINK), "FLINK_LOG_DIR": str(folder), "CONNECTOR_JAR": str(jar)}
    told["_python_worker_execution_mode"] = "process"  # else it starts a server for Python functions, with Beam
    command, pipe = [sys.executable, "-m", __name__], subprocess.PIPE
    with (folder / "flink.log").open("w") as log:
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True, env=told)

    def ask(job: dict[str, Any] | None) -> None:
        print(json.dumps(job), file=process.stdin, flush=True)
        failure = json.loads((process.stdout and process.stdout.readline()) or '"PyFlink ended"')
        if failure is not None:
            raise RuntimeError(failure)

    with process:  # its standard input is closed at the end, which ends it and its JVM
        yield ask


def start(servers: str, source: str, target: str, once: bool, interval: str) -> Any:
    """Start a job. `interval` is that of its checkpoints, which with `once` end its transactions."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        "pipeline.jars": f"file://{os.environ['CONNECTOR_JAR']}",
        "parallelism.default": "2",
        "execution.checkpointing.interval": interval,
        "restart-strategy.type": "none",  # else a job that cannot work tries for ever
    }
    for name, value in settings.items():
        tables.get_config().set(name, value)
    kafka = {"connector": "kafka", "properties.bootstrap.servers": servers, "format": "raw"}
    reading = {"topic": source, "scan.startup.mode": "earliest-offset"}
    writing = {"topic": target, "sink.delivery-guarantee": "at-least-once"}
    if once:  # brokers refuse the connector's default of an hour
        writing |= {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": target}
        writing["properties.transaction.timeout.ms"] = "600000"
    for name, own in (("source", reading), ("target", writing)):
        options = ", ".join(f"'{key}' = '{value}'" for key, value in {**kafka, **own}.items())
        tables.execute_sql(f"CREATE TABLE `{name}` (`value` BYTES) WITH ({options})")
    return tables.execute_sql("INSERT INTO `target` SELECT `value` FROM `source`")


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Flink prints, too
    running: Any = None
    for line in sys.stdin:
        failure = None
        try:
            if (job := json.loads(line)) is None:
                running.get_job_client().cancel().result()
            else:
                running = start(**job)
        except Exception as error:
            failure = str(error)
        print(json.dumps(failure), file=answers, flush=True)


if __name__ == "__main__":
    main()
