"""Lets producers of several clusters compress once: batches of the same records have the same compressed records.

Which records a batch has is known by its origin, without a look at them: the rows that were handed over, and which of
them it took. Rows are shared (`SharedRows`) by producers that got the same columns in the same order. The producer that
closes the first of several equal batches compresses it, and the others copy the result. Batches are equal as long as
they end at the same rows. Each producer ends a batch when it is full, has lingered, or must free memory, so after a
pause of one cluster they differ. Hence one cluster of those that share rows leads: where it begins a batch the others
end theirs, so that they are equal again from there on (decision 168).
"""

from __future__ import annotations

import random
import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, field

from kafkasource.kafka.records.compression import compress

_Rows = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class SharedRows:
    """Rows that the producers of several clusters get: the same columns in the same order. For the task's thread."""

    number: int  # no other rows of the task have it
    clusters: int  # that get them
    leads: bool  # does the cluster that appends them now begin its batches where it likes?
    begins: list[int]  # the positions in the order at which the leading cluster has begun batches, sorted

    def began(self, position: int) -> None:
        """A batch begins with the row at this position."""
        if self.leads:
            insort(self.begins, position)

    def end(self, first: int, last: int, *, new: bool) -> int:
        """Decide where a batch that takes the rows at [first, last) must end. `new`: it begins with them."""
        if self.leads:
            return last
        place = bisect_right(self.begins, first) if new else bisect_left(self.begins, first)
        return min(last, self.begins[place]) if place < len(self.begins) else last


@dataclass(slots=True)
class Origin:
    """The rows of a batch: the shared rows, and the part of them. The task's thread fills it, then the sender thread
    reads it."""

    clusters: int
    _taken: list[tuple[int, int, int]] = field(default_factory=list)
    _known: bool = True

    def took(self, shared: SharedRows | None, first: int, last: int) -> None:
        """The batch has got the rows at [first, last)."""
        if shared is None:
            self._known = False
        elif first < last:
            self._taken.append((shared.number, first, last))

    def lost(self) -> None:
        """Nobody knows which rows the batch has got."""
        self._known = False

    @property
    def key(self) -> _Rows | None:
        """Equal for batches of the same rows in the same order. None: no other batch has them."""
        return tuple(self._taken) if self._known else None


class _Compressed:
    """Compressed records, or that a thread makes them."""

    __slots__ = ("records", "takers")

    def __init__(self, takers: int) -> None:
        self.takers = takers  # how many batches may still take them
        self.records: memoryview | None = None


_Key = tuple[_Rows, int, int, "int | None"]


class Compressor:
    """Compresses each batch's records once for the clusters of one task. For sender threads.

    It keeps a result until every cluster has taken it, but at most `limit_bytes` of them together. Beyond that it
    drops some, and a cluster that is far behind compresses these again. The choice is random: if the oldest went,
    such a cluster would find none of its batches.
    """

    def __init__(self, limit_bytes: Callable[[], int], new_memory: Callable[[int], memoryview]) -> None:
        self._limit_bytes = limit_bytes
        self._new_memory = new_memory
        self._changed = threading.Condition()
        self._found: dict[_Key, _Compressed] = {}
        self._under_way: set[_Rows | None] = set()
        self._bytes = 0

    def under_way(self, origin: Origin) -> bool:
        """Does a thread compress the records of a batch of this origin at this moment?"""
        return origin.key in self._under_way

    def compress(self, origin: Origin, codec: int, data: memoryview, level: int | None) -> bytes | memoryview:
        """Compress `data`, the records of a batch of this origin, or take the kept result."""
        rows = origin.key
        if rows is None:
            return compress(codec, data, level)
        key: _Key = (rows, len(data), codec, level)
        with self._changed:
            while (found := self._found.get(key)) is not None and found.records is None:
                self._changed.wait()  # another thread compresses them
            if found is not None:
                return self._take(key, found)
            making = self._found[key] = _Compressed(origin.clusters - 1)
            self._under_way.add(rows)
        try:
            records = compress(codec, data, level)
            with self._changed:
                self._keep(making, records)
            return records
        finally:
            with self._changed:
                self._under_way.discard(rows)
                if making.records is None:  # not kept
                    del self._found[key]
                self._changed.notify_all()

    # Under the lock.

    def _take(self, key: _Key, found: _Compressed) -> memoryview:
        assert found.records is not None
        found.takers -= 1
        if not found.takers:
            self._drop(key, found)
        return found.records

    def _keep(self, making: _Compressed, records: bytes) -> None:
        limit = self._limit_bytes()
        if len(records) > limit:
            return
        while self._bytes + len(records) > limit:
            self._drop(*random.choice([each for each in self._found.items() if each[1].records is not None]))
        kept = self._new_memory(len(records))
        kept[:] = records
        making.records = kept
        self._bytes += len(kept)

    def _drop(self, key: _Key, found: _Compressed) -> None:
        assert found.records is not None
        self._bytes -= len(found.records)
        del self._found[key]
