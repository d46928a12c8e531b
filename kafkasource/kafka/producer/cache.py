"""Producers that an executor's Python worker keeps for its next task, which then finds their connections open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from kafkasource.kafka.cluster.cache import IDLE_S, Use, surplus


class Cacheable(Protocol):
    """One producer, or all producers of a cluster."""

    use: Use

    @property
    def usable(self) -> bool:
        """May a task still be given it?"""


Key = TypeVar("Key")
Value = TypeVar("Value", bound=Cacheable)


class ProducerCache(Generic[Key, Value]):
    """A process's producers, by their configuration. Any thread may call any method."""

    def __init__(self, make: Callable[[Key], Value], close: Callable[[Value], None]) -> None:
        """`make` is called under the lock; `close` is not: it may wait for a sender thread, which may call `retire`."""
        self._make = make
        self._close = close
        self._lock = threading.Lock()
        self.producers: dict[Key, Value] = {}

    def hand_out(self, keys: Iterable[Key], most: int) -> list[Value]:
        """Return a usable value for each key, in order. Makes what is missing or not usable any more.

        Closes values that are unused for five minutes. If there are more than `most`, it also closes those that are
        unused for longest, but never one that a task uses.
        """
        gone: list[Value] = []
        with self._lock:
            values: list[tuple[Key, Value]] = []
            for key in keys:
                value = self.producers.pop(key, None)
                if value is not None and not value.usable:
                    gone.append(value)
                    value = None
                if value is None:
                    value = self._make(key)
                value.use.hand_out()
                values.append((key, value))
            self.producers.update(values)
            idle_s = {key: each.use.idle_s for key, each in self.producers.items()}
            gone += [self.producers.pop(key) for key in surplus(idle_s, most)]
        for each in gone:
            self._close(each)
        return [value for _, value in values]

    def retire(self, key: Key, value: Value) -> bool:
        """A sender thread that had no work for long asks: must it end? If so, the cache forgets the value."""
        with self._lock:
            if value.use.idle_s < IDLE_S:
                return False  # a task took it first
            if self.producers.get(key) is value:
                del self.producers[key]
            return True
