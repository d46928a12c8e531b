"""Arrow's native memory, charged to a part of the budget from its allocation until nothing views it any more.

The charge follows the memory itself: a weak reference to the Arrow buffer calls back when the buffer is gone. That
happens in any thread, at any moment, so the callback only puts a number into a deque. `Account` adds the numbers up
when somebody asks, or when the next block is made. A block costs a microsecond, each use of it nothing.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque

import pyarrow as pa

# Blocks live longer than a task, so they never come from a pool that a program sets for a while (`pa.set_memory_pool`):
# giving memory back to a pool that is gone ends the process.
_POOL = pa.default_memory_pool()


class _Charge(weakref.ref[pa.Buffer]):
    __slots__ = ("size",)
    size: int


class Account:
    """Counts the bytes of live blocks. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._charges: dict[int, _Charge] = {}  # a weak reference calls back only while it is kept
        self._gone: deque[int] = deque()
        self._used = 0
        self._peak = 0

    def allocate(self, size: int) -> pa.Buffer:
        """New memory, not zeroed. Raises MemoryError."""
        buffer = pa.allocate_buffer(size, _POOL)
        charge = _Charge(buffer, self._discharge)
        charge.size = size
        self._charges[id(charge)] = charge
        with self._lock:
            self._settle()
            self._used += size
            self._peak = max(self._peak, self._used)
        return buffer

    def view(self, size: int) -> memoryview:
        """The same memory as a view of bytes. It lives as long as any view of it."""
        return memoryview(self.allocate(size)).cast("B")

    @property
    def used_bytes(self) -> int:
        with self._lock:
            self._settle()
            return self._used

    @property
    def peak_bytes(self) -> int:
        return self._peak

    def reset_peak(self) -> None:
        with self._lock:
            self._settle()
            self._peak = self._used

    def after_fork(self) -> None:
        """A forked child calls this first: a thread of the parent may have held the lock."""
        self._lock = threading.Lock()

    def _discharge(self, charge: _Charge) -> None:
        """Takes no lock: a garbage collection may call it anywhere, even while this thread holds our own lock."""
        self._charges.pop(id(charge), None)
        self._gone.append(charge.size)

    def _settle(self) -> None:
        while self._gone:
            self._used -= self._gone.popleft()


class Block:
    """One buffer that is used again once nothing views it. `FrameBuffers` keeps them."""

    __slots__ = ("_buffer", "_lent", "size")

    def __init__(self, account: Account, size: int) -> None:
        self._buffer = account.allocate(size)
        self._lent: weakref.ref[pa.Buffer] | None = None  # the buffer that all views share
        self.size = size

    def view(self) -> memoryview:
        lent = None if self._lent is None else self._lent()
        if lent is None:
            lent = pa.py_buffer(self._buffer)
            self._lent = weakref.ref(lent)
        return memoryview(lent).cast("B")

    @property
    def is_free(self) -> bool:
        return self._lent is None or self._lent() is None
