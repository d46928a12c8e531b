"""A call that may wait for another server, in a thread of its own: the thread that polls serves all brokers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class BackgroundCall(Generic[T]):
    """`done` turns true in another thread; after that nothing changes."""

    def __init__(self, call: Callable[[], T], wakeup: Callable[[], None]) -> None:
        """Starts it. `wakeup` is called when it is done; it must not block."""
        self._call, self._wakeup = call, wakeup
        self.done = False
        self._result: list[T] = []
        self._error: Exception | None = None
        threading.Thread(target=self._run, name="kafkasource-login", daemon=True).start()

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except Exception as error:
            self._error = error
        self.done = True
        self._wakeup()

    def result(self) -> T:
        """What the call returned; raises what it raised. Only when `done`."""
        if self._error is not None:
            raise self._error
        return self._result[0]
