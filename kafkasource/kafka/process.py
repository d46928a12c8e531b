"""State that belongs to one process: its replacement in a forked child, and a limit for what it keeps.

Spark forks its Python workers from a daemon, and programs fork too. A child cannot use what its parent has: the
parent's threads do not run in it, a lock that one of them held stays held for ever, and sockets are the parent's.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


def is_of_spark() -> bool:
    """Whether Spark started this process, to plan or to run tasks: no code of the user's own set it up."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith(("pyspark.daemon", "pyspark.worker", "pyspark.sql."))


class PerProcess(Generic[T]):
    """One value in each process, made by the first call of `get`. Any thread may call any method.

    A forked child makes a value of its own. It keeps its parent's value alive and never uses it: closing an epoll
    descriptor that both processes share would take sockets out of it in the parent.
    """

    def __init__(self, make: Callable[[], T], renew: Callable[[T], None] | None = None) -> None:
        """`renew`: a child calls it on its parent's value, and keeps that value. It must not raise."""
        self._make = make
        self._renew = renew
        self._lock = threading.RLock()  # a destructor that runs within `make` may ask for the value
        self._value: T | None = None
        self._of_parents: list[T] = []
        _all.add(self)

    def get(self) -> T:
        value = self._value
        if value is None:
            with self._lock:
                if self._value is None:
                    self._value = self._make()
                value = self._value
        return value

    @property
    def if_made(self) -> T | None:
        """The value, where there is one already."""
        return self._value

    def reset(self) -> None:
        """The next call of `get` makes a new value."""
        self._value = None

    def _after_fork(self) -> None:
        self._lock = threading.RLock()
        if self._value is None:
            return
        if self._renew is not None:
            self._renew(self._value)
        else:
            self._of_parents.append(self._value)
            self._value = None


class Recent(Generic[K, V]):
    """Holds at most `most` values and drops the least recently used value first. Thread-safe."""

    def __init__(self, most: int, idle_s: float = math.inf, clock_s: Callable[[], float] = time.monotonic) -> None:
        """`idle_s`: it also drops a value that was not used for this time."""
        self._most, self._idle_s, self._clock_s = most, idle_s, clock_s
        self._values: dict[K, tuple[V, float]] = {}  # with the time of the last use, the latest use last
        self._lock = threading.RLock()

    def of(self, key: K, make: Callable[[], V]) -> V:
        """Return the key's value, and make it if it is missing. Other threads wait meanwhile."""
        with self._lock:
            value = self.get(key)
            if value is None:
                value = make()
            self.put(key, value)
            return value

    def get(self, key: K) -> V | None:
        """Return the key's value. This does not count as a use."""
        value, used_s = self._values.get(key, (None, 0.0))
        return value if self._clock_s() - used_s <= self._idle_s else None

    def put(self, key: K, value: V) -> V | None:
        """Set or replace the key's value. Returns the value before, as `get` does."""
        with self._lock:
            before = self.get(key)
            self._values.pop(key, None)
            self._values[key] = value, self._clock_s()
            while len(self._values) > self._most:
                del self._values[next(iter(self._values))]
            return before

    def __iter__(self) -> Iterator[V]:
        return iter([value for value, _ in list(self._values.values())])


_all: WeakSet[PerProcess[Any]] = WeakSet()


def _in_child() -> None:
    for each in list(_all):
        each._after_fork()


os.register_at_fork(after_in_child=_in_child)
