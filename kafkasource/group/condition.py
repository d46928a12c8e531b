"""A lock, and waiting until somebody has changed what it guards; for a thread that Ctrl-C may interrupt.

`threading.Condition` is not: `__enter__`, `__exit__` and `wait` are Python functions, where a KeyboardInterrupt finds
places with the lock taken and no `with` around it yet, or no more. The lock then stays with the main thread for ever: a
member's own thread hangs, and its group waits for the session to end. `with` of a plain lock leaves no such place.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Bell:
    """Use `with bell.lock`; whoever has changed something rings while it holds the lock."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._ears: list[threading.Lock] = []  # each held, until the bell rings

    def ring(self) -> None:
        """Wake all who wait. With the lock held."""
        ears, self._ears = self._ears, []
        for ear in ears:
            ear.release()

    def wait_for(self, wanted: Callable[[], T], timeout_s: float) -> T:
        """Ask `wanted`, with the lock held, until it says yes or the time is over; its last answer.

        Not to be called with the lock held.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            ear = threading.Lock()
            with self.lock:
                found = wanted()
                left_s = deadline_s - time.monotonic()
                if found or left_s <= 0:
                    return found
                ear.acquire()
                self._ears.append(ear)
            if not ear.acquire(timeout=left_s):
                with self.lock:
                    if ear in self._ears:
                        self._ears.remove(ear)
