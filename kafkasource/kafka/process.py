"""Holds values that belong to one process. A forked child makes its own.

Spark forks its Python workers from a daemon, and programs fork too. A child cannot use its parent's values: the
parent's threads do not run in it, a lock that such a thread held stays held for ever, and sockets are the parent's.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

IDLE_S = 300.0
"""As long as Java's producer keeps the metadata of a topic that nobody writes to."""

_HANDED_OUT_S = 60.0  # a task that got a value and has not begun to use it may still come


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

    def __init__(
        self,
        most: int,
        idle_s: float = math.inf,
        clock_s: Callable[[], float] = time.monotonic,
        size_of: Callable[[V], int] = lambda _: 1,
    ) -> None:
        """`idle_s`: it also drops a value that was not used for this time. `size_of`: `most` limits the sum of sizes,
        but the last value stays, whatever its size."""
        self._most, self._idle_s, self._clock_s, self._size_of = most, idle_s, clock_s, size_of
        self._values: dict[K, tuple[V, float]] = {}  # with the time of the last use, the latest use last
        self._size = 0
        self._lock = threading.RLock()

    def of(self, key: K, make: Callable[[], V]) -> V:
        """Return the key's value, and make it if it is missing. Other threads wait meanwhile."""
        with self._lock:
            value = self.use(key)
            if value is None:
                value = make()
                self.put(key, value)
            return value

    def use(self, key: K) -> V | None:
        """Return the key's value, and count this as a use."""
        with self._lock:
            value = self.get(key)
            if value is not None:
                del self._values[key]
                self._values[key] = value, self._clock_s()
            return value

    def get(self, key: K) -> V | None:
        """Return the key's value. This does not count as a use."""
        value, used_s = self._values.get(key, (None, 0.0))
        return value if self._clock_s() - used_s <= self._idle_s else None

    def put(self, key: K, value: V) -> V | None:
        """Set or replace the key's value. Returns the value before, as `get` does."""
        with self._lock:
            before = self.get(key)
            if key in self._values:
                self._drop(key)
            self._values[key] = value, self._clock_s()
            self._size += self._size_of(value)
            while self._size > self._most and len(self._values) > 1:
                self._drop(next(iter(self._values)))
            return before

    def _drop(self, key: K) -> None:
        self._size -= self._size_of(self._values.pop(key)[0])

    def __iter__(self) -> Iterator[V]:
        return iter([value for value, _ in list(self._values.values())])


class Use:
    """The use of one kept value by tasks. Any thread. `clock` in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._users = 0
        self._since_s = clock()  # nobody uses it, or: it was handed out
        self._handed_out = False

    def hand_out(self) -> None:
        """Somebody is about to use it."""
        with self._lock:
            self._handed_out, self._since_s = True, self._clock()

    @contextmanager
    def using(self) -> Iterator[None]:
        with self._lock:
            self._users += 1
            self._handed_out = False
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                self._since_s = self._clock()

    @property
    def idle_s(self) -> float:
        """How long nobody has used it; 0: somebody does."""
        with self._lock:
            idle_s = self._clock() - self._since_s
            if self._users or (self._handed_out and idle_s < _HANDED_OUT_S):
                return 0.0
            return idle_s


def surplus(idle_s: Mapping[K, float], most: int) -> list[K]:
    """Choose kept values to let go. `idle_s`: for how long nobody has used each; 0: it is in use."""
    longest = sorted((key for key in idle_s if idle_s[key] > 0), key=lambda key: -idle_s[key])
    gone = sum(idle_s[key] >= IDLE_S for key in longest)
    return longest[: max(gone, len(idle_s) - most)]


class ProcessCache(Generic[K, V]):
    """Values that a process keeps for its next tasks, by key. Any thread may call any method.

    The cache lets a value go when nobody has used it for five minutes. If there are too many, it lets those go that
    were unused for longest, but never one in use. It replaces a value that cannot be used any more. A caller may still
    hold a value that went, and use it: then the cache lets it go again. A forked child starts with no values (see
    `PerProcess`).
    """

    def __init__(
        self,
        make: Callable[[K], V],
        *,
        is_usable: Callable[[V], bool],
        idle_s: Callable[[V], float],
        let_go: Callable[[V], object],
        hand_out: Callable[[V], object] = lambda _: None,
    ) -> None:
        """`idle_s`: for how many seconds nobody has used a value; 0: it is in use. `hand_out`: it is about to be used.

        All are called under the lock except `let_go`, which may wait for a thread that calls `retire`.
        """
        self._make, self._is_usable, self._idle_s = make, is_usable, idle_s
        self._let_go, self._hand_out = let_go, hand_out
        self._lock = threading.Lock()
        self.values: dict[K, V] = {}
        self._gone: WeakSet[V] = WeakSet()
        self._of_parents: list[V] = []
        _all.add(self)

    def get(self, keys: Iterable[K], most: int) -> list[V]:
        """Return a usable value for each key, in order. Makes missing values, and lets go of surplus ones."""
        found: dict[K, V] = {}
        gone: list[V] = []
        with self._lock:
            for key in keys:
                before = self.values.get(key)
                if before is None or not self._is_usable(before):
                    self.values[key] = self._make(key)  # may raise: the value before then stays
                    gone += [] if before is None else [before]
                found[key] = self.values[key]
                self._hand_out(found[key])
            idle_s = {key: 0.0 if key in found else self._idle_s(value) for key, value in self.values.items()}
            gone += [self.values.pop(key) for key in surplus(idle_s, most)]
            gone += [value for value in self._gone if self._idle_s(value) >= IDLE_S]
            self._gone.update(gone)
        for value in gone:
            self._let_go(value)
        return list(found.values())

    def retire(self, key: K, value: V) -> bool:
        """A thread of an unused value asks: must it end? If so, the cache forgets the value."""
        with self._lock:
            if self._idle_s(value) < IDLE_S:
                return False  # a task took it first
            if self.values.get(key) is value:
                del self.values[key]
            return True

    def clear(self) -> list[V]:
        """Forget all values. Returns them, and those that went and are still held by callers."""
        with self._lock:
            values = [*self.values.values(), *self._gone]
            self.values.clear()
            self._gone.clear()
        return values

    def _after_fork(self) -> None:
        self._of_parents += [*self.values.values(), *self._gone]
        self._lock, self.values, self._gone = threading.Lock(), {}, WeakSet()


_all: WeakSet[PerProcess[Any] | ProcessCache[Any, Any]] = WeakSet()


def _in_child() -> None:
    for each in list(_all):
        each._after_fork()


os.register_at_fork(after_in_child=_in_child)
