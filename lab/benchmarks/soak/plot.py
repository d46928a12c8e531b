"""The samples of a soak as one SVG: a panel for each number, a line for each process. Plain shapes, no library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape

from lab.benchmarks.chart import STYLE
from lab.benchmarks.soak.sampler import Sample
from lab.benchmarks.soak.slopes import ALL_TOGETHER, BROKERS, Point, blocks, lasting, series, unit_of

WIDTH, PANEL, LEFT, RIGHT, TOP = 1000, 150, 70, 290, 26
POINTS = 120  # of a line: medians of as many spans
COLOURS = ("#0969da", "#1a7f37", "#9a6700", "#cf222e", "#8250df", "#bf3989", "#1b7c83", "#57606a")
MIB = 1 << 20
PANELS = ("pss_bytes", "rss_bytes", "live_heap_bytes", "fds", "threads", "processes")

GROUPS: dict[str, Callable[[str], bool]] = {
    "applications": lambda process: process == ALL_TOGETHER,
    "JVMs": lambda process: "JVM" in process,
    "Python processes": lambda process: process != ALL_TOGETHER and "JVM" not in process,
}
"""Each with a scale of its own."""


def draw(samples: Sequence[Sample]) -> str:
    """Panels of `PANELS`, then one for each gauge that changes at all. Without brokers, and processes of moments."""
    found = {name: points for name, points in lasting(series(samples)).items() if not name[0].startswith(BROKERS)}
    gauges = sorted({name for _, _, name in found} - set(PANELS))
    changing = [each for each in gauges if any(len({y for _, y in found[n]}) > 1 for n in found if n[2] == each)]
    end_s = max((points[-1][0] for points in found.values()), default=1.0)
    body, y = list[str](), 0
    for panel in (*PANELS, *changing):
        for group, fits in GROUPS.items():
            lines = {
                f"{app}: {process}": points
                for (app, process, name), points in found.items()
                if name == panel and fits(process)
            }
            if lines:
                body.append(_panel(panel, group, lines, y, end_s))
                y += PANEL + TOP + max(0, len(lines) - PANEL // 13) * 13
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 10}" role="img" '
        f'aria-label="Processes of a soak">\n<style>{STYLE} text {{ font-size: 11px }}</style>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _panel(name: str, group: str, lines: dict[str, list[Point]], y: int, end_s: float) -> str:
    scale = MIB if unit_of(name) == "bytes" else 1
    most = max(value for points in lines.values() for _, value in points) / scale or 1.0
    bottom = y + TOP + PANEL - 20
    height = PANEL - 24
    title = f"{name.removesuffix('_bytes')}{' (MiB)' if scale == MIB else ''}, {group}"
    parts = [
        f'<text class="head" x="8" y="{y + 16}">{escape(title)}</text>',
        f'<text class="quiet" x="{LEFT - 6}" y="{bottom - height + 8}" text-anchor="end">{most:,.0f}</text>',
        f'<text class="quiet" x="{LEFT - 6}" y="{bottom}" text-anchor="end">0</text>',
        f'<text class="quiet" x="{WIDTH - RIGHT}" y="{bottom + 13}" text-anchor="end">{end_s / 60:.0f} min</text>',
        f'<path d="M{LEFT} {bottom - height}V{bottom}H{WIDTH - RIGHT}" fill="none" stroke="#afb8c1"/>',
    ]
    for number, (label, points) in enumerate(sorted(lines.items())):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(
            f"{LEFT + t / end_s * (WIDTH - LEFT - RIGHT):.1f},{bottom - value / scale / most * height:.1f}"
            for t, value in blocks(points, POINTS)
        )
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.2"/>')
        last = points[-1][1] / scale
        parts.append(
            f'<text x="{WIDTH - RIGHT + 8}" y="{y + TOP + 13 * number}" fill="{colour}" style="fill:{colour}">'
            f"{escape(label)}: {last:,.1f}</text>"
        )
    return "\n".join(parts)
