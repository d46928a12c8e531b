"""A selector, and a pair of sockets by which other threads end a client's wait.

A poller at rest has no descriptors; `open` gets them again.
"""

from __future__ import annotations

import selectors
import socket
from typing import Any, Protocol

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Selector(Protocol):
    """The part of `selectors.BaseSelector` used here; tests bring one that moves a fake clock."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> Any: ...
    def modify(self, fileobj: Any, events: int, data: Any = None) -> Any: ...
    def unregister(self, fileobj: Any) -> Any: ...
    def select(self, timeout: float | None = None) -> list[tuple[Any, int]]: ...
    def close(self) -> None: ...


class Poller:
    """A client's selector. The thread that polls the client calls all methods except `wakeup`."""

    def __init__(self, given: Selector | None = None) -> None:
        self._given = given
        self.selector: Selector  # while it is open
        self._wakers: tuple[socket.socket, socket.socket] | None = None  # in, out; None: it rests
        self._woken = False  # while it rested

    @property
    def is_open(self) -> bool:
        return self._wakers is not None

    def open(self) -> None:
        """Nothing where it is open."""
        if self._wakers is None:
            self.selector = self._given or selectors.DefaultSelector()
            wakers = socket.socketpair()
            for end in wakers:
                end.setblocking(False)
            self.selector.register(wakers[0], READ, None)
            self._wakers = wakers
            if self._woken:
                self._woken = False
                wakers[1].send(b"w")

    def close(self) -> None:
        """All else must be unregistered. Nothing where it rests."""
        wakers, self._wakers = self._wakers, None
        if wakers is not None:
            self.selector.unregister(wakers[0])
            if self._given is None:
                self.selector.close()
            for end in wakers:
                end.close()

    def wakeup(self) -> None:
        """Make a `select` that is blocked, or else the next one, return at once. Any thread."""
        if self._wakers is None:
            self._woken = True
        wakers = self._wakers  # a poll in another thread may have opened them since
        if wakers is not None:
            try:
                wakers[1].send(b"w")
            except BlockingIOError:
                pass  # full: it will wake up
            except OSError:
                if wakers is self._wakers:
                    raise
                self._woken = True  # it was put to rest meanwhile

    def select(self, timeout_ms: float) -> list[tuple[Any, int]]:
        """Keys (`selectors.SelectorKey`) and events of the sockets that are ready; empty also after `wakeup`."""
        ready = self.selector.select(max(timeout_ms, 0) / 1000)
        sockets = [(key, events) for key, events in ready if key.data is not None]
        if len(sockets) < len(ready):
            self._drain_wakeups()
        return sockets

    def _drain_wakeups(self) -> None:
        assert self._wakers is not None
        try:
            while self._wakers[0].recv(4096):
                pass
        except BlockingIOError:
            pass
