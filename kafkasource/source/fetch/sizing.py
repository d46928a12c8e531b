"""How much one task has under way: the size of the next fetch, decided from round trip and speed. No I/O, no clock.

One fetch in flight fills the way from the broker only where the answer comes before the last one is used up. So a fetch
asks for as many times `max.partition.fetch.bytes` as are used up during two round trips (one is waited for, one is the
transfer's share), at most `readAhead` times. A single larger fetch, not several at once: a fetch's end is known only
from its answer, so fetches side by side would guess where each begins, and a broker answers a guess within a batch with
the whole batch. Measured in docs/decisions/reading.md (16). The memory budget bounds all of it (`memory`), and so does
what the line to the broker carries within a part of `request.timeout.ms` (`line`).
"""

from __future__ import annotations

from kafkasource.source.fetch.line import LEAST_BYTES
from kafkasource.source.fetch.memory import Room

_SLOWLY = 0.25  # the weight of the newest observation
_BESIDE_UNSEEN = 1 << 20  # that fetches beside the first may ask for, all together, before the line is known


class Pace:
    """How fast this task takes records in: decoding and whatever Spark does between two of our batches."""

    def __init__(self, fetch_bytes: int, read_ahead: int, most_bytes: int, room: Room | None = None) -> None:
        """`room`: the memory that the task may take; without it these numbers are all."""
        most_bytes = max(most_bytes, fetch_bytes)
        self.room = room or Room(fetch_bytes, read_ahead * most_bytes, fetch_bytes)
        self._read_ahead = read_ahead
        self._most_bytes = most_bytes  # that a client takes, or the user allows, at once
        self._bytes_per_second = 0.0

    def took(self, size_bytes: int, seconds: float) -> None:
        """So many bytes of records were used up in so much time, waiting for the broker not counted."""
        speed = size_bytes / max(seconds, 1e-6)
        known = self._bytes_per_second
        self._bytes_per_second = known + _SLOWLY * (speed - known) if known else speed

    def may_begin(self, line_bytes: int | None) -> bool:
        """May a fetch be sent that nobody waits for yet?"""
        room = self.room
        return room.for_another and (not room.under_way_bytes or self._left_on_line(line_bytes) >= LEAST_BYTES)

    def _left_on_line(self, line_bytes: int | None) -> int:
        carries = self.room.fetch_bytes + _BESIDE_UNSEEN if line_bytes is None else line_bytes
        return carries - self.room.under_way_bytes

    def next_fetch_bytes(self, round_trip_s: float, others: int = 0, line_bytes: int | None = None) -> int:
        """What the next fetch may ask for. `others`: fetches of the task that are under way beside it; `line_bytes`:
        what the line carries (`PartitionClient.line_bytes`), which fetches side by side share.
        """
        room = self.room
        fetch_bytes = room.fetch_bytes
        on_the_way = 2 * round_trip_s * self._bytes_per_second
        fetches = min(-(-int(on_the_way) // fetch_bytes), self._read_ahead - others)
        left = max(room.most_under_way_bytes - room.under_way_bytes, fetch_bytes)
        wanted = min(max(fetches, 1) * fetch_bytes, self._most_bytes, left)
        sharing = max(self._read_ahead - others, 1) if others else 1
        return min(wanted, max(self._left_on_line(line_bytes) // sharing, LEAST_BYTES))
