"""One core, two cores, two executors: the same read and write in sessions of their own.

`local-cluster` has two executor processes of one core each, so rows pass between JVMs only where Spark makes them.
`without spark-conf/` shows what the recommended settings are worth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from lab.benchmarks.lab import Lab, load, save, to_noop
from lab.benchmarks.records import Records
from lab.benchmarks.results import SECONDS, Row
from lab.benchmarks.session import in_session
from lab.benchmarks.stages import Effort
from lab.benchmarks.turns import reason, take_turns, timed

TITLE = "cost as cores grow, each in a session of its own"
FORMATS = {"pykafka": "pykafka", "jvm": "kafka"}
MASTERS: tuple[tuple[str, str, dict[str, str] | None], ...] = (
    ("local[1]", "local[1]", None),
    ("local[2]", "local[2]", None),
    ("local[2] without spark-conf/", "local[2]", {}),
    ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]", None),
)


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    records = Records(effort.rows(2_000_000))
    with lab.topic_of(records) as topic:
        targets = {name: lab.new_topic(records.partitions) for name in FORMATS}
        lab.stop_spark()
        for name, master, settings in MASTERS:
            if effort.quick and settings is not None:
                continue
            arguments = {
                "servers": lab.servers,
                "topic": topic,
                "records": asdict(records),
                "turns": min(effort.turns, 3),
                "targets": targets,
            }
            try:
                answer = in_session("lab.benchmarks.cores:turns", master=master, settings=settings, arguments=arguments)
            except Exception as error:
                yield Row(f"on {name}", "pykafka", SECONDS, failure=reason(error))
                continue
            for work, results in answer.value.items():
                for contestant, (values, failure) in results.items():
                    yield Row(
                        f"{work} {records.name} on {name}",
                        contestant,
                        SECONDS,
                        tuple(values),
                        records.rows,
                        records.payload_bytes,
                        failure=failure,
                    )
        for target in targets.values():
            lab.drop(target)


def turns(
    spark: Any, servers: str, topic: str, targets: dict[str, str], records: dict[str, Any], turns: int
) -> dict[str, Any]:
    """In the session's process: reads, then writes, of both connectors in turns."""
    what = Records(**records)
    kafka = {"kafka.bootstrap.servers": servers}

    def reading(name: str) -> Any:
        options = {**kafka, "subscribe": topic, "startingOffsets": "earliest"}
        return timed(lambda: to_noop(load(spark, FORMATS[name], options)))

    def writing(name: str) -> Any:
        return timed(lambda: save(what.frame(spark), FORMATS[name], {**kafka, "topic": targets[name]}))

    answer = {}
    for work, make in (("read", reading), ("write", writing)):
        results = take_turns({name: make(name) for name in FORMATS}, turns)
        answer[work] = {name: (result.values, result.failure) for name, result in results.items()}
    return answer
