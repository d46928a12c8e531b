"""The memory for unsent record batches, with one limit per executor worker process (`kafka.buffer.memory`).

Kafka's BufferPool. It keeps buffers of one size, the poolable one (`kafka.batch.size`), on a free list and uses them
again; the list starts empty. Any other size comes from the non-pooled part, and the garbage collector takes it
afterwards. When the non-pooled part runs short, the pool gives up free buffers for it. When memory runs out, callers
wait in the order they came. Returned memory goes to the oldest waiter, which may collect its bytes in several steps;
the rest goes to the next. This pool is stricter than Kafka's: while a caller waits, it serves no later one, even if
there is memory for that one, so that a large request cannot starve behind small ones.

The limit moves with the process's memory budget (`resize`). Memory in use stays with its owner. Until enough of it has
come back, the non-pooled part is below zero, and the pool keeps no buffer and serves no caller. The same holds while a
caller has a buffer that is larger than the whole pool (`beyond`): it got the buffer when nobody else held any.

Invariants, under the lock: non_pooled + len(free) * poolable + in use + gathered by waiters == total, and no buffer is
free while non_pooled < 0.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from kafkasource.errors import ClientClosed, DeadlineExceeded, KafkaSourceError, explained
from kafkasource.kafka import memory

Buffer = bytearray | memoryview


class AllocationTooLarge(KafkaSourceError):
    """A caller asked for more bytes than the whole pool has: waiting can never help."""


class BufferPoolExhausted(DeadlineExceeded):
    """The pool had not enough memory within `kafka.max.block.ms`."""


class BufferPool(memory.Trimmable):
    """At most `total_bytes` in the hands of callers at any time, or one larger buffer. Every method may be called from
    any thread."""

    def __init__(
        self,
        total_bytes: int,
        poolable_bytes: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        new_memory: Callable[[int], Buffer] | None = None,
    ) -> None:
        """`new_memory` makes buffers; by default on the heap."""
        self.total_bytes = total_bytes
        self._new_memory = new_memory
        self.poolable_bytes = poolable_bytes
        self._clock = clock  # seconds
        self._lock = threading.Lock()
        self._free: deque[Buffer] = deque()
        self._non_pooled_bytes = total_bytes
        self._in_use: dict[int, Buffer] = {}  # by id: what callers hold
        self._gathered_bytes = 0  # by waiters
        self._waiters: deque[threading.Condition] = deque()
        self._closed = False

    @property
    def available_bytes(self) -> int:
        """The bytes that the pool could hand out now, without those that a waiter has gathered already."""
        with self._lock:
            return self._available()

    @property
    def queued(self) -> int:
        """Callers waiting for memory. While there are any, batches are sent without lingering."""
        with self._lock:
            return len(self._waiters)

    @property
    def in_use_bytes(self) -> int:
        """The bytes that callers hold."""
        with self._lock:
            return self._in_use_bytes()

    def allocate(
        self, size: int, max_block_ms: int, on_wait: Callable[[], None] | None = None, *, beyond: bool = False
    ) -> Buffer:
        """A buffer of exactly `size` bytes. A buffer that was used before is not zeroed.

        Waits up to `max_block_ms` for memory, behind callers that came earlier. It calls `on_wait` once before it
        waits, which wakes the sender, whose replies free memory. `beyond`: `size` may be more than the pool has; then
        the caller waits until nobody holds any of it. Raises AllocationTooLarge at once, BufferPoolExhausted after
        waiting (the gathered memory goes back), ClientClosed when the pool is closed meanwhile.
        """
        if size > self.total_bytes and not beyond:
            raise AllocationTooLarge(
                f"{size} bytes asked for, but 'kafka.buffer.memory' is {self.total_bytes}: raise it, or make the "
                "records smaller"
            )
        with self._lock:
            self._check_open()
            if not self._waiters and self._available() >= size:
                pooled = self._take(size)
            else:
                pooled = self._wait_for(size, max_block_ms, on_wait, beyond)
        return self._handed_out(pooled, size)

    def try_allocate(self, size: int) -> Buffer | None:
        """A buffer as from `allocate`. None: this caller would have to wait, or another caller waits. Raises
        ClientClosed."""
        with self._lock:
            self._check_open()
            if self._waiters or self._available() < size:
                return None
            pooled = self._take(size)
        return self._handed_out(pooled, size)

    def _handed_out(self, pooled: Buffer | None, size: int) -> Buffer:
        """A free buffer, or new memory, which is accounted for already. Called without the lock, because new memory
        takes time."""
        buffer = pooled
        if buffer is None:
            try:
                buffer = bytearray(size) if self._new_memory is None else self._new_memory(size)
            except MemoryError:
                with self._lock:
                    self._non_pooled_bytes += size
                    self._wake_first()
                raise
        self._in_use[id(buffer)] = buffer
        return buffer

    def deallocate(self, buffer: Buffer) -> None:
        """Give back a buffer of `allocate`. The caller keeps no view of it: its bytes will be overwritten.

        Raises ValueError for a buffer that was given back before: another caller may have it by now.
        """
        with self._lock:
            if self._in_use.get(id(buffer)) is not buffer:
                raise ValueError("this buffer is not of this pool, or was given back already")
            del self._in_use[id(buffer)]
            if len(buffer) == self.poolable_bytes and not self._closed and self._non_pooled_bytes >= 0:
                self._free.append(buffer)
            else:
                self._non_pooled_bytes += len(buffer)
            self._wake_first()

    def resize(self, total_bytes: int) -> None:
        """Move the limit. Waiting callers look again; a caller that wants more than the new limit never gets it."""
        with self._lock:
            self._non_pooled_bytes += total_bytes - self.total_bytes
            self.total_bytes = total_bytes
            self._free_up(0)
            self._wake_first()

    def trim(self) -> None:
        """Give up the memory that is kept for use again."""
        with self._lock:
            self._non_pooled_bytes += len(self._free) * self.poolable_bytes
            self._free.clear()

    def close(self) -> None:
        """Refuse all calls from now on, and let every waiter fail. Buffers in use may still be given back."""
        with self._lock:
            self._closed = True
            for waiter in self._waiters:
                waiter.notify()

    # Under the lock from here on.

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the producer's buffer pool is closed")

    def _available(self) -> int:
        return self._non_pooled_bytes + len(self._free) * self.poolable_bytes

    def _in_use_bytes(self) -> int:
        return self.total_bytes - self._available() - self._gathered_bytes

    def _take(self, size: int) -> Buffer | None:
        """Account for `size` available bytes; a free buffer where one fits, None where a new one must be made."""
        if size == self.poolable_bytes and self._free:
            return self._free.popleft()
        self._free_up(size)
        self._non_pooled_bytes -= size
        return None

    def _free_up(self, size: int) -> None:
        """Drop free buffers until the non-pooled part has `size` bytes, or there are none left to drop."""
        while self._free and self._non_pooled_bytes < size:
            self._free.pop()
            self._non_pooled_bytes += self.poolable_bytes

    def _wait_for(
        self, size: int, max_block_ms: int, on_wait: Callable[[], None] | None, beyond: bool
    ) -> Buffer | None:
        """Wait in line until `size` bytes are gathered; as `_take`."""
        more_memory = threading.Condition(self._lock)
        deadline = self._clock() + max_block_ms / 1000
        gathered = 0
        buffer: Buffer | None = None
        self._waiters.append(more_memory)
        try:
            if on_wait is not None:
                on_wait()  # only now: the sender that it wakes must find this caller in line
            while buffer is None and gathered < size:
                if self._waiters[0] is more_memory:
                    if gathered == 0 and size == self.poolable_bytes and self._free:
                        buffer = self._free.popleft()
                        continue
                    self._free_up(size - gathered)
                    alone = beyond and size > self.total_bytes and not self._in_use_bytes()
                    got = size - gathered if alone else max(0, min(size - gathered, self._non_pooled_bytes))
                    self._non_pooled_bytes -= got
                    self._gathered_bytes += got
                    gathered += got
                    if gathered == size:
                        continue
                remaining = deadline - self._clock()
                if remaining <= 0:
                    raise BufferPoolExhausted(
                        f"no room for {size} bytes in 'kafka.buffer.memory' within 'kafka.max.block.ms' "
                        f"({max_block_ms}): of {self.total_bytes} bytes {self._in_use_bytes()} are in use in "
                        f"{len(self._in_use)} buffers, and {len(self._waiters) - 1} others wait. Raise one of the two "
                        "options, or find out why brokers acknowledge so slowly "
                        f"{explained('in-kafkabuffermemory-within-kafkamaxblockms')}"
                    )
                more_memory.wait(remaining)
                self._check_open()
        except BaseException:
            self._non_pooled_bytes += gathered
            raise
        finally:
            self._gathered_bytes -= gathered
            self._waiters.remove(more_memory)
            self._wake_first()
        return buffer

    def _wake_first(self) -> None:
        """Let the oldest waiter look again: the waiter before may have left enough memory for it."""
        if self._waiters and (self._free or self._non_pooled_bytes > 0 or self._closed or not self._in_use_bytes()):
            self._waiters[0].notify()
