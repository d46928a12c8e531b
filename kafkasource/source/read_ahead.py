"""How much one task has under way: the size of the next fetch, decided from round trip and speed. No I/O, no clock.

One fetch in flight fills the way from the broker only where the answer comes before the last one is used up. So a fetch
asks for as many times `max.partition.fetch.bytes` as are used up during two round trips (one is waited for, one is the
transfer's share), at most `readAhead` times. A single larger fetch, not several at once: a fetch's end is known only
from its answer, so fetches side by side would guess where each begins, and a broker answers a guess within a batch with
the whole batch. Measured in docs/decisions.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkasource.records import header as h

_SLOWLY = 0.25  # the weight of the newest observation


class Pace:
    """How fast this task takes records in: decoding and whatever Spark does between two of our batches."""

    def __init__(self, fetch_bytes: int, read_ahead: int, most_bytes: int) -> None:
        self._fetch_bytes = fetch_bytes
        self._read_ahead = read_ahead
        self._most_bytes = max(most_bytes, fetch_bytes)  # that a client takes, or the user allows, at once
        self._bytes_per_second = 0.0

    def took(self, size_bytes: int, seconds: float) -> None:
        """So many bytes of records were used up in so much time, waiting for the broker not counted."""
        speed = size_bytes / max(seconds, 1e-6)
        known = self._bytes_per_second
        self._bytes_per_second = known + _SLOWLY * (speed - known) if known else speed

    def next_fetch_bytes(self, round_trip_s: float, others: int = 0) -> int:
        """What the next fetch may ask for. `others`: fetches of the task that are under way beside it."""
        on_the_way = 2 * round_trip_s * self._bytes_per_second
        fetches = min(-(-int(on_the_way) // self._fetch_bytes), self._read_ahead - others)
        return min(max(fetches, 1) * self._fetch_bytes, self._most_bytes)


def portions(records: memoryview | bytes, most_bytes: int) -> Iterator[memoryview]:
    """Cut what a large fetch brought between record batches, for each piece to be decoded and handed on by itself.

    A piece is larger than `most_bytes` by half at most, or a single batch. A cut last batch stays with the one before;
    what makes no sense stays whole, for the decoder to say so.
    """
    view = memoryview(records).cast("B")
    start = pos = 0
    size = len(view)
    while size - start > most_bytes + most_bytes // 2 and size - pos >= h.HEADER_BYTES:
        _, length = h.PREFIX.unpack_from(view, pos)[:2]
        end = pos + h.PREFIX_BYTES + length
        if length < h.MIN_BATCH_LENGTH or end > size:
            break
        if end - start > most_bytes and pos > start:
            yield view[start:pos]
            start = pos
        pos = end
    yield view[start:]
