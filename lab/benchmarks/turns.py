"""Contestants take turns: a warm-up of each, then one timed run of each in every turn.

Whatever else the machine does then falls on all of them alike. The first of a turn is another one each time.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from lab.benchmarks.processes import cpu_seconds

Run = Callable[[], float]  # does the work, returns what it measured


@dataclass
class Turns:
    """What one contestant measured; `failure` says why there is nothing (more)."""

    values: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)  # of all processes together, the broker's too
    failure: str | None = None


def in_turn(names: Iterable[str], turn: int) -> list[str]:
    """All of them, the first another one in each turn."""
    listed = list(names)
    first = turn % len(listed)
    return listed[first:] + listed[:first]


def take_turns(contestants: Mapping[str, Run], turns: int, *, warm_up: int = 1) -> dict[str, Turns]:
    """Run each `warm_up` times untimed, then `turns` times. One that fails is left out from there on."""
    results = {name: Turns() for name in contestants}
    for turn in range(warm_up + turns):
        for name in in_turn(contestants, turn):
            result = results[name]
            if result.failure is not None:
                continue
            cpu = cpu_seconds(os.getpid())
            try:
                value = contestants[name]()
            except Exception as error:  # a peer's fault is a row of the report, not its end
                result.failure = reason(error)
                continue
            if turn >= warm_up:
                result.values.append(value)
                result.cpu_seconds.append(cpu_seconds(os.getpid()) - cpu)
    return results


def timed(work: Callable[[], object]) -> Run:
    """As a run that returns its seconds."""

    def run() -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    return run


def per_record(work: Callable[[], object], records: int) -> Run:
    """As a run that returns nanoseconds of this thread's processor time per record, whatever else the machine does."""

    def run() -> float:
        started = time.thread_time()
        work()
        return (time.thread_time() - started) * 1e9 / records

    return run


def reason(error: BaseException) -> str:
    """One line that says what went wrong; the traces of Spark and Java are pages long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]*[A-Z]\w+: ", line)]  # as Python ends a traceback
    return f"{type(error).__name__}: {(raised or lines or [''])[-1 if raised else 0]}"[:240]
