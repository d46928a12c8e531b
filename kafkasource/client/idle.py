"""What a process keeps for its next task, clusters and producers: since when nobody uses it, and what is to go.

A thing goes when nobody has used it for five minutes, and when there are more than a few: those unused for longest.
One that somebody uses never goes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

K = TypeVar("K")

IDLE_S = 300.0
"""As long as Java's producer keeps the metadata of a topic that nobody writes to."""

_HANDED_OUT_S = 60.0  # a task that got it and has not begun to use it may still come


class Use:
    """Of one thing, by tasks. Any thread. `clock` in seconds."""

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


def surplus(idle_s: Mapping[K, float], most: int, most_idle_s: float = IDLE_S) -> list[K]:
    """Which of the kept ones are to go. `idle_s`: for how long nobody has used each, 0: somebody does."""
    longest = sorted((key for key in idle_s if idle_s[key] > 0), key=lambda key: -idle_s[key])
    gone = sum(idle_s[key] >= most_idle_s for key in longest)
    return longest[: max(gone, len(idle_s) - most)]
