"""Samples of every process of a soak: a line of JSON for each process and each moment.

    t_s, app, pid, kind      seconds since the start; which application; what the process is
    rss_bytes, pss_bytes     resident set; the same with shared pages divided among the processes that share them
    fds, threads, cpu_s      open descriptors, threads, processor time so far
    heap_bytes               of a JVM: the heap in use after its last garbage collection
    live_heap_bytes          of a JVM: the heap in use after its last full collection, which nothing dead is part of
    native_<part>_bytes      of a JVM: what it has committed by its own account (-XX:NativeMemoryTracking=summary), each
                             time that its heap was collected; the resident set beyond `native_total_bytes` is what
                             libraries took without the JVM, and what the C library's malloc keeps
    <metric>.<label>         of a Python worker: the gauges that it publishes (docs/metrics-table.md)

A line with `app` and no `pid` is about the application: the sum of pss_bytes of its processes other than JVMs, and how
many processes it has.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kafkasource.metrics.snapshot import Snapshot
from lab.benchmarks.processes import OTHER, SPARK_JVM, children, kind

Sample = dict[str, float | str]
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_AFTER_COLLECTION = re.compile(rb"Pause (\w+).*?\d+M->(\d+)M\(")
_COMMITTED = re.compile(r"^(?:Total: |- +([A-Z][\w ]*) \()reserved=\d+KB, committed=(\d+)KB", re.MULTILINE)
_TAIL_BYTES = 20_000
MIB = 1 << 20


@dataclass(frozen=True)
class App:
    """One application: the process that it began with and all that descend from it."""

    name: str
    root: int
    gc_log: Path | None = None
    metrics: Path | None = None


class Sampler(threading.Thread):
    """Samples every `interval_s` until `stop`; a full collection of each application's JVM every `collect_s`."""

    def __init__(
        self, apps: Callable[[], list[App]], extra: Callable[[], Mapping[str, float]], file: Path, interval_s: float
    ) -> None:
        super().__init__(name="sampler", daemon=True)
        self._apps, self._extra, self._file, self._interval_s = apps, extra, file, interval_s
        self._began_s = time.monotonic()
        self._collected_s = self._began_s
        self._ending = threading.Event()

    def run(self) -> None:
        with self._file.open("a") as file:
            while not self._ending.wait(self._interval_s - (time.monotonic() - self._began_s) % self._interval_s):
                for sample in self._look():
                    file.write(json.dumps(sample) + "\n")
                file.flush()

    def stop(self) -> None:
        self._ending.set()
        if self.is_alive():
            self.join()

    def _look(self) -> list[Sample]:
        t_s = round(time.monotonic() - self._began_s, 1)
        by_parent, found = children(), list[Sample]()
        collect = t_s - (self._collected_s - self._began_s) >= COLLECT_S
        for app in self._apps():
            samples = [
                {"t_s": t_s, "app": app.name, **sample}
                for pid in _tree(app.root, by_parent)
                if (sample := sample_of(pid, app)) is not None
            ]
            if not samples:
                continue
            total = sum(float(each["pss_bytes"]) for each in samples if each["kind"] != SPARK_JVM)
            found += [*samples, {"t_s": t_s, "app": app.name, "pss_bytes": total, "processes": len(samples)}]
            if collect and app.gc_log is not None:
                for each in samples:
                    if each["kind"] == SPARK_JVM:
                        _jcmd(int(each["pid"]), "GC.run")  # so that the next sample knows what is alive
                        each |= native_memory(_jcmd(int(each["pid"]), "VM.native_memory", "summary", "scale=KB"))
        if collect:
            self._collected_s = time.monotonic()
        found.append({"t_s": t_s, "app": "traffic", **self._extra()})
        return found


COLLECT_S = 120.0


def _tree(root: int, by_parent: Mapping[int, list[int]]) -> list[int]:
    found = [root]
    for pid in found:
        found.extend(by_parent.get(pid, ()))
    return found


def sample_of(pid: int, app: App) -> Sample | None:
    """None: the process has ended, or is a shell or a launcher that only waits for another one."""
    what = kind(pid)
    if what in (OTHER, "launcher"):
        return None
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return None
    sample: Sample = {
        "pid": pid,
        "kind": what,
        "rss_bytes": _kib(rollup, "Rss"),
        "pss_bytes": _kib(rollup, "Pss"),
        "fds": len(descriptors),
        "threads": int(stat[17]),
        "cpu_s": (int(stat[11]) + int(stat[12])) / _TICKS_A_SECOND,
    }
    if what == SPARK_JVM and app.gc_log is not None:
        sample |= heap(app.gc_log)
    elif app.metrics is not None:
        sample |= gauges(pid, descriptors, app.metrics)
    return sample


def _kib(text: str, name: str) -> int:
    found = re.search(rf"^{name}: +(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def heap(gc_log: Path) -> Sample:
    """The newest lines count; a full collection that is far back in the log is found again by nobody."""
    found: Sample = {}
    with contextlib.suppress(OSError), gc_log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        for why, after in _AFTER_COLLECTION.findall(file.read()):
            found["heap_bytes"] = int(after) * MIB
            if why == b"Full":
                found["live_heap_bytes"] = int(after) * MIB
    return found


def gauges(pid: int, descriptors: list[str], folder: Path) -> Sample:
    """What the process has published: it holds the lock on the file whose name is that of its snapshot."""
    for descriptor in descriptors:
        with contextlib.suppress(OSError, ValueError):
            target = Path(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
            if target.suffix == ".lock" and target.parent == folder:
                snapshot = Snapshot.from_json(target.with_suffix(".json").read_bytes())
                return {".".join((name, *labels)): value for (name, labels), value in snapshot.gauges.items()}
    return {}


def _jcmd(pid: int, *command: str) -> str:
    """What a JVM answers. Without a JDK, nothing."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(["jcmd", str(pid), *command], capture_output=True, text=True, timeout=30, check=False)
        return done.stdout
    return ""


def native_memory(summary: str) -> Sample:
    """Of what `jcmd PID VM.native_memory summary scale=KB` prints: nothing, where the JVM keeps no account."""
    return {
        f"native_{(part or 'total').lower().replace(' ', '_')}_bytes": int(committed) * 1024
        for part, committed in _COMMITTED.findall(summary)
    }


def read(file: Path) -> list[Sample]:
    """All samples, in the order of time. A last line that a kill has cut is left out."""
    found = list[Sample]()
    for line in file.read_text().splitlines():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found
