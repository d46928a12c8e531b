"""A run as an SVG chart for the README, written by hand: bars of rates, and of milliseconds for micro-batches.

Plain shapes and one style sheet that follows the reader's light or dark theme; no library.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from lab.benchmarks.results import OURS, SECONDS, TRIGGER, Row, Run

WIDTH, LABEL, BAR, GAP, VALUE = 860, 250, 18, 4, 130
STYLE = """
svg { background: #fff } text { font: 13px system-ui, sans-serif; fill: #1f2328 } .head { font-weight: 600 }
.quiet { fill: #59636e } .bar { fill: #afb8c1 } .ours { fill: #1a7f37 } .ceiling { fill: #d0d7de }
@media (prefers-color-scheme: dark) { svg { background: #161b22 } text { fill: #e6edf3 } .quiet { fill: #9198a1 }
.bar { fill: #57606a } .ours { fill: #3fb950 } .ceiling { fill: #373e47 } }
"""

# What the README shows: (stage, work, heading).
PANELS = (
    ("read", "read 100 B none", "batch read, 100-byte records"),
    ("read", "read 1 kB none", "batch read, 1 kB records"),
    ("write", "write 100 B none", "batch write, 100-byte records"),
    ("streaming", "micro-batch of 4,000 rows", "micro-batch of 4,000 rows, median"),
)
LABELS = {
    OURS: "pykafka (this connector)",
    "jvm": "Spark's JVM connector",
    "jvm tuned": "Spark's JVM connector, tuned",
    "ready-arrow": "ready-made Arrow (ceiling)",
    "ready-arrow, 4 tasks": "ready-made Arrow, 4 tasks",
    "ready-arrow, 1 task": "ready-made Arrow, 1 task",
    "confluent-kafka": "confluent-kafka, tuned",
}


@dataclass(frozen=True)
class Bar:
    label: str
    style: str
    value: float
    text: str


def bars(rows: list[Row]) -> Iterator[Bar]:
    """One for each contestant that measured something."""
    for row in rows:
        best = row.headline
        if not best or row.contestant == "rows alone":
            continue
        style = "ours" if row.contestant == OURS else "ceiling" if row.contestant.startswith("ready") else "bar"
        label = LABELS.get(row.contestant, row.contestant)
        if row.measure == SECONDS and row.records:
            rate = row.records / best / 1e6
            yield Bar(label, style, rate, f"{rate:.2f} M rows/s")
        elif row.measure == TRIGGER:
            yield Bar(label, style, best, f"{best:.0f} ms")


def draw(run: Run) -> str:
    body, y = [], 8
    for stage_name, work, heading in PANELS:
        stage = run.stage(stage_name)
        found = list(bars([row for row in stage.rows if row.work == work])) if stage else []
        if not found:
            continue
        better = "less is better" if "micro-batch" in work else "more is better"
        y += 20
        body.append(f'<text class="head" x="8" y="{y}">{escape(heading)}</text>')
        body.append(f'<text class="quiet" x="{WIDTH - 8}" y="{y}" text-anchor="end">{better}</text>')
        y += 8
        longest = max(bar.value for bar in found)
        for bar in found:
            width = max(1.0, bar.value / longest * (WIDTH - LABEL - VALUE))
            body.append(f'<text x="{LABEL - 8}" y="{y + 13}" text-anchor="end">{escape(bar.label)}</text>')
            body.append(f'<rect class="{bar.style}" x="{LABEL}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>')
            body.append(f'<text x="{LABEL + width + 6:.1f}" y="{y + 13}">{escape(bar.text)}</text>')
            y += BAR + GAP
    about = (
        f"{run.date}, {run.machine.get('cores', '?')} cores ({run.machine.get('cpu', '?')}), broker on the same machine"
    )
    y += 22
    body.append(f'<text class="quiet" x="8" y="{y}">{escape(about)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 10}" role="img" '
        f'aria-label="Benchmarks of kafkasource">\n<style>{STYLE}</style>\n' + "\n".join(body) + "\n</svg>\n"
    )
