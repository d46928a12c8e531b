"""The budget of this process: who uses which part now, how much each may take, and what it holds.

A task takes a *lease* of each part that it uses, for as long as it runs. Parts that nobody leases lend their room to
the others (`shares.divide`); leases of one part share it equally. Whoever holds a lease is told what it may take, at
once and whenever that changes: a second lease takes back what was lent. What is held at that moment goes as it is
decoded or acknowledged, so for so long the whole may be above the budget, by what was lent and no more; who comes has
its own room from the start, so that nobody waits for somebody who waits for him.

What the user sets by name goes before a part's share, and that is said. Sizes that nobody named are the defaults of
the option table: a budget that was derived only ever lowers them; one that the user named is what he wants to be used.

Any thread; a process has one budget. The latest `memoryBudget` counts, where tasks of several queries run in a process.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary, WeakSet

import pyarrow as pa

from kafkasource.memory.blocks import Account
from kafkasource.memory.limits import Limit, derived
from kafkasource.memory.shares import PARTS, divide

LOG_FOLDER = "KAFKASOURCE_MEMORY_LOG"
"""Environment variable: a folder to which each process adds its gauges at the end of a task, see `report`."""

log = logging.getLogger("kafkasource.memory")

Told = Callable[[int], None]


@dataclass(frozen=True)
class Wish:
    """How much of a part a lease would take."""

    default_bytes: int  # where nobody says anything
    named: str | None = None  # the option by which the user has said `default_bytes`: it is taken, whatever the share
    least_bytes: int = 0  # nothing works with less

    def granted(self, share: int, *, budget_named: bool) -> int:
        if self.named is not None:
            return self.default_bytes
        wanted = share if budget_named else min(share, self.default_bytes)
        return max(wanted, min(self.least_bytes, self.default_bytes))


class Trimmable:
    """What may keep memory between tasks, to be given up when somebody else needs some."""

    def trim(self) -> None:
        raise NotImplementedError


class Keeper(Trimmable):
    """Keeps memory of a part for all who lease it, without a lease of its own. Both methods are called in any thread,
    under the budget's lock, so they may wait for no other lock. `trim`: others lease, and nobody this part."""

    def resize(self, granted: Sequence[int]) -> None:
        """What each lease of the part may take now; there is at least one."""
        raise NotImplementedError


@dataclass(eq=False)
class _Lease:
    part: str
    wish: Wish
    told: Told
    who: object  # leases of one holder count once
    bytes: int = -1


class Budget:
    """See the module. `limit`: of a process whose user names none."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self.on_idle: Callable[[], None] = lambda: None  # the last lease has ended: so has a task
        self.peaks_of_tasks = False  # do peaks begin anew when the first lease of an idle process is taken?
        self.rows_peak_bytes = 0  # of `rows_bytes`, where `saw_rows` looked
        self.accounts = {share.name: Account() for share in PARTS}
        self._derived = limit
        self._named = False
        self._lock = threading.RLock()
        self._leases: list[_Lease] = []
        self._keepers: WeakSet[Trimmable] = WeakSet()
        self._part_keepers: WeakKeyDictionary[Keeper, str] = WeakKeyDictionary()
        self._said: set[tuple[str, str]] = set()

    @property
    def total_bytes(self) -> int:
        return self.limit.bytes

    @property
    def granted_bytes(self) -> dict[str, int]:
        """What each part may hold now: of a part in use what its leases were granted, else 0."""
        with self._lock:
            found = dict.fromkeys(self.accounts, 0)
            for lease in {id(lease.who): lease for lease in self._leases}.values():
                found[lease.part] += lease.bytes
            return found

    @contextmanager
    def lease(
        self, part: str, wish: Wish, told: Told, *, total_bytes: int | None = None, keeper: Trimmable | None = None
    ) -> Iterator[None]:
        """Use a part. `told` is called with what may be taken, now and whenever that changes, in any thread.

        `total_bytes`: the option `memoryBudget`. `keeper` holds the memory, in one or several leases at a time, and may
        keep some of it afterwards; when somebody else takes a lease while it has none, it is told to give that up.
        """
        lease = _Lease(part, wish, told, keeper or object())
        with self._lock:
            was_idle = not self._leases
            self._set_total(total_bytes)
            if keeper is not None:
                self._keepers.add(keeper)
            self._leases.append(lease)
            self._trim_idle()
            self._share_out()
            if was_idle and self.peaks_of_tasks:
                self.reset_peaks()  # what the task before has kept is no part of this one's
        try:
            yield
        finally:
            with self._lock:
                self._leases.remove(lease)
                self._share_out()
                idle = not self._leases
            if idle:
                self.on_idle()

    def keep(self, part: str, keeper: Keeper) -> None:
        """Let it know what leases of the part may take, now and whenever that changes. Costs nothing the second time.

        Where nobody has leased the part yet, the keeper knows already that it may keep nothing.
        """
        if keeper in self._part_keepers:
            return
        with self._lock:
            self._part_keepers[keeper] = part
            self._tell_keepers()

    @property
    def rows_bytes(self) -> int:
        """What is native and charged to no part: Arrow batches, whoever made them."""
        charged = sum(account.used_bytes for account in self.accounts.values())
        native: int = pa.total_allocated_bytes()
        return max(0, native - charged)

    def saw_rows(self) -> None:
        """A piece of rows has just been made: is that the most there were?"""
        self.rows_peak_bytes = max(self.rows_peak_bytes, self.rows_bytes)

    def reset_peaks(self) -> None:
        """Begin anew: with the blocks that are held now, and with the rows that are made next."""
        for account in self.accounts.values():
            account.reset_peak()
        self.rows_peak_bytes = 0

    def after_fork(self) -> None:
        """In the child: leases and memory are those of the parent's threads, which are not here."""
        self._lock = threading.RLock()
        self._leases.clear()
        self._keepers.clear()
        for keeper in list(self._part_keepers):  # what the parent's tasks have left is of no use here
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
        told: tuple[_Lease, ...] | None = None
        while told != tuple(self._leases):  # a garbage collection in here may end a lease
            told = tuple(self._leases)
            self._tell(told)
        self._tell_keepers()

    def _tell(self, leases: Sequence[_Lease]) -> None:
        counts: dict[str, int] = {}
        for lease in {id(lease.who): lease for lease in leases}.values():
            counts[lease.part] = counts.get(lease.part, 0) + 1
        parts = divide(self.limit.bytes, counts)
        for lease in leases:
            share = parts[lease.part] // counts[lease.part]
            granted = lease.wish.granted(share, budget_named=self._named)
            if granted > share:
                self._say(lease, granted, share)
            if granted != lease.bytes:
                lease.bytes = granted
                lease.told(granted)

    def _tell_keepers(self) -> None:
        for keeper, part in list(self._part_keepers.items()):
            granted = [lease.bytes for lease in self._leases if lease.part == part and lease.bytes >= 0]
            if granted:
                keeper.resize(granted)
            elif self._leases:
                keeper.trim()

    def _trim_idle(self) -> None:
        holders = {id(lease.who) for lease in self._leases}
        for keeper in list(self._keepers):
            if id(keeper) not in holders:
                keeper.trim()

    def _say(self, lease: _Lease, granted: int, share: int) -> None:
        why = f"option {lease.wish.named!r}" if lease.wish.named else "the least that works"
        if (lease.part, why) not in self._said:
            self._said.add((lease.part, why))
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


_lock = threading.Lock()
_budget: Budget | None = None


def process_budget() -> Budget:
    """This process's budget, made on first use: in a task, where Spark tells how many run side by side."""
    global _budget
    if _budget is None:
        with _lock:
            if _budget is None:
                budget = Budget(derived())
                log.debug("memory budget: %d bytes, from %s", budget.total_bytes, budget.limit.source)
                folder = os.environ.get(LOG_FOLDER)
                if folder:
                    from kafkasource.memory.report import reporter

                    budget.on_idle = reporter(budget, folder)
                _budget = budget
    return _budget


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    if _budget is not None:
        _budget.after_fork()


os.register_at_fork(after_in_child=_after_fork)
