"""Peak memory, processor time and disk reads of processes, as Linux counts them in /proc/PID/status, stat and io.

VmHWM is the largest resident set that a process ever had, shared libraries included, so a slow sampler misses only what
a process grew by in its last moments.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from types import TracebackType

MB = 1_000_000
INTERVAL_S = 0.1


def peak_bytes(pid: int) -> int:
    """VmHWM; 0 for a process that is gone, or not Linux's."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def disk_read_bytes(pid: int) -> int:
    """What the disk gave to this process: page cache misses. 0 where it cannot be known."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/io").read_text().splitlines():
            if line.startswith("read_bytes:"):
                return int(line.split()[1])
    return 0


def children() -> dict[int, list[int]]:
    """Process ids by parent."""
    found: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                stat = Path(entry.path, "stat").read_text()
                found.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    return found


def tree(root: int) -> list[int]:
    """`root` and all that descends from it."""
    by_parent, found = children(), [root]
    for pid in found:
        found.extend(by_parent.get(pid, ()))
    return found


def cpu_seconds(root: int) -> float:
    """Processor time that `root` and all that descends from it have used, those that ended and were waited for too."""
    ticks = 0
    for pid in tree(root):
        with contextlib.suppress(OSError, ValueError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))  # utime, stime, and both of the children that ended
    return ticks / os.sysconf("SC_CLK_TCK")


# What a process is, by a part of its command line; the first that fits.
KINDS = (
    ("org.apache.spark.launcher", "launcher"),
    ("kafka.Kafka", "broker JVM"),
    ("connect.mirror.MirrorMaker", "MirrorMaker JVM"),
    ("CoarseGrainedExecutorBackend", "executor JVM"),
    ("org.apache.spark.deploy.SparkSubmit", "Spark JVM"),
    ("pyspark.daemon pyspark.worker", "executor worker"),
    ("-m pyspark.", "planner"),
    ("-m benchmarks", "driver"),
    ("-m kafkasource mirror", "driver"),
)


def kind(pid: int) -> str:
    """What a process is; "other" for shells and what else there is."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "other"
    line = " ".join(words)
    known = "java" in words[0] or "python" in words[0]
    return next((name for part, name in KINDS if part in line), "other") if known else "other"


class PeakMemory:
    """A `with` block during which the processes that descend from `root` are watched by a thread."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._peaks: dict[int, tuple[str, int]] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak-memory", daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def by_kind(self) -> dict[str, list[float]]:
        """Peaks in MB of the processes of each kind, largest first."""
        found: dict[str, list[float]] = {}
        for name, peak in self._peaks.values():
            found.setdefault(name, []).append(peak / MB)
        return {name: sorted(peaks, reverse=True) for name, peaks in sorted(found.items())}

    def _watch(self) -> None:
        while True:
            for pid in tree(self._root):
                peak = peak_bytes(pid)
                if peak:  # the last word on what it is: a shell becomes a JVM
                    self._peaks[pid] = (kind(pid), peak)
            if self._done.wait(INTERVAL_S):
                return
