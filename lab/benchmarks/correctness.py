"""Two million records through every codec: exactly the rows that confluent-kafka sees.

Two writers fill each topic, for two sets of encoders: this connector's sink, and confluent-kafka (a tenth), with null
and empty keys and values. Both readers then give, per partition and ten thousand offsets, the number of rows and the
sum of the CRC32 of (partition, offset, key, value). A figure that differs is a wrong, lost or repeated row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lab.benchmarks import clients
from lab.benchmarks.lab import Lab, load
from lab.benchmarks.records import CODECS, Records
from lab.benchmarks.results import DIFFERENCES, Row
from lab.benchmarks.stages import Effort

TITLE = "2 million records, every codec, compared with what confluent-kafka reads"
PARTITIONS = 4


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    rows = effort.rows(2_000_000)
    total = 0
    for codec in CODECS:
        differing, compared = compare_codec(lab, codec, rows)
        total += differing
        yield Row(codec, "pykafka", DIFFERENCES, (float(differing),), note=f"{compared:,} rows compared")
    yield Row("all codecs", "pykafka", DIFFERENCES, (float(total),))
    if total:
        raise AssertionError(f"{total} rows differ from what confluent-kafka reads")


def compare_codec(lab: Lab, codec: str, rows: int) -> tuple[int, int]:
    """How many rows lie in groups that differ, and how many rows the other client sees."""
    topic = lab.new_topic(PARTITIONS)
    lab.fill(topic, Records(rows - rows // 10).frame(lab.spark), codec)
    clients.run("fill", "confluent-kafka", servers=lab.servers, topic=topic, records=rows // 10, codec=codec)
    theirs = {
        key: tuple(value)
        for key, value in clients.run(
            "checksums", "confluent-kafka", servers=lab.servers, topic=topic, partitions=PARTITIONS
        )["sums"].items()
    }
    ours = checksums(lab, topic)
    lab.drop(topic)
    differing = [key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key)]
    worst = sum(max(theirs.get(key, (0, 0))[0], ours.get(key, (0, 0))[0]) for key in differing)
    seen = sum(count for count, _ in theirs.values())
    return worst + abs(seen - rows), seen


def checksums(lab: Lab, topic: str) -> dict[str, tuple[int, int]]:
    """The same as `clients.checksums`, by Spark over this connector's rows."""
    frame: Any = load(
        lab.spark,
        "pykafka",
        {"kafka.bootstrap.servers": lab.servers, "subscribe": topic, "startingOffsets": "earliest"},
    )
    text = (
        "concat(encode(concat(partition, ':', offset, ':'), 'UTF-8'),"
        " coalesce(concat(encode('=', 'UTF-8'), key), encode('null', 'UTF-8')),"
        " coalesce(concat(encode('=', 'UTF-8'), value), encode(':null', 'UTF-8')))"
    )
    grouped = frame.selectExpr("concat(partition, ':', offset DIV 10000) AS bucket", f"crc32({text}) AS crc")
    sums = grouped.groupBy("bucket").agg({"*": "count", "crc": "sum"}).collect()
    return {row["bucket"]: (int(row["count(1)"]), int(row["sum(crc)"])) for row in sums}
