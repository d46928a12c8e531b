"""Makes a streaming query's reader process send its last commit and leave its group at SIGTERM.

Spark ends that process with SIGTERM when a query stops, and calls `stop` only when it loses the connection first.
Python's own answer to the signal is to die on the spot.

Python runs a handler on the main thread, and only between two instructions. If the signal comes when the main thread is
about to enter a read, the handler waits as long as the read does. So a thread of ours watches Python's wakeup
descriptor, to which C code writes the signal's number at once (decision 33).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from typing import Protocol

from kafkasource.kafka.process import PerProcess

CLOSE_S = 3.0  # how long the query's end waits for its last commit
_DIE_AGAIN_S = 0.05
_END_OF_WATCH = 0  # no signal has this number
_NO_WAKEUP = -1


class Closable(Protocol):
    """Two threads may call `close` at once: that of the signal, and that of Spark, which lost its connection."""

    def close(self, timeout_s: float) -> None: ...


class _AtSigterm:
    """One process's reaction to SIGTERM: it closes its committers, then sends itself a second SIGTERM and dies of it.

    Another thread closes. The main thread may be interrupted where it holds a lock that closing needs; it gives that
    lock back only when the handler has returned. Spark sends the signal twice: a second one ends nothing early.
    """

    def __init__(self) -> None:
        self.open: dict[Closable, None] = {}  # in the order in which they were opened; the last is closed first
        self._begun = threading.Lock()  # taken by the thread that closes, and never given back
        self._is_closed = False
        self._signals: tuple[int, int] | None = None  # the pipe to whose second end C code writes

    # The main thread.

    def watch(self) -> None:
        if self._signals is None:
            self._signals = reads, writes = os.pipe()
            os.set_blocking(writes, False)  # as Python wants it
            threading.Thread(target=self._watch, args=[reads], name="kafkasource-signals", daemon=True).start()
            _replace_wakeup(_NO_WAKEUP, writes)

    def stop_watching(self) -> None:
        if self._signals is not None:
            _, writes = self._signals
            _replace_wakeup(writes, _NO_WAKEUP)
            os.write(writes, bytes([_END_OF_WATCH]))
            os.close(writes)
            self._signals = None

    def handle(self) -> None:
        """The handler of the signal."""
        if self._is_closed or not self._begin():
            _die_of_sigterm()

    # Any thread.

    def _begin(self) -> bool:
        """Start to close, if nobody has. False: the interpreter is about to end, and starts no thread any more."""
        if self._begun.acquire(blocking=False):
            try:
                threading.Thread(target=self._close, name="kafkasource-sigterm").start()
            except RuntimeError:
                self._begun.release()
                return False
        return True

    def _watch(self, reads: int) -> None:
        while (number := os.read(reads, 1)[0]) != _END_OF_WATCH:
            if number == signal.SIGTERM and signal.getsignal(signal.SIGTERM) is _terminated:
                self._begin()
        os.close(reads)

    def _close(self) -> None:
        try:
            for each in reversed(list(self.open)):
                each.close(CLOSE_S)
        finally:
            self._is_closed = True
            main = threading.main_thread().ident
            assert main is not None
            while True:  # here, too, a signal that comes just before a read does not end the read
                signal.pthread_kill(main, signal.SIGTERM)
                time.sleep(_DIE_AGAIN_S)

    # A forked child.

    def renew(self) -> None:
        """Nothing is open here, and the parent's thread must hear nothing of this process's signals."""
        if self._signals is not None:
            with suppress(ValueError):  # this is not the main thread
                _replace_wakeup(self._signals[1], _NO_WAKEUP)
            for each in self._signals:
                os.close(each)
        self.open, self._begun, self._is_closed, self._signals = {}, threading.Lock(), False, None


def _replace_wakeup(before: int, after: int) -> None:
    """Python has one wakeup descriptor. One that is neither of these is an event loop's, which needs it: then the
    handler must do without."""
    there = signal.set_wakeup_fd(after, warn_on_full_buffer=False)
    if there != before:
        signal.set_wakeup_fd(there)


def _die_of_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


_at_sigterm = PerProcess(_AtSigterm, renew=_AtSigterm.renew)


def close_at_sigterm(this: Closable) -> None:
    """Close this before the process dies of SIGTERM. Does nothing if there is another handler of the signal, or outside
    of the main thread."""
    at_sigterm = _at_sigterm.get()
    at_sigterm.open[this] = None
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminated)
        at_sigterm.watch()


def closed(this: Closable) -> None:
    """This is closed already, and has nothing to do at SIGTERM any more."""
    at_sigterm = _at_sigterm.get()
    at_sigterm.open.pop(this, None)
    on_main_thread = threading.current_thread() is threading.main_thread()
    if not at_sigterm.open and on_main_thread and signal.getsignal(signal.SIGTERM) is _terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        at_sigterm.stop_watching()


def _terminated(_signal: int, _frame: object) -> None:
    _at_sigterm.get().handle()
