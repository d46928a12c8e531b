"""A condition variable for a thread that Ctrl-C may interrupt.

`threading.Condition` is not safe there. Its `__enter__`, `__exit__` and `wait` are Python functions. A
KeyboardInterrupt can hit them while the lock is taken and before `with` guards it, or after `with` has ended. The main
thread then keeps the lock for ever, the member's own thread hangs, and the group waits for the session to end. `with`
of a plain lock has no such place, so users enter `lock` itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class InterruptibleCondition:
    """`with condition.lock:` guards the state; a thread that has changed the state calls `notify_all` inside it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._waiters: list[threading.Lock] = []  # one for each waiting thread; held until `notify_all` releases it

    def notify_all(self) -> None:
        """Wake all waiting threads. Call it with the lock held."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.release()

    def wait_for(self, wanted: Callable[[], T], timeout_s: float) -> T:
        """Wait until `wanted` returns something true, or `timeout_s` is over. Returns the last result of `wanted`.

        `wanted` is called with the lock held; the caller must not hold it.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            waiter = threading.Lock()
            with self.lock:
                found = wanted()
                left_s = deadline_s - time.monotonic()
                if found or left_s <= 0:
                    return found
                waiter.acquire()
                self._waiters.append(waiter)
            if not waiter.acquire(timeout=left_s):
                with self.lock:
                    if waiter in self._waiters:
                        self._waiters.remove(waiter)
