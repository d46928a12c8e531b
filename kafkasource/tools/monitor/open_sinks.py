"""Counts the open transactions of the sinks with exactly once. Asks the brokers when a client requests metrics."""

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


OpenByCluster = Mapping[str | None, "Sequence[Open] | KafkaSourceError"]
"""By cluster (None: the sink has no option `clusters`): its open transactions, or the error if it could not be
asked."""


def _ask(options: Mapping[str, str]) -> OpenByCluster:
    from kafkasource.sink.open_transactions import of_clusters

    return of_clusters(options)


class OpenSinks:
    """The open transactions of sinks. Any thread may call it: one thread asks, at most every 15 seconds, and the others
    get the last answer."""

    def __init__(
        self,
        sinks: Mapping[str, Mapping[str, str]],
        ask: Callable[[Mapping[str, str]], OpenByCluster] = _ask,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`sinks`: a name for each and its options, as for `kafkasource.open_transactions`."""
        self._sinks = sinks
        self._ask = ask
        self._clock = clock
        self._asking = threading.Lock()
        self._due_s = float("-inf")
        self._known: dict[Key, float] = {}
        self._warned: dict[tuple[str, str], str] = {}  # by sink and cluster: the last warning in the log

    def snapshot(self) -> Snapshot:
        """Clusters whose brokers do not answer have no value."""
        if self._sinks and self._asking.acquire(blocking=False):
            try:
                if self._clock() >= self._due_s:
                    self._known = self._asked()
                    self._due_s = self._clock() + ASK_EVERY_S
            finally:
                self._asking.release()
        return Snapshot("", 0, gauges=self._known)

    def _asked(self) -> dict[Key, float]:
        gauges: dict[Key, float] = {}
        failed: dict[tuple[str, str], str] = {}
        for name, options in list(self._sinks.items()):  # a mirror's come and go
            try:
                answers = self._ask(options)
            except KafkaSourceError as error:
                failed[name, ""] = str(error)
                continue
            for cluster, answer in answers.items():
                labels = name, cluster or ""
                if isinstance(answer, KafkaSourceError):
                    failed[labels] = str(answer)
                    continue
                ages_ms = [transaction.open_for_ms() or 0.0 for transaction in answer]
                gauges["kafkasource_open_transactions", labels] = len(ages_ms)
                gauges["kafkasource_oldest_transaction_seconds", labels] = max(ages_ms, default=0.0) / 1000
        for (name, cluster), text in failed.items():
            if self._warned.get((name, cluster)) != text:  # once, not every 15 seconds
                where = f" in cluster {cluster!r}" if cluster else ""
                log.warning("cannot list the open transactions of sink %r%s: %s", name, where, text)
        self._warned = failed
        return gauges
