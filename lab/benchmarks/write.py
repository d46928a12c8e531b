"""Batch writes: a DataFrame that computes its rows, to a new topic each time.

`rows alone` is what making the rows costs (noop sink); it is inside every Spark contestant's time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lab.benchmarks.lab import Lab, save, to_noop
from lab.benchmarks.records import CODECS, Records
from lab.benchmarks.results import Row
from lab.benchmarks.stages import Effort, client_notes, client_runs, compare, plain, turns_of
from lab.benchmarks.turns import Run, timed

TITLE = "batch write, 4 partitions, keyed, acks=all, idempotent"

# What a user of the JVM connector can do about its small batches.
TUNED = {"kafka.batch.size": "262144", "kafka.linger.ms": "20"}


def works(effort: Effort) -> list[Records]:
    codecs = ["lz4"] if effort.quick else CODECS[1:]
    return [
        Records(effort.rows(1_000_000)),
        *(Records(effort.rows(500_000), codec=codec) for codec in codecs),
        Records(effort.rows(300_000), value_bytes=1000),
        Records(effort.rows(30_000), value_bytes=10_000),
        Records(effort.rows(500_000), headers=2),
    ]


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    for records in works(effort):
        topics = Topics(lab, records.partitions)
        contestants = writers(lab, records, topics.new)
        if plain(records):
            contestants["wire ceiling"] = wire_ceiling(lab, records, topics.new)
        contestants |= client_runs(
            "write",
            records,
            lambda topics=topics, records=records: {  # type: ignore[misc]
                "servers": lab.servers,
                "topic": topics.new(),
                "value_bytes": records.value_bytes,
                "codec": records.codec,
                "headers": records.headers,
            },
        )
        yield from compare(
            f"write {records.name}",
            contestants,
            turns_of(effort, records),
            records=records,
            notes=client_notes(records),
        )
        topics.drop()


class Topics:
    """The topics of one piece of work: a new one each time, the last dropped before (its disk space is given back)."""

    def __init__(self, lab: Lab, partitions: int) -> None:
        self._lab, self._partitions = lab, partitions
        self._last: str | None = None

    def new(self) -> str:
        self.drop()
        self._last = self._lab.new_topic(self._partitions)
        return self._last

    def drop(self) -> None:
        if self._last is not None:
            self._lab.drop(self._last)
            self._last = None


def writers(lab: Lab, records: Records, new_topic: Callable[[], str]) -> dict[str, Run]:
    """Spark's contestants; making the topic is not in the time. Tuned means lz4 too, where no codec is asked for."""
    codec = {} if records.codec == "none" else {"kafka.compression.type": records.codec}
    reach = lab.reach
    tuned = {**TUNED, "kafka.compression.type": "lz4" if records.codec == "none" else records.codec}

    def kafka(name: str, options: dict[str, str]) -> Run:
        def run() -> float:
            frame, topic = records.frame(lab.spark), new_topic()
            return timed(lambda: save(frame, name, {**reach, "topic": topic, **options}))()

        return run

    return {
        "pykafka": kafka("pykafka", codec),
        "jvm": kafka("kafka", codec),
        "jvm tuned": kafka("kafka", tuned),
        "ready-arrow": timed(lambda: save(records.frame(lab.spark), "ready_arrow", {})),
        "rows alone": timed(lambda: to_noop(records.frame(lab.spark))),
    }


def wire_ceiling(lab: Lab, records: Records, new_topic: Callable[[], str]) -> Run:
    def run() -> float:
        frame, topic = records.frame(lab.spark), new_topic()
        options = {"servers": lab.servers, "topic": topic, "bytes": str(records.value_bytes)}
        return timed(lambda: save(frame, "wire_ceiling", options))()

    return run
