"""One read, three clusters, through Spark: is everything there, was it read once, and what a killed cluster costs.

Each case is a streaming query of the source's topic to three clusters with four producers each. "Half way" is when the
third target has half of the records. What the targets hold is read back by librdkafka, every record of it: which
numbers are there and how often, and whether each key's numbers rise.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.benchmarks.mirror import ours
from lab.benchmarks.mirror.lab import PARTITIONS, SOURCE, TARGETS, MirrorLab, number_of

VICTIM = TARGETS[-1]
DOWN_S = 5.0
PATIENCE_S = 240.0
POLL_S = 0.05


@dataclass(frozen=True)
class Case:
    name: str
    options: Mapping[str, str]
    killed: bool = False
    back: bool = False  # after `DOWN_S`; else only when the query is done
    fails: bool = False


CASES = (
    Case("all well, block", {}),
    Case("killed half way, back after 5 s, block", {"onSlowCluster": "block"}, killed=True, back=True),
    Case("killed half way, discard", {"onSlowCluster": "discard"}, killed=True),
    Case("killed half way, fail", {"onSlowCluster": "fail"}, killed=True, fails=True),
)


@dataclass(frozen=True)
class Found:
    """What one target holds in the end, and what the query reported about it."""

    stored: int  # records
    missing: int  # numbers that are not there
    doubled: int  # records above one for each number
    disordered: int  # records whose number is not above its key's last one
    written: int  # acknowledged, as reported
    discarded: int  # as reported


@dataclass(frozen=True)
class Proof:
    case: str
    records: int
    seconds: float  # from the query's first record at a target to its end
    failed: str | None  # what made the query fail
    read_bytes: int  # what the source's broker sent
    log_bytes: int
    found: Mapping[str, Found]

    @property
    def times_read(self) -> float:
        return self.read_bytes / self.log_bytes


def run(lab: MirrorLab, topic: str, records: int, cases: tuple[Case, ...] = CASES) -> Iterator[Proof]:
    for case in cases:
        folder = Path(tempfile.mkdtemp(prefix="proof-", dir=lab.folder))
        try:
            yield _run(lab, case, topic, records, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _run(lab: MirrorLab, case: Case, topic: str, records: int, folder: Path) -> Proof:
    mirrored, read_before = ours.mirrored_name(topic), lab.bytes_out(topic)
    for name in TARGETS:
        lab.create(name, mirrored)
    victim = lab.brokers[VICTIM]
    process = ours.start(folder, lab.servers, TARGETS, topic, options={"producersPerCluster": "4", **case.options})
    restart: threading.Timer | None = None
    try:
        _until(lambda: lab.stored(VICTIM, mirrored) > 0 or process.poll() is not None)
        began = time.monotonic()
        if case.killed:
            _until(lambda: lab.stored(VICTIM, mirrored) >= records // 2 or process.poll() is not None)
            victim.kill()
            if case.back:
                restart = threading.Timer(DOWN_S, victim.restart)
                restart.start()
        _until(lambda: process.poll() is not None or _committed(folder) >= records * len(TARGETS))
        seconds = time.monotonic() - began
        if restart is not None:
            restart.join()
        ended = process.poll()
        if (ended is not None) != case.fails:
            raise RuntimeError(f"{case.name}: ended with {ended}: {(folder / 'spark.log').read_text()[-2000:]}")
        read = lab.bytes_out(topic) - read_before
    finally:
        if process.stdin is not None:
            process.stdin.close()
        process.wait(60)
        if case.killed and not case.back:
            victim.restart()
    found = {name: _found(lab, name, mirrored, records, folder) for name in TARGETS}
    lab.clear(keep=topic)
    failed = _reason(folder / "spark.log") if case.fails else None
    return Proof(case.name, records, seconds, failed, read, lab.log_bytes(SOURCE, topic), found)


def _until(done: object) -> None:
    assert callable(done)
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not after {PATIENCE_S:.0f} s")
        time.sleep(POLL_S)


def _committed(folder: Path) -> int:
    """Records of micro-batches that are done, each counted once for each cluster."""
    return sum(one["written"] + one["discarded"] for one in ours.commits(folder))


def _reason(log: Path) -> str:
    """The line with which the writer refused, of the pages that Spark prints."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    told = next((line for line in lines if "SlowCluster: " in line), lines[-1] if lines else "")
    return told[max(0, told.find("SlowCluster: ")) :][:240]


def _found(lab: MirrorLab, name: str, topic: str, records: int, folder: Path) -> Found:
    """Every record of a target's topic, by librdkafka."""
    from confluent_kafka import Consumer, TopicPartition

    ends = lab.offsets(name, topic)
    consumer = Consumer({"bootstrap.servers": lab.servers[name], "group.id": "proof", "check.crcs": True})
    seen, last = bytearray(records), dict[bytes, int]()
    stored = doubled = disordered = 0
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        while stored < sum(ends.values()):
            messages = consumer.consume(min(10_000, sum(ends.values()) - stored), timeout=30)
            if not messages:
                raise TimeoutError(f"{name}: only {stored} of {sum(ends.values())} records came")
            stored += len(messages)
            for message in messages:
                key, number = message.key(), number_of(message.value())
                doubled += seen[number]
                seen[number] = 1
                disordered += number <= last.get(key, -1)
                last[key] = number
    finally:
        consumer.close()
    told = [one for one in ours.commits(folder) if one["cluster"] == name]
    return Found(
        stored,
        seen.count(0),
        doubled,
        disordered,
        sum(one["written"] for one in told),
        sum(one["discarded"] for one in told),
    )
