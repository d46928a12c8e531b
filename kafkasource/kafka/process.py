"""State that belongs to one process, and its replacement in a forked child.

Spark forks its Python workers from a daemon, and programs fork too. A child cannot use what its parent has: the
parent's threads do not run in it, a lock that one of them held stays held for ever, and sockets are the parent's.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")


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


_all: WeakSet[PerProcess[Any]] = WeakSet()


def _in_child() -> None:
    for each in list(_all):
        each._after_fork()


os.register_at_fork(after_in_child=_in_child)
