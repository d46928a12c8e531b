"""What a process keeps by key, up to a number: what was used last stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """At most `most` values; of more, the one goes that was not used for longest. The caller has a lock."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[K, V] = {}  # the one that was used last is the last

    def of(self, key: K, make: Callable[[], V]) -> V:
        """The key's value; `make` gives one where there is none."""
        found = self._values[key] if key in self._values else make()
        self.put(key, found)
        return found

    def get(self, key: K) -> V | None:
        """The key's value, which does not count as used."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """In place of the value that there was."""
        self._values.pop(key, None)
        self._values[key] = value
        while len(self._values) > self._most:
            del self._values[next(iter(self._values))]

    def __iter__(self) -> Iterator[V]:
        return iter(self._values.values())
