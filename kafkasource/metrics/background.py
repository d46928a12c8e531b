"""A thread for work that may wait for a disk, so that no thread that counts has to wait."""

from __future__ import annotations

import threading
from collections.abc import Callable

_IDLE_S = 60.0  # after this time without work the thread ends, until it is needed again


class OwnThread:
    """A daemon thread that sleeps until it is asked. Any thread may ask; `work` never raises."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._changed = threading.Condition()
        self._asked = self._done = 0
        self._runs = False

    def ask(self) -> int:
        """Ask for the work to be done once more, soon. Requests during the wait share one turn. Returns a ticket."""
        with self._changed:
            self._asked += 1
            if not self._runs:
                try:
                    threading.Thread(target=self._run, name="kafkasource-metrics", daemon=True).start()
                    self._runs = True
                except RuntimeError:
                    pass  # the interpreter ends
            self._changed.notify_all()
            return self._asked

    def wait(self, ticket: int, timeout_s: float) -> bool:
        """Wait until a turn that began after the ticket has ended. False: it did not end in that time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._done >= ticket or not self._runs, timeout_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._asked > self._done, _IDLE_S):
                    self._runs = False
                    return
                turn = self._asked
            self._work()
            with self._changed:
                self._done = turn
                self._changed.notify_all()
