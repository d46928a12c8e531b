"""One contestant mirrors one topic to some targets; what it needed.

The topic is there whole before the contestant starts, which works it off. The first records warm it up (Java compiles,
Spark starts its workers): the timed window begins when every target has `warm_up` of them, and ends when every target
has all. What is counted in it is what arrived in it, at all targets together: a target that is ahead is none the worse.
The whole run, from the process's start, is told beside it; memory and bytes are always those of the whole run.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.benchmarks.mirror import command, maker
from lab.benchmarks.mirror.lab import SOURCE, MirrorLab
from lab.benchmarks.mirror.watch import TreeMemory
from lab.benchmarks.processes import cpu_seconds, watching
from lab.benchmarks.results import OURS
from lab.benchmarks.turns import reason

POLL_S = 0.05
PATIENCE_S = 60.0  # without another record at the target that is last


@dataclass(frozen=True)
class Contestant:
    name: str
    start: Callable[[MirrorLab, Path, Sequence[str], str], subprocess.Popen[bytes]]
    log: str  # of its folder's files, the one to look at when it fails


@dataclass(frozen=True)
class Figures:
    """One run. Rates count a record once for each target it arrived at."""

    contestant: str
    targets: int
    records: int  # of the topic
    arrived: int = 0  # in the timed window, at all targets
    seconds: float = 0.0  # of the window
    cpu_seconds: float = 0.0  # of the contestant's process tree in the window
    brokers_cpu_seconds: float = 0.0  # of all four brokers in the window
    run_seconds: float = 0.0  # from the start of its process
    run_cpu_seconds: float = 0.0
    peak_mb: float = 0.0  # sum of PSS
    memory_mb: Mapping[str, float] = field(default_factory=dict)  # by kind of process, at the peak
    read_bytes: int = 0  # what the source's broker sent of the topic
    log_bytes: int = 0  # the topic's own size
    failure: str | None = None

    @property
    def per_second(self) -> float:
        return self.arrived / self.seconds if self.seconds else 0.0

    @property
    def per_cpu_second(self) -> float:
        return self.arrived / self.cpu_seconds if self.cpu_seconds else 0.0

    @property
    def per_run_cpu_second(self) -> float:
        return self.records * self.targets / self.run_cpu_seconds if self.run_cpu_seconds else 0.0

    @property
    def times_read(self) -> float:
        return self.read_bytes / self.log_bytes if self.log_bytes else 0.0


def _maker(tuned: bool) -> Contestant:
    def start(lab: MirrorLab, folder: Path, targets: Sequence[str], topic: str) -> subprocess.Popen[bytes]:
        return maker.start(folder, maker.properties(lab.servers, targets, topic, tuned=tuned), targets)

    return Contestant(f"MirrorMaker 2{', tuned' if tuned else ''}", start, "mirror-maker.log")


def _start_ours(lab: MirrorLab, folder: Path, targets: Sequence[str], topic: str) -> subprocess.Popen[bytes]:
    return command.start(folder, command.toml(folder, lab.servers, targets, topic))


CONTESTANTS = (_maker(tuned=False), _maker(tuned=True), Contestant(OURS, _start_ours, "spark.log"))


def run(
    lab: MirrorLab, contestant: Contestant, topic: str, targets: Sequence[str], records: int, warm_up: int
) -> Figures:
    """Never raises: a contestant that fails keeps its row, with the reason."""
    folder = Path(tempfile.mkdtemp(prefix="contest-", dir=lab.folder))
    try:
        return _run(lab, contestant, topic, targets, records, warm_up, folder)
    except Exception as error:
        log = folder / contestant.log
        said = log.read_text(errors="replace").strip().splitlines()[-3:] if log.exists() else []
        return Figures(contestant.name, len(targets), records, failure=f"{reason(error)} ({' | '.join(said)})"[:400])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(
    lab: MirrorLab,
    contestant: Contestant,
    topic: str,
    targets: Sequence[str],
    records: int,
    warm_up: int,
    folder: Path,
) -> Figures:
    mirrored, read_before = f"{SOURCE}.{topic}", lab.bytes_out(topic)
    for name in targets:
        lab.create(name, mirrored)
    broker_pids = [pid for broker in lab.brokers.values() for pid in broker.pids]
    began = time.monotonic()
    process = contestant.start(lab, folder, targets, topic)

    def used() -> tuple[float, float]:
        return cpu_seconds(process.pid), sum(map(cpu_seconds, broker_pids))

    def reach(each: int) -> int:
        """Wait until every target has so many; what they have together."""
        most, at = 0, time.monotonic()
        while True:
            stored = [sum(lab.offsets(name, mirrored).values()) for name in targets]
            if min(stored) >= each:
                return sum(stored)
            if min(stored) > most:
                most, at = min(stored), time.monotonic()
            if process.poll() is not None:
                raise RuntimeError(f"ended with exit code {process.returncode}")
            if time.monotonic() > at + PATIENCE_S:
                raise TimeoutError(f"no more than {stored} of {records} records")
            time.sleep(POLL_S)

    try:
        with watching(process.pid, TreeMemory()) as memory:
            before, started, (cpu, brokers) = reach(warm_up), time.monotonic(), used()
            after, ended, (cpu_after, brokers_after) = reach(records), time.monotonic(), used()
        read = lab.bytes_out(topic) - read_before
    finally:
        _end(process)
        lab.clear(keep=topic)
    return Figures(
        contestant.name,
        len(targets),
        records,
        after - before,
        ended - started,
        cpu_after - cpu,
        brokers_after - brokers,
        ended - began,
        cpu_after,
        memory.peak_mb,
        memory.parts_mb,
        read,
        lab.log_bytes(SOURCE, topic),
        None if after == records * len(targets) else f"{after - records * len(targets)} records too many",
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    else:
        process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
