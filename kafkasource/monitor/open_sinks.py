"""How many transactions sinks with exactly once have open, asked of the brokers where somebody looks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kafkasource.errors import KafkaSourceError
from kafkasource.metrics.snapshot import Key, Snapshot

log = logging.getLogger("kafkasource.metrics")

ASK_EVERY_S = 15.0


class Open(Protocol):
    def open_for_ms(self) -> float | None: ...


def _ask(options: Mapping[str, str]) -> Sequence[Open]:
    from kafkasource.sink.open_lanes import of_sink

    return of_sink(options)


class OpenSinks:
    """Any thread; one of them asks, at most every 15 seconds, the others get what it knew."""

    def __init__(
        self,
        sinks: Mapping[str, Mapping[str, str]],
        ask: Callable[[Mapping[str, str]], Sequence[Open]] = _ask,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`sinks`: a name for each and its options, as for `kafkasource.open_transactions`."""
        self._sinks = sinks
        self._ask = ask
        self._clock = clock
        self._asking = threading.Lock()
        self._due_s = float("-inf")
        self._known: dict[Key, float] = {}

    def snapshot(self) -> Snapshot:
        """Sinks whose brokers do not answer have no value."""
        if self._sinks and self._asking.acquire(blocking=False):
            try:
                if self._clock() >= self._due_s:
                    self._known = self._asked()
                    self._due_s = self._clock() + ASK_EVERY_S
            finally:
                self._asking.release()
        return Snapshot("", 0, gauges=self._known)

    def _asked(self) -> dict[Key, float]:
        found: dict[Key, float] = {}
        for name, options in self._sinks.items():
            try:
                ages_ms = [each.open_for_ms() or 0.0 for each in self._ask(options)]
            except KafkaSourceError as error:
                log.warning("the open transactions of sink %r are not known: %s", name, error)
                continue
            found["kafkasource_open_transactions", (name,)] = len(ages_ms)
            found["kafkasource_oldest_transaction_seconds", (name,)] = max(ages_ms, default=0.0) / 1000
        return found
