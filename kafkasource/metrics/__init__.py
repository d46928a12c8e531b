"""Metrics without JMX.

Each process counts (`counting`) and publishes to a folder on its host (`folder`). Collectors add the processes up: the
driver's endpoint (`kafkasource.serve_metrics`), `pykafka metrics`, and binders for Prometheus and OpenTelemetry.

It imports nothing heavy, because every task imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from kafkasource.kafka import counters
from kafkasource.kafka.counters import Owner, Polled
from kafkasource.metrics import folder
from kafkasource.metrics.counting import process_counts
from kafkasource.metrics.snapshot import Snapshot

__all__ = ["Snapshot", "count", "observe", "poll", "process_counts", "publish", "report", "take", "wanted"]


def count(name: str, amount: float = 1, *labels: str) -> None:
    """Add to this process's counter."""
    process_counts().count(name, amount, *labels)


def observe(name: str, seconds: float, *labels: str) -> None:
    """Add to this process's histogram."""
    process_counts().observe(name, seconds, *labels)


def poll(owner: Owner, function: Callable[[Owner], Polled]) -> None:
    """Ask `function(owner)` for gauges when this process's metrics are published, while the owner lives."""
    process_counts().poll(owner, function)


def publish() -> None:
    """Publish at the end of a task. Never raises."""
    process_counts().publish()


def wanted() -> bool:
    """Whether somebody collects metrics on this host."""
    return folder.wanted() is not None


def report(is_wanted: bool) -> Snapshot | None:
    """The snapshot that a task's report carries to a driver, if metrics are wanted there. Publishes, too."""
    publish()
    return process_counts().snapshot() if is_wanted else None


def take(snapshots: Iterable[Snapshot | None]) -> None:
    """Keep, on the driver, the snapshots that tasks' reports carried."""
    folder.take(snapshots)


counters.install(sys.modules[__name__])  # a module is a receiver, too
