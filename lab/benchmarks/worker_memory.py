"""Peak memory of every process, by the size of what one task reads: it should not depend on it.

Each row is a session of its own, so that a peak belongs to one contestant; one partition, so one task has it all.
VmHWM counts what a process shares with others too: Python with pyarrow and pandas imported is some 120 MB of it,
which is what ready-made Arrow batches show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from lab.benchmarks import clients
from lab.benchmarks.lab import Lab, load, save, to_noop
from lab.benchmarks.processes import PeakMemory, watching
from lab.benchmarks.records import Records
from lab.benchmarks.results import PEAK, Row
from lab.benchmarks.session import in_session
from lab.benchmarks.stages import Effort
from lab.benchmarks.turns import reason

TITLE = "peak memory of every process, one partition, one task"
MIB = 1 << 20


@dataclass(frozen=True)
class Work:
    name: str
    records: Records
    options: dict[str, str] = field(default_factory=dict)
    contestants: tuple[str, ...] = ("pykafka", "jvm", "ready-arrow")


def works() -> list[Work]:
    """The same in a quick run: what is proved is that large is no more than small."""
    small, large = (Records(rows, value_bytes=1000, partitions=1) for rows in (300_000, 1_500_000))
    both = ("pykafka", "jvm")
    little = {"kafka.max.partition.fetch.bytes": "65536"}
    return [
        Work("read 300 MB partition", small, contestants=(*both, "ready-arrow", "confluent-kafka")),
        Work("read 1.5 GB partition", large, contestants=both),
        Work("read 1 MiB records", Records(300, value_bytes=MIB, partitions=1), contestants=both),
        Work("read 300 MB partition, max.partition.fetch.bytes=65536", small, little, both),
    ]


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    for work in works():
        with lab.topic_of(work.records) as topic:
            lab.stop_spark()
            for contestant in work.contestants:
                if effort.quick and contestant != "pykafka":
                    continue
                yield from _read(lab, work, topic, contestant)
    records = Records(300_000, value_bytes=1000, partitions=1)
    for contestant in ("pykafka",) if effort.quick else ("pykafka", "jvm"):
        topic = lab.new_topic(1)
        yield from _rows(
            "write 300 MB",
            contestant,
            "lab.benchmarks.worker_memory:write",
            _arguments(lab, records, topic, contestant, {}),
        )
        lab.drop(topic)


def _read(lab: Lab, work: Work, topic: str, contestant: str) -> Iterator[Row]:
    if contestant == "confluent-kafka":
        yield _client(lab, work, topic)
        return
    arguments = _arguments(lab, work.records, topic, contestant, work.options)
    yield from _rows(work.name, contestant, "lab.benchmarks.worker_memory:read", arguments)


def _arguments(lab: Lab, records: Records, topic: str, contestant: str, options: dict[str, str]) -> dict[str, Any]:
    return {
        "servers": lab.servers,
        "topic": topic,
        "contestant": contestant,
        "options": options,
        "records": asdict(records),
    }


def _rows(work: str, contestant: str, task: str, arguments: dict[str, Any]) -> Iterator[Row]:
    try:
        answer = in_session(task, arguments=arguments)
    except Exception as error:
        yield Row(work, f"{contestant} worker", PEAK, failure=reason(error))
        return
    names = {"executor worker": "worker", "Spark JVM": "JVM", "planner": "planner"}
    for kind, name in names.items():
        if peaks := answer.peaks_mb.get(kind):
            yield Row(work, f"{contestant} {name}", PEAK, (peaks[0],), note=f"{answer.value:.1f} s")


def _client(lab: Lab, work: Work, topic: str) -> Row:
    process = clients.start(
        "read", "confluent-kafka", servers=lab.servers, topic=topic, partitions=1, records=work.records.rows
    )
    with watching(process.pid, PeakMemory()) as memory:
        try:
            clients.finish(process)
        except clients.ClientFailed as error:
            return Row(work.name, "confluent-kafka", PEAK, failure=reason(error))
    return Row(work.name, "confluent-kafka", PEAK, (max(max(each) for each in memory.by_kind().values()),))


def read(
    spark: Any, servers: str, topic: str, contestant: str, options: dict[str, str], records: dict[str, Any]
) -> float:
    """In the session's process: read it twice; gives the second time in seconds."""
    what = Records(**records)
    if contestant == "ready-arrow":
        given = {"rows": str(what.rows), "bytes": str(what.value_bytes), "partitions": "1"}
        frames = [load(spark, "ready_arrow", given) for _ in range(2)]
    else:
        given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest", **options}
        frames = [load(spark, "kafka" if contestant == "jvm" else contestant, given) for _ in range(2)]
    return _last(lambda frame: to_noop(frame), frames)


def write(
    spark: Any, servers: str, topic: str, contestant: str, options: dict[str, str], records: dict[str, Any]
) -> float:
    """In the session's process: write them twice, by one task."""
    given = {"kafka.bootstrap.servers": servers, "topic": topic, **options}
    name = "kafka" if contestant == "jvm" else contestant
    frames = [Records(**records).frame(spark, tasks=1) for _ in range(2)]
    return _last(lambda frame: save(frame, name, given), frames)


def _last(action: Any, frames: list[Any]) -> float:
    import time

    seconds = 0.0
    for frame in frames:
        started = time.perf_counter()
        action(frame)
        seconds = time.perf_counter() - started
    return seconds
