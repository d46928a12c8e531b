"""The memory budget of a process: which parts are in use, how much each task may take, and what the parts hold.

A task takes a *lease* of each part that it uses, for as long as it runs. A part that no task leases lends its share to
the others (`shares.divide`); the leases of one part share it equally. The budget tells each lease how many bytes it may
take: at once, and whenever that number changes.

When a second task starts, it gets its share at once. The first task gives borrowed memory back only as its data is
decoded or acknowledged. Until then the process may exceed the budget by the amount that was borrowed, never by more.
So no task waits for another.

A size that the user set by name is granted even where it is above the part's share, and the log says so. A size that
nobody named is a default of the option table. A derived budget only ever lowers it; a budget that the user named is
used to the full.

Any thread may call. Where tasks of several queries run in a process, the latest `memoryBudget` counts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary, WeakSet

import pyarrow as pa

from kafkasource.kafka.memory.blocks import Account
from kafkasource.kafka.memory.limits import Limit
from kafkasource.kafka.memory.shares import PARTS, divide

log = logging.getLogger("kafkasource.memory")

Changed = Callable[[int], None]


@dataclass(frozen=True)
class MemoryDemand:
    """The amount of a part that a lease wants."""

    default_bytes: int
    named: str | None = None  # the option that set `default_bytes`, if the user gave it: granted whatever the share is
    least_bytes: int = 0  # the task cannot work with less

    def granted(self, share: int, *, budget_named: bool) -> int:
        if self.named is not None:
            return self.default_bytes
        wanted = share if budget_named else min(share, self.default_bytes)
        return max(wanted, min(self.least_bytes, self.default_bytes))


class Trimmable:
    """Keeps memory between tasks, and gives it up when another task needs some."""

    def trim(self) -> None:
        raise NotImplementedError


class PartMemory(Trimmable):
    """Keeps memory of a part for all tasks that lease the part, without a lease of its own.

    The budget calls both methods in any thread, under its lock, so they must not wait for another lock. It calls `trim`
    when tasks lease other parts and none leases this one.
    """

    def resize(self, granted: Sequence[int]) -> None:
        """`granted`: the bytes that each lease of the part may take now; there is at least one lease."""
        raise NotImplementedError


@dataclass(eq=False)
class _Lease:
    part: str
    wish: MemoryDemand
    changed: Changed
    holder: object  # the leases of one holder count once
    bytes: int = -1


class Budget:
    """See the module. `limit` holds where the user names no budget."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self.on_idle: Callable[[], None] = lambda: None  # called when the last lease ends, and so a task
        self.peaks_of_tasks = False  # does the first lease of an idle process reset the peaks?
        self.rows_peak_bytes = 0  # the peak of `rows_bytes`, as `saw_rows` saw it
        self.accounts = {share.name: Account() for share in PARTS}
        self._derived = limit
        self._named = False
        self._lock = threading.RLock()
        self._leases: list[_Lease] = []
        self._keepers: WeakSet[Trimmable] = WeakSet()
        self._part_keepers: WeakKeyDictionary[PartMemory, str] = WeakKeyDictionary()
        self._warned_of: set[tuple[str, str]] = set()

    @property
    def total_bytes(self) -> int:
        return self.limit.bytes

    @property
    def granted_bytes(self) -> dict[str, int]:
        """The bytes that each part may hold now: what its leases were granted; 0 for a part that no task uses."""
        with self._lock:
            found = dict.fromkeys(self.accounts, 0)
            for lease in {id(lease.holder): lease for lease in self._leases}.values():
                found[lease.part] += lease.bytes
            return found

    @contextmanager
    def lease(
        self,
        part: str,
        wish: MemoryDemand,
        changed: Changed,
        *,
        total_bytes: int | None = None,
        keeper: Trimmable | None = None,
    ) -> Iterator[None]:
        """Use a part. The budget calls `changed` with the bytes that may be taken: now, and when that number changes.

        It calls in any thread. `total_bytes`: the option `memoryBudget`. `keeper` holds the memory, in one or several
        leases at a time, and may keep some of it afterwards. The budget trims it when another holder takes a lease
        while the keeper has none.
        """
        lease = _Lease(part, wish, changed, keeper or object())
        with self._lock:
            was_idle = not self._leases
            self._set_total(total_bytes)
            if keeper is not None:
                self._keepers.add(keeper)
            self._leases.append(lease)
            self._trim_idle()
            self._share_out()
            if was_idle and self.peaks_of_tasks:
                self.reset_peaks()  # this task's peaks do not count what the task before has kept
        try:
            yield
        finally:
            with self._lock:
                self._leases.remove(lease)
                self._share_out()
                idle = not self._leases
            if idle:
                self.on_idle()

    def keep(self, part: str, keeper: PartMemory) -> None:
        """Resize or trim `keeper` now and whenever the leases of the part change. A second call costs nothing.

        While no task leases anything, nothing is called. A keeper that was never resized may keep nothing.
        """
        if keeper in self._part_keepers:
            return
        with self._lock:
            self._part_keepers[keeper] = part
            self._resize_keepers()

    @property
    def rows_bytes(self) -> int:
        """Arrow's native memory that is charged to no part: all Arrow batches."""
        charged = sum(account.used_bytes for account in self.accounts.values())
        native: int = pa.total_allocated_bytes()
        return max(0, native - charged)

    def saw_rows(self) -> None:
        """A task calls this when it has just made a piece of rows, to keep the peak of `rows_bytes`."""
        self.rows_peak_bytes = max(self.rows_peak_bytes, self.rows_bytes)

    def reset_peaks(self) -> None:
        """Start the peaks again: those of blocks with the blocks held now, that of rows with the next rows."""
        for account in self.accounts.values():
            account.reset_peak()
        self.rows_peak_bytes = 0

    def after_fork(self) -> None:
        """A forked child calls this first: the leases are those of the parent's threads, which do not run in it."""
        self._lock = threading.RLock()
        self._leases.clear()
        self._keepers.clear()
        for keeper in list(self._part_keepers):  # the child has no use for what the parent's tasks have kept
            keeper.trim()
        for account in self.accounts.values():
            account.after_fork()

    # Under the lock.

    def _set_total(self, named_bytes: int | None) -> None:
        limit = self._derived if named_bytes is None else Limit(named_bytes, "the option 'memoryBudget'")
        if limit != self.limit:
            log.debug("memory budget: %d bytes, from %s", limit.bytes, limit.source)
        self.limit, self._named = limit, named_bytes is not None

    def _share_out(self) -> None:
        leases: tuple[_Lease, ...] | None = None
        while leases != tuple(self._leases):  # a garbage collection in here may end a lease
            leases = tuple(self._leases)
            self._grant(leases)
        self._resize_keepers()

    def _grant(self, leases: Sequence[_Lease]) -> None:
        counts: dict[str, int] = {}
        for lease in {id(lease.holder): lease for lease in leases}.values():
            counts[lease.part] = counts.get(lease.part, 0) + 1
        parts = divide(self.limit.bytes, counts)
        for lease in leases:
            share = parts[lease.part] // counts[lease.part]
            granted = lease.wish.granted(share, budget_named=self._named)
            if granted > share:
                self._warn(lease, granted, share)
            if granted != lease.bytes:
                lease.bytes = granted
                lease.changed(granted)

    def _resize_keepers(self) -> None:
        for keeper, part in list(self._part_keepers.items()):
            granted = [lease.bytes for lease in self._leases if lease.part == part and lease.bytes >= 0]
            if granted:
                keeper.resize(granted)
            elif self._leases:
                keeper.trim()

    def _trim_idle(self) -> None:
        holders = {id(lease.holder) for lease in self._leases}
        for keeper in list(self._keepers):
            if id(keeper) not in holders:
                keeper.trim()

    def _warn(self, lease: _Lease, granted: int, share: int) -> None:
        why = f"option {lease.wish.named!r}" if lease.wish.named else "the least that works"
        if (lease.part, why) not in self._warned_of:
            self._warned_of.add((lease.part, why))
            log.log(
                logging.WARNING if self._named else logging.INFO,
                "%s gives %d bytes to the part %r, more than its share of the memory budget (%d of %d, from %s)",
                why,
                granted,
                lease.part,
                share,
                self.limit.bytes,
                self.limit.source,
            )
