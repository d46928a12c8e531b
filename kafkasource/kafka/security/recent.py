"""A cache with a limit: the values that were used last stay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Holds at most `most` values and drops the least recently used value first. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[K, V] = {}  # the least recently used value is the first
        self._lock = threading.RLock()

    def of(self, key: K, make: Callable[[], V]) -> V:
        """Return the key's value, and make it if it is missing. Other threads wait meanwhile."""
        with self._lock:
            value = self._values[key] if key in self._values else make()
            self.put(key, value)
            return value

    def get(self, key: K) -> V | None:
        """Return the key's value. This does not count as a use."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Set or replace the key's value."""
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = value
            while len(self._values) > self._most:
                del self._values[next(iter(self._values))]

    def __iter__(self) -> Iterator[V]:
        return iter(list(self._values.values()))
