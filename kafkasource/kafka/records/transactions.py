"""Finds the batches that an aborted transaction hides from read_committed, as Java's CompletedFetch does."""

from __future__ import annotations

import struct
from collections.abc import Iterable

_CONTROL_KEY = struct.Struct(">hh")  # of a control record: version, type; later versions may add fields (KIP-98)
_ABORT = 0


class AbortedTransactions:
    """Fetch's list of (producer id, first offset): a transaction begins there and ends with its producer's marker."""

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        self._queue = sorted(transactions, key=lambda transaction: -transaction[1])  # not begun, last first
        self._open: dict[int, int] = {}  # producer id of those begun and not ended: first offset

    def advance(self, next_offset: int) -> None:
        """Transactions that begin below this offset have begun."""
        while self._queue and self._queue[-1][1] < next_offset:
            producer_id, first_offset = self._queue.pop()
            self._open[producer_id] = first_offset

    def hides(self, producer_id: int) -> bool:
        return producer_id in self._open

    def end(self, producer_id: int) -> None:
        """Its abort marker was read: the producer's records behind it belong to another transaction."""
        del self._open[producer_id]

    def remaining(self) -> tuple[tuple[int, int], ...]:
        """The aborted transactions for the call that continues."""
        return (*self._open.items(), *reversed(self._queue))


def is_abort_marker(section: memoryview) -> bool | None:
    """Does the first record of a control batch abort? None: it has no key that says so."""
    end = len(section)
    length, pos = _read_varint(section, 0)
    if length < 0 or length > end - pos:
        return None
    _, pos = _read_varint(section, pos + 1)  # past the attributes: timestamp delta
    _, pos = _read_varint(section, pos)  # offset delta
    size, pos = _read_varint(section, pos)
    if not _CONTROL_KEY.size <= size <= end - pos:
        return None
    version, kind = _CONTROL_KEY.unpack_from(section, pos)
    return bool(kind == _ABORT) if version >= 0 else None


def _read_varint(data: memoryview, pos: int) -> tuple[int, int]:
    raw = 0
    for i, byte in enumerate(data[pos : pos + 10]):
        raw |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), pos + i + 1
    return -1, len(data)
