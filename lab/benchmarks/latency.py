"""End to end: from a record's making, through Kafka, Spark and Kafka again, to its place in another topic's log.

A producer makes 1,000 records a second; a streaming query reads them and writes them to a second topic whose broker
stamps what it stores (LogAppendTime). The record's own text says when it was made; the two clocks are one machine's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from tempfile import mkdtemp

from lab.benchmarks import clients
from lab.benchmarks.lab import Lab
from lab.benchmarks.results import LATENCY, Row
from lab.benchmarks.stages import Effort
from lab.benchmarks.turns import reason

TITLE = "latency from topic to topic, 1,000 records a second"
RATE = 1000
PARTITIONS = 4
WARM_UP_S = 2.0


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    seconds, rounds = (5.0, 1) if effort.quick else (8.0, 2)
    contestants = {"pykafka": "pykafka", "jvm": "kafka", "confluent-kafka": None}
    found: dict[str, list[float]] = {name: [] for name in contestants}
    failures: dict[str, str] = {}
    for turn in range(1 + rounds):  # the first round is short and not counted: JVMs warm up in it
        for name, format_name in contestants.items():
            if name not in failures and (turn or format_name):
                try:
                    values = measure(lab, format_name, seconds if turn else 3.0)
                    found[name] += values if turn else []
                except Exception as error:
                    failures[name] = reason(error)
    for name, values in found.items():
        note = "outside Spark: consume, produce, one record at a time" if contestants[name] is None else ""
        yield Row("topic to topic", name, LATENCY, tuple(values), note=note, failure=failures.get(name))


def measure(lab: Lab, format_name: str | None, seconds: float) -> list[float]:
    """Latencies in ms of one query (or, without a format, of the pipe outside Spark), as 1001 quantiles."""
    source, target = lab.new_topic(PARTITIONS), lab.new_topic(PARTITIONS, **{"message.timestamp.type": "LogAppendTime"})
    try:
        move = _query if format_name else _pipe
        since_us = move(lab, source, target, seconds, format_name or "")
        answer = clients.run(
            "latencies", "confluent-kafka", servers=lab.servers, topic=target, partitions=PARTITIONS, since_us=since_us
        )
        if answer["records"] < 0.9 * RATE * seconds:
            raise RuntimeError(f"only {answer['records']} of about {RATE * seconds:.0f} records came through")
        return list(map(float, answer["ms"]))
    finally:
        lab.drop(source)
        lab.drop(target)


def _producer(lab: Lab, topic: str, seconds: float) -> int:
    """Produce for the warm-up and the time asked for; gives when the warm-up ended, in µs since the epoch."""
    answer = clients.run(
        "produce",
        "confluent-kafka",
        servers=lab.servers,
        topic=topic,
        rate=RATE,
        seconds=WARM_UP_S + seconds,
        value_bytes=100,
    )
    return int(answer["made"][0][0] + WARM_UP_S * 1e6)


def _query(lab: Lab, source: str, target: str, seconds: float, format_name: str) -> int:
    servers = {"kafka.bootstrap.servers": lab.servers}
    query = (
        lab.spark.readStream.format(format_name)
        .options(**servers, subscribe=source, startingOffsets="earliest")
        .load()
        .select("value")
        .writeStream.format(format_name)
        .options(**servers, topic=target, checkpointLocation=mkdtemp(dir=lab.folder))
        .start()
    )
    try:
        since_us = _producer(lab, source, seconds)
        query.processAllAvailable()
    finally:
        query.stop()
    return since_us


def _pipe(lab: Lab, source: str, target: str, seconds: float, _: str) -> int:
    pipe = clients.start(
        "pipe",
        "confluent-kafka",
        servers=lab.servers,
        source=source,
        target=target,
        partitions=PARTITIONS,
        seconds=WARM_UP_S + seconds + 3,
    )
    time.sleep(1)  # its consumer connects
    since_us = _producer(lab, source, seconds)
    clients.finish(pipe)
    return since_us
