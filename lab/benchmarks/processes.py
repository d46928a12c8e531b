"""Peak memory, processor time and disk reads of processes, as Linux counts them in /proc/PID/status, stat and io.

VmHWM is the largest resident set that a process ever had, shared libraries included, so a slow sampler misses only what
a process grew by in its last moments.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeVar

MB = 1_000_000
AnyWatcher = TypeVar("AnyWatcher", bound="Watcher")


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
    return sum(sum(_seconds(pid)) for pid in tree(root))


def own_cpu_seconds(pid: int) -> float:
    """Processor time of this process alone; 0 for one that is gone."""
    return sum(_seconds(pid)[:2])


def _seconds(pid: int) -> list[float]:
    """utime, stime, and both of the children that ended and were waited for; nothing of a process that is gone."""
    with contextlib.suppress(OSError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return [int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in fields[11:15]]
    return []


SPARK_JVM = "Spark JVM"

# What a process is, by a part of its command line; the first that fits.
KINDS = (
    ("org.apache.spark.launcher", "launcher"),
    ("kafka.Kafka", "broker JVM"),
    ("connect.mirror.MirrorMaker", "MirrorMaker JVM"),
    ("CoarseGrainedExecutorBackend", "executor JVM"),
    ("org.apache.spark.deploy.SparkSubmit", SPARK_JVM),
    ("spark.daemon pyspark.worker", "executor worker"),  # PySpark's daemon or ours
    ("spark.daemon pyspark.", "planner"),
    ("-m pyspark.", "planner"),
    ("-m lab.benchmarks.soak.tasks", "executor worker"),
    ("-m lab.benchmarks", "driver"),
    ("-m kafkasource mirror", "driver"),
)

OTHER = "other"  # also shells


def kind(pid: int, before: str = OTHER) -> str:
    """Tell what a process is. `before`: the last answer, because a process that ends loses its command line."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return before
    line = " ".join(words)
    known = "java" in words[0] or "python" in words[0]
    return next((name for part, name in KINDS if part in line), before) if known else before


class Watcher(Protocol):
    """Looks at processes again and again, in a thread of `watching`."""

    interval_s: float

    def look(self, pids: list[int]) -> None: ...


@contextlib.contextmanager
def watching(root: int, watcher: AnyWatcher) -> Iterator[AnyWatcher]:
    """For the time of the block a thread shows `root` and all that descends from it to the watcher; at once first."""
    done = threading.Event()

    def watch() -> None:
        while True:
            watcher.look(tree(root))
            if done.wait(watcher.interval_s):
                return

    thread = threading.Thread(target=watch, name=type(watcher).__name__, daemon=True)
    thread.start()
    try:
        yield watcher
    finally:
        done.set()
        thread.join()


class PeakMemory:
    """The peak of each process, by what it is."""

    interval_s = 0.1

    def __init__(self) -> None:
        self._peaks: dict[int, tuple[str, int]] = {}

    def by_kind(self) -> dict[str, list[float]]:
        """Peaks in MB of the processes of each kind, largest first."""
        found: dict[str, list[float]] = {}
        for name, peak in self._peaks.values():
            found.setdefault(name, []).append(peak / MB)
        return {name: sorted(peaks, reverse=True) for name, peaks in sorted(found.items())}

    def look(self, pids: list[int]) -> None:
        for pid in pids:
            peak = peak_bytes(pid)
            if peak:  # the last word on what it is: a shell becomes a JVM
                self._peaks[pid] = (kind(pid, self._peaks.get(pid, (OTHER, 0))[0]), peak)


class CpuByKind:
    """The processor time of each process, by what it is, also of those that end in between.

    Spark's daemons let the system forget the times of their children, so a look now and then is all there is.
    """

    interval_s = 0.2

    def __init__(self) -> None:
        self._used: dict[int, tuple[str, float]] = {}

    def now(self, root: int) -> dict[str, float]:
        """Seconds of the processes of each kind, since they began: of `root` and all that descends from it."""
        self.look(tree(root))
        found: dict[str, float] = {}
        for name, seconds in list(self._used.values()):
            found[name] = found.get(name, 0.0) + seconds
        return found

    def look(self, pids: list[int]) -> None:
        for pid in pids:
            seconds = own_cpu_seconds(pid)
            if seconds:
                self._used[pid] = (kind(pid, self._used.get(pid, (OTHER, 0.0))[0]), seconds)
