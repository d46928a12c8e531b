"""What a contestant's processes use: processor time and memory of the whole tree, as Linux counts them in /proc.

Memory is the sum of PSS (/proc/PID/smaps_rollup): pages that processes share, as Spark's forked Python workers do, are
counted once. A thread samples it, so a peak of less than the interval can be missed, for all contestants alike.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from types import TracebackType

from benchmarks.processes import MB, kind, tree

INTERVAL_S = 0.25


def pss_bytes(pid: int) -> int:
    """0 for a process that is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


class TreeMemory:
    """A `with` block during which `root` and all that descends from it are watched."""

    def __init__(self, root: int) -> None:
        self._root = root
        self.peak_mb = 0.0
        self.parts_mb: dict[str, float] = {}  # by kind of process, at the moment of the peak
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tree-memory", daemon=True)

    def __enter__(self) -> TreeMemory:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(INTERVAL_S):
            sizes = [(kind(pid), pss_bytes(pid) / MB) for pid in tree(self._root)]
            total = sum(size for _, size in sizes)
            if total > self.peak_mb:
                parts: dict[str, float] = {}
                for name, size in sizes:
                    parts[name] = parts.get(name, 0.0) + size
                self.peak_mb, self.parts_mb = total, parts
