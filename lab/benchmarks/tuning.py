"""The curves of docs/tuning.md: what five options cost and give, on this machine or with brokers of your own.

    python -m lab.benchmarks.tuning            five minutes; prints the tables
    python -m lab.benchmarks.tuning --keep     also writes them into docs/tuning.md, and the drawing

Each value is measured twice in turns with the others; the best counts. `KAFKA_BOOTSTRAP_SERVERS` takes your
brokers in place of a test broker.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from lab.benchmarks.chart import STYLE
from lab.benchmarks.lab import ROOT, Lab, load, save, to_noop
from lab.benchmarks.records import CODECS, Records
from lab.benchmarks.session import in_session
from lab.benchmarks.streaming import run_query

TURNS = 2
PAGE, DRAWING = ROOT / "docs" / "tuning.md", ROOT / "docs" / "tuning.svg"
BEGIN, END = "<!-- curve: {} -->\n", "<!-- end -->"
PANEL, HEIGHT, LEFT, BOTTOM = 430, 190, 16, 40


@dataclass(frozen=True)
class Curve:
    """One option: its values, and for each the figures that were measured."""

    option: str
    work: str
    values: Sequence[str]
    figures: Mapping[str, Sequence[float]]  # by what they count, with the unit

    def table(self) -> str:
        lines = [f"| `{self.option}` | {' | '.join(self.values)} |", "|---|" + "--:|" * len(self.values)]
        lines += [f"| {name} | {' | '.join(map(shown, row))} |" for name, row in self.figures.items()]
        return "\n".join(lines) + "\n"


def shown(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def best(values: Sequence[str], measure: Callable[[str], tuple[float, ...]]) -> list[tuple[float, ...]]:
    """The smallest figures of each value."""
    seen: dict[str, list[tuple[float, ...]]] = {value: [] for value in values}
    for _ in range(TURNS):
        for value in values:
            seen[value].append(measure(value))
    return [tuple(min(figure) for figure in zip(*each, strict=True)) for each in seen.values()]


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def tasks_of_a_partition(lab: Lab) -> Curve:
    records, values = Records(2_000_000, partitions=1), ("1", "2", "4", "8")
    with lab.topic_of(records) as topic:
        options = {**lab.reach, "subscribe": topic}
        to_noop(load(lab.spark, "pykafka", options))  # the workers have started

        def measure(value: str) -> tuple[float, ...]:
            return (timed(lambda: to_noop(load(lab.spark, "pykafka", {**options, "minPartitions": value}))),)

        found = best(values, measure)
    work = f"a batch read of {records.rows:,} records of 100 bytes in one partition, two cores"
    return Curve("minPartitions", work, values, {"seconds": [each[0] for each in found]})


def size_of_a_micro_batch(lab: Lab) -> Curve:
    records, values = Records(2_000_000), ("1000", "10000", "100000", "1000000")
    with lab.topic_of(records) as topic:

        def measure(value: str) -> tuple[float, ...]:
            options = {**lab.reach, "subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": value}
            batches = run_query(lab, "pykafka", options, at_most=min(20, records.rows // int(value)), give_up_s=60)
            took = [each["durationMs"]["triggerExecution"] for each in batches[1:]]
            rows = sum(each["numInputRows"] for each in batches[1:])
            return statistics.median(took), sum(took) * 1000 / rows

        found = best(values, measure)
    figures = {"ms of a micro-batch, median": [each[0] for each in found], "µs a record": [each[1] for each in found]}
    return Curve("maxOffsetsPerTrigger", "a stream that catches up, records of 100 bytes, two cores", values, figures)


def memory_of_a_worker(lab: Lab) -> Curve:
    records, values = Records(400_000, value_bytes=1_000), ("4m", "16m", "64m", "256m")
    with lab.topic_of(records) as topic:
        lab.stop_spark()
        arguments = {"servers": lab.servers, "topic": topic, "contestant": "pykafka", "records": vars(records)}

        def measure(value: str) -> tuple[float, ...]:
            answer = in_session(
                "lab.benchmarks.worker_memory:read", arguments={**arguments, "options": {"memoryBudget": value}}
            )
            return max(answer.peaks_mb["executor worker"]), answer.value

        found = best(values, measure)
    figures = {"peak of a worker, MB": [each[0] for each in found], "seconds": [each[1] for each in found]}
    return Curve("memoryBudget", f"a batch read of {records.rows:,} records of 1 kB in 4 partitions", values, figures)


def codecs(lab: Lab) -> Curve:
    records = Records(1_000_000)
    sizes: dict[str, float] = {}

    def measure(codec: str) -> tuple[float, ...]:
        topic = lab.new_topic(records.partitions)
        options = {**lab.reach, "topic": topic, "kafka.compression.type": codec}
        seconds = timed(lambda: save(records.frame(lab.spark), "pykafka", options))
        sizes[codec] = lab.size_mb(topic)
        lab.drop(topic)
        return (seconds,)

    measure("none")  # the workers have started
    found = best(CODECS, measure)
    figures = {"seconds": [each[0] for each in found], "MB in the topic": [sizes[codec] for codec in CODECS]}
    return Curve("kafka.compression.type", f"a batch write of {records.rows:,} records of 100 bytes", CODECS, figures)


def size_of_a_batch(lab: Lab) -> Curve:
    records, values = Records(2_000_000, partitions=20), ("16384", "65536", "262144", "1048576")

    def measure(value: str) -> tuple[float, ...]:
        topic = lab.new_topic(records.partitions)
        options = {**lab.reach, "topic": topic, "kafka.batch.size": value}
        seconds = timed(lambda: save(records.frame(lab.spark), "pykafka", options))
        lab.drop(topic)
        return (seconds,)

    measure(values[0])
    work = f"a batch write of {records.rows:,} records of 100 bytes to 20 partitions"
    return Curve("kafka.batch.size", work, values, {"seconds": [each[0] for each in best(values, measure)]})


CURVES: tuple[Callable[[Lab], Curve], ...] = (
    size_of_a_micro_batch,
    tasks_of_a_partition,
    size_of_a_batch,
    codecs,
    memory_of_a_worker,  # the last: it stops the session
)


def draw(curves: Sequence[Curve]) -> str:
    """A panel for each figure: its values as a line."""
    panels = [(curve, name, row) for curve in curves for name, row in curve.figures.items()]
    body = [
        _panel(f"{curve.option}: {name}", curve.values, row, number % 2 * PANEL, number // 2 * HEIGHT)
        for number, (curve, name, row) in enumerate(panels)
    ]
    height = -(-len(panels) // 2) * HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * PANEL} {height}" role="img" '
        f'aria-label="What five options cost and give">\n<style>{STYLE} polyline {{ fill: none; stroke: #2ea043; '
        f"stroke-width: 2 }} text {{ font-size: 12px }}</style>\n" + "\n".join(body) + "\n</svg>\n"
    )


def _panel(head: str, values: Sequence[str], row: Sequence[float], x: int, y: int) -> str:
    room_x, room_y = PANEL - 90, HEIGHT - BOTTOM - 50
    places = [
        (x + LEFT + 20 + room_x * number / (len(row) - 1), y + 44 + room_y * (1 - figure / max(row)))
        for number, figure in enumerate(row)
    ]
    line = " ".join(f"{at_x:.0f},{at_y:.0f}" for at_x, at_y in places)
    parts = [f'<text class="head" x="{x + LEFT}" y="{y + 18}">{escape(head)}</text>', f'<polyline points="{line}"/>']
    for (at_x, at_y), value, figure in zip(places, values, row, strict=True):
        parts.append(f'<circle class="ours" cx="{at_x:.0f}" cy="{at_y:.0f}" r="3"/>')
        parts.append(f'<text x="{at_x:.0f}" y="{at_y - 8:.0f}" text-anchor="middle">{shown(figure)}</text>')
        parts.append(
            f'<text class="quiet" x="{at_x:.0f}" y="{y + HEIGHT - 22}" text-anchor="middle">{escape(value)}</text>'
        )
    return "\n".join(parts)


def keep(curves: Sequence[Curve], page: Path = PAGE, drawing: Path = DRAWING) -> None:
    """Put each table into its place in the page, and draw all."""
    text = page.read_text()
    for curve in curves:
        begin = BEGIN.format(curve.option)
        before, rest = text.split(begin)
        text = before + begin + curve.table() + END + rest.split(END, 1)[1]
    page.write_text(text)
    drawing.write_text(draw(curves))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.tuning", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="write docs/tuning.md and docs/tuning.svg")
    arguments = parser.parse_args()
    curves: list[Any] = []
    with Lab() as lab:
        for measure in CURVES:
            curve = measure(lab)
            print(f"{curve.work}\n\n{curve.table()}", flush=True)
            curves.append(curve)
    if arguments.keep:
        keep(curves)


if __name__ == "__main__":
    main()
