"""Batch reads: every column of every record of a topic, and one column alone, to Spark's noop sink."""

from __future__ import annotations

from collections.abc import Iterator

from lab.benchmarks.lab import Lab, load, to_noop
from lab.benchmarks.records import CODECS, Records
from lab.benchmarks.results import Row
from lab.benchmarks.stages import Effort, client_notes, client_runs, compare, plain, turns_of
from lab.benchmarks.turns import Run, timed

TITLE = "batch read, 4 partitions, all columns (but in the row that names one)"


def works(effort: Effort) -> list[Records]:
    codecs = ["lz4"] if effort.quick else CODECS[1:]
    return [
        Records(effort.rows(2_000_000)),
        *(Records(effort.rows(1_000_000), codec=codec) for codec in codecs),
        Records(effort.rows(500_000), value_bytes=1000),
        Records(effort.rows(50_000), value_bytes=10_000),
        Records(effort.rows(1_000_000), headers=2),
    ]


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    for records in works(effort):
        with lab.topic_of(records) as topic:
            contestants = readers(lab, topic, records) | {"pykafka columns=value": value_alone(lab, topic)}
            if plain(records):
                contestants["wire ceiling"] = wire_ceiling(lab, topic, records)
            contestants |= client_runs(
                "read",
                records,
                lambda topic=topic, records=records: {  # type: ignore[misc]
                    "servers": lab.servers,
                    "topic": topic,
                    "partitions": records.partitions,
                },
            )
            yield from compare(
                f"read {records.name}",
                contestants,
                turns_of(effort, records),
                records=records,
                notes=client_notes(records),
            )


def value_alone(lab: Lab, topic: str) -> Run:
    """Our read of one column."""
    options = {**lab.reach, "subscribe": topic, "startingOffsets": "earliest", "columns": "value"}
    return timed(lambda: to_noop(load(lab.spark, "pykafka", options)))


def wire_ceiling(lab: Lab, topic: str, records: Records) -> Run:
    options = {"servers": lab.servers, "topic": topic, "bytes": str(records.value_bytes)}
    return timed(lambda: to_noop(load(lab.spark, "wire_ceiling", options)))


def readers(lab: Lab, topic: str, records: Records) -> dict[str, Run]:
    """Spark's contestants. Each run loads anew, so planning is in the time."""
    kafka = {
        **lab.reach,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": str(bool(records.headers)).lower(),
    }
    ready = {
        "rows": str(records.rows),
        "bytes": str(records.value_bytes),
        "headers": str(records.headers),
        "partitions": str(records.partitions),
    }
    return {
        "pykafka": timed(lambda: to_noop(load(lab.spark, "pykafka", kafka))),
        "jvm": timed(lambda: to_noop(load(lab.spark, "kafka", kafka))),
        "ready-arrow": timed(lambda: to_noop(load(lab.spark, "ready_arrow", ready))),
    }
