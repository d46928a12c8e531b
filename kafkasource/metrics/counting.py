"""The counts of this process. Any thread may call them: one lock a call, one call a batch or request, none a record.

Counting always happens and costs two microseconds. A thread publishes the counts at most once a second, if metrics are
wanted (`folder`); a slow disk must not stop a sender. The end of a task publishes too, and waits for that, but not
long.
"""

from __future__ import annotations

import bisect
import logging
import os
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from kafkasource.kafka import counters
from kafkasource.kafka.counters import Owner, Polled
from kafkasource.kafka.process import PerProcess
from kafkasource.metrics import folder
from kafkasource.metrics.background import OwnThread
from kafkasource.metrics.snapshot import Histogram, Key, Snapshot
from kafkasource.metrics.table import METRICS

log = logging.getLogger("kafkasource.metrics")

PUBLISH_EVERY_S = 1.0
PUBLISH_WAIT_S = 5.0
"""How long the end of a task waits for a disk that is slow."""


class ProcessCounts:
    """Counters, histograms and gauges of one process. `clock` gives seconds."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        publish: Callable[[Snapshot], None] = folder.publish,
        background: Callable[[Callable[[], None]], OwnThread] = OwnThread,
    ) -> None:
        self._clock = clock
        self._publish = publish
        self._due_s = clock() + PUBLISH_EVERY_S
        self.process = uuid.uuid4().hex
        self._sequence = 0
        self._refused = False  # a warning said that the folder is not ours
        self._lock = threading.Lock()  # of what follows
        self._background = background(self._publish_now)
        self._counters: dict[Key, float] = {}
        self._histograms: dict[Key, tuple[list[int], list[float]]] = {}
        self._polled: weakref.WeakKeyDictionary[object, Callable[[Any], Polled]] = weakref.WeakKeyDictionary()

    def count(self, name: str, amount: float = 1, *labels: str) -> None:
        """Add to a counter. Raises KeyError for a name that the table does not have."""
        key = name, labels
        with self._lock:
            if key not in self._counters:
                _check(name, "counter", labels)
            self._counters[key] = self._counters.get(key, 0) + amount
        self._publish_if_due()

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Add to a histogram: seconds."""
        key = name, labels
        bounds = METRICS[name].buckets
        with self._lock:
            if key not in self._histograms:
                _check(name, "histogram", labels)
                self._histograms[key] = [0] * (len(bounds) + 1), [0.0]
            buckets, total = self._histograms[key]
            buckets[bisect.bisect_left(bounds, value)] += 1
            total[0] += value
        self._publish_if_due()

    def poll(self, owner: Owner, function: Callable[[Owner], Polled]) -> None:
        """Ask `function(owner)` for gauges in every snapshot, while the owner lives."""
        with self._lock:
            self._polled[owner] = function

    def snapshot(self) -> Snapshot:
        """The current value of each metric, without gauges whose function fails."""
        with self._lock:
            polled: list[Callable[[], Polled]] = [partial(ask, owner) for owner, ask in self._polled.items()]
        gauges: dict[Key, float] = {}
        for function in [*polled, *counters.always_polled, _kept]:  # without the lock: they take locks of their own
            try:
                for name, labels, value in function():
                    gauges[name, labels] = gauges.get((name, labels), 0.0) + value
            except Exception:
                log.debug("gauges of %r", function, exc_info=True)
        with self._lock:
            self._sequence += 1
            histograms: dict[Key, Histogram] = {
                key: (tuple(buckets), total[0]) for key, (buckets, total) in self._histograms.items()
            }
            return Snapshot(self.process, self._sequence, dict(self._counters), histograms, gauges)

    def publish(self) -> None:
        """Publish now: at the end of a task. Never raises."""
        self._due_s = self._clock() + PUBLISH_EVERY_S
        if not self._background.wait(self._background.ask(), PUBLISH_WAIT_S):
            log.warning(
                "metrics are not published after %d s: is the disk slow? The process continues without them",
                PUBLISH_WAIT_S,
            )

    def _publish_now(self) -> None:
        try:
            _pushes.get()
            if folder.wanted():
                self._publish(self.snapshot())
        except PermissionError as error:
            log.log(logging.DEBUG if self._refused else logging.WARNING, "metrics cannot be published: %s", error)
            self._refused = True
        except Exception:
            log.debug("metrics could not be published", exc_info=True)

    def _publish_if_due(self) -> None:
        now_s = self._clock()
        if now_s >= self._due_s:
            self._due_s = now_s + PUBLISH_EVERY_S
            self._background.ask()


def _begin_to_push() -> bool:
    """Send to an OpenTelemetry collector, if the environment asks for it: see `otel.push`."""
    if os.environ.get("KAFKASOURCE_OTEL") == "1":
        try:
            from kafkasource.metrics import otel

            counts = process_counts()
            otel.push(counts.snapshot, counts.process)
        except Exception:
            log.warning("metrics cannot be pushed (KAFKASOURCE_OTEL=1)", exc_info=True)
    return True


_pushes = PerProcess(_begin_to_push)


def _kept() -> Polled:
    """How many things this process keeps for its next tasks."""
    yield "kafkasource_kept", ("python_blocks",), sys.getallocatedblocks()
    for what, number in counters.kept:
        yield "kafkasource_kept", (what,), number()


def _check(name: str, kind: str, labels: tuple[str, ...]) -> None:
    metric = METRICS[name]
    if metric.kind != kind or len(metric.labels) != len(labels):
        raise ValueError(f"{name} is a {metric.kind} with the labels {metric.labels}")


_process_counts = PerProcess(ProcessCounts)


def process_counts() -> ProcessCounts:
    """The counts of this process. A forked child begins with new ones."""
    return _process_counts.get()
