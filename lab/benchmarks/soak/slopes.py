"""Is it a leak? Pure functions over samples.

A series is one number of one process over time. How it is judged:

1. The first `WARM_UP_S` do not count: code is compiled, pools and caches fill.
2. What is left is cut into `BLOCKS` blocks of equal time, and each becomes the median of its values. So a spike of one
   sample counts nothing, and neighbouring samples, which resemble each other, do not pass for independent ones.
3. The slope is the Theil-Sen estimate: the median of the slopes between all pairs of blocks. Its interval is Sen's,
   from Kendall's statistic, which assumes no distribution; at 99 %, because a run has a hundred series.
4. A leak is a slope that would be too much after a day (`A_DAY`), that adds more than one step of an allocator within
   the run (`STEP_BYTES`), whose interval lies above zero, and for which all of this holds in the second half of the
   time alone as well: what settles is no leak.
5. What the control has as well (Spark's JVM, the driver's Python, the sums of an application) is judged by what there
   is beyond the control's at each moment: a job without our code grows that much by itself.
6. A JVM is judged by what it accounts for, `live_heap_bytes` and `native_total_bytes`. We have no native code there,
   so what our code can make it keep (objects, direct memory, threads, classes) is among these. Its resident set has
   what the C library's malloc keeps for all threads as well.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

from lab.benchmarks.processes import SPARK_JVM
from lab.benchmarks.soak.sampler import Sample

WARM_UP_S = 600.0
SHORTEST_S = 1200.0  # a process that was judged for less than this is not called leaking
BLOCKS = 24
Z = 2.576  # 99 %
DAY_S = 86_400.0
MIB = 1 << 20

A_DAY = {"bytes": 64.0 * MIB, "blocks": 1_000_000.0, "count": 24.0}
"""The growth of one process in a day that is too much: what a worker would notice after weeks. A block of Python's
memory has some 64 bytes."""

STEP_BYTES = 8.0 * MIB
"""What an allocator may take or give back at once, so no slope: the buffer of a fetch by the default `readAhead`."""

NOT_JUDGED = ("t_s", "pid", "cpu_s", "heap_bytes", "app", "kind")
NOT_JUDGED_OF_A_JVM = ("rss_bytes", "pss_bytes")
NOT_JUDGED_GAUGES = ("kafkasource_memory_peak_bytes", "kafkasource_memory_limit_bytes", "kafka_")
BROKERS = "broker"
CONTROL_APP = "control"
ALL_TOGETHER = "all together"
KAFKAS, SPARKS, TOO_SHORT = "Kafka's own", "Spark's own", "too short"

Point = tuple[float, float]
Name = tuple[str, str, str]
"""Of a series: application, process, what is measured."""


@dataclass(frozen=True)
class Slope:
    """Growth a second, with the interval in which it lies at 99 %."""

    per_s: float
    low: float
    high: float


@dataclass(frozen=True)
class Verdict:
    app: str
    process: str  # what it is, and its pid; or "all together"
    series: str
    points: int
    judged_s: float
    median: float
    slope: Slope
    leak: bool
    note: str = ""  # why it is not judged: KAFKAS, SPARKS or TOO_SHORT
    beyond_control: bool = False  # the slope is that of the difference with the control


def slope_of(points: Sequence[Point]) -> Slope:
    """Theil-Sen with Sen's interval. Fewer than two points have no slope: 0, within everything."""
    slopes = sorted((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 > x1)
    if not slopes:
        return Slope(0.0, float("-inf"), float("inf"))
    n = len(points)
    reach = Z * sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low, high = round((len(slopes) - reach) / 2), round((len(slopes) + reach) / 2)
    return Slope(
        statistics.median(slopes),
        slopes[low] if low >= 0 else float("-inf"),
        slopes[high] if high < len(slopes) else float("inf"),
    )


def blocks(points: Sequence[Point], count: int = BLOCKS) -> list[Point]:
    """The medians of times and values of `count` spans of equal time; spans without points are left out."""
    if not points:
        return []
    begin, end = points[0][0], points[-1][0]
    width = (end - begin) / count or 1.0
    spans: dict[int, list[Point]] = {}
    for point in points:
        spans.setdefault(min(count - 1, int((point[0] - begin) / width)), []).append(point)
    return [
        (statistics.median(x for x, _ in span), statistics.median(y for _, y in span))
        for _, span in sorted(spans.items())
    ]


def too_much(slope: Slope, unit: str, run_s: float) -> bool:
    """`run_s`: how long the run was judged, of which the slope may be that of the second half."""
    step = STEP_BYTES if unit == "bytes" else 0.0
    return slope.low > 0 and slope.per_s * DAY_S > A_DAY[unit] and slope.per_s * run_s > step


def unit_of(series: str) -> str:
    if series.endswith("python_blocks"):
        return "blocks"
    return "bytes" if "_bytes" in series else "count"


def judge(samples: Iterable[Sample], warm_up_s: float = WARM_UP_S) -> list[Verdict]:
    """Of each series of each process that lived for long enough to be looked at: see `lasting`."""
    judged = {
        (app, process, name): [point for point in points if point[0] >= warm_up_s]
        for (app, process, name), points in series(samples).items()
        if kind_of(process) != SPARK_JVM or name not in NOT_JUDGED_OF_A_JVM
    }
    kept = lasting(judged)
    control = {(kind_of(process), name): points for (app, process, name), points in kept.items() if app == CONTROL_APP}
    return [
        verdict(app, process, name, points, None if _not_ours(app) else control.get((kind_of(process), name)))
        for (app, process, name), points in sorted(kept.items())
    ]


def kind_of(process: str) -> str:
    """Of a process as it is named here: without its pid."""
    return process if process == ALL_TOGETHER else process.rpartition(" ")[0]


def beyond(points: Sequence[Point], control: Sequence[Point]) -> list[Point]:
    """What there is more than in the control, where both were sampled. All of an application are, at one moment."""
    at = dict(control)
    return [(t, value - at[t]) for t, value in points if t in at]


def lasting(found: Mapping[Name, list[Point]]) -> dict[Name, list[Point]]:
    """Without the processes that lived for less than a fifth of the time, as the one that Spark starts to commit a
    micro-batch: what they leave behind shows in the sums of their application, and in others' series."""
    all_s = [t for points in found.values() for t, _ in points]
    least_s = (max(all_s) - min(all_s)) / 5 if all_s else 0.0
    return {
        name: points for name, points in found.items() if len(points) > 1 and points[-1][0] - points[0][0] >= least_s
    }


def series(samples: Iterable[Sample]) -> dict[Name, list[Point]]:
    """The points of each series."""
    found: dict[Name, list[Point]] = {}
    for sample in samples:
        if sample["app"] == "traffic":
            continue
        process = f"{sample['kind']} {sample['pid']}" if "pid" in sample else ALL_TOGETHER
        for name, value in sample.items():
            if name not in NOT_JUDGED and not name.startswith(NOT_JUDGED_GAUGES):
                found.setdefault((str(sample["app"]), process, name), []).append((float(sample["t_s"]), float(value)))
    return found


def verdict(
    app: str, process: str, name: str, points: Sequence[Point], control: Sequence[Point] | None = None
) -> Verdict:
    """`control`: the same series of the control, where what lies beyond it is judged."""
    judged = points if control is None else beyond(points, control)
    first_s, last_s = (judged[0][0], judged[-1][0]) if judged else (0.0, 0.0)
    lasted_s, middle = last_s - first_s, (first_s + last_s) / 2
    whole = slope_of(blocks(judged))
    second = slope_of(blocks([point for point in judged if point[0] >= middle], BLOCKS // 2))
    unit = unit_of(name)
    note = _not_ours(app) or (TOO_SHORT if lasted_s < SHORTEST_S else "")
    leak = not note and too_much(whole, unit, lasted_s) and too_much(second, unit, lasted_s)
    median = statistics.median(y for _, y in points)
    return Verdict(app, process, name, len(points), lasted_s, median, whole, leak, note, control is not None)


def _not_ours(app: str) -> str:
    """Whose growth that of an application is, where it is not judged; else nothing."""
    if app.startswith(BROKERS):
        return KAFKAS
    return SPARKS if app == CONTROL_APP else ""
