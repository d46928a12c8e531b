"""What a contestant's processes use: processor time and memory of the whole tree, as Linux counts them in /proc.

Memory is the sum of PSS (/proc/PID/smaps_rollup): pages that processes share, as Spark's forked Python workers do, are
counted once. `watching` samples it, so a peak of less than the interval can be missed, for all contestants alike.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from lab.benchmarks.processes import MB, kind


def pss_bytes(pid: int) -> int:
    """0 for a process that is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


class TreeMemory:
    """The peak of what the whole tree uses at once."""

    interval_s = 0.25

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self.parts_mb: dict[str, float] = {}  # by kind of process, at the moment of the peak

    def look(self, pids: list[int]) -> None:
        sizes = [(kind(pid), pss_bytes(pid) / MB) for pid in pids]
        total = sum(size for _, size in sizes)
        if total > self.peak_mb:
            parts: dict[str, float] = {}
            for name, size in sizes:
                parts[name] = parts.get(name, 0.0) + size
            self.peak_mb, self.parts_mb = total, parts
