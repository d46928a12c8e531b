"""What one task may have in flight: the size of each fetch, and whether it is sent before anybody waits for it.

One object for each task, `FetchBudget`, owns all of it: the memory that the task may take (`memory`), the fetches that
are in flight, and the task's speed. The fetchers of the task's ranges ask it before each fetch, and say what the line
to their broker carries (`line`). No I/O, no clock.

One fetch in flight hides the way to the broker only where the answer comes before the last one is used up. So a fetch
asks for as many times `max.partition.fetch.bytes` as the task uses up during two round trips (one to wait for the
answer, one as the transfer's share), at most `readAhead` times. It is a single larger fetch, not several at once: only
the answer says where a fetch ends, so fetches side by side would guess where each begins, and a broker answers a guess
within a batch with the whole batch. Measured in docs/decisions/reading.md (16).
"""

from __future__ import annotations

from kafkasource.source.fetch.config import FetchSettings
from kafkasource.source.fetch.line import LEAST_BYTES
from kafkasource.source.fetch.memory import FetchMemory

_SLOWLY = 0.25  # the weight of the newest observation
_BESIDE_UNSEEN = 1 << 20  # that fetches beside the first may ask for, all together, before the line is known


class FetchBudget:
    """One task's. Not for several threads."""

    def __init__(self, settings: FetchSettings, memory: FetchMemory | None = None) -> None:
        """`memory`: what the task may take of the process's; without it the settings alone are the bound."""
        self.memory = memory or FetchMemory.of(settings)
        self._read_ahead = settings.read_ahead
        self._most_bytes = settings.most_at_once  # of one fetch
        self._fetches = 0  # in flight
        self.in_flight_bytes = 0  # that these asked for
        self._bytes_per_second = 0.0  # that the task uses up; 0: not known yet

    def used_up(self, size_bytes: int, seconds: float) -> None:
        """The task decoded so many bytes of records and gave their rows to Spark; waiting for brokers not counted."""
        speed = size_bytes / max(seconds, 1e-6)
        known = self._bytes_per_second
        self._bytes_per_second = known + _SLOWLY * (speed - known) if known else speed

    def may_send_ahead(self, line_bytes: int | None) -> bool:
        """May the range that is read send a fetch that nobody waits for yet? `line_bytes`: as in `next_size`."""
        if not self.in_flight_bytes:
            return True
        memory = self.memory
        return (
            self.in_flight_bytes + memory.fetch_bytes <= memory.in_flight_bytes
            and self._left_on_line(line_bytes) >= LEAST_BYTES
        )

    def may_begin(self, line_bytes: int | None) -> bool:
        """May a range behind the one that is read send its first fetch?"""
        return self._fetches < self._read_ahead and self.may_send_ahead(line_bytes)

    def next_size(self, round_trip_s: float, line_bytes: int | None) -> int:
        """The bytes that the next fetch may ask for.

        `line_bytes`: the most that may be in flight from its broker (`PartitionClient.line_bytes`). Fetches that are in
        flight share it.
        """
        memory, others = self.memory, self._fetches
        fetch_bytes = memory.fetch_bytes
        on_the_way = 2 * round_trip_s * self._bytes_per_second
        fetches = min(-(-int(on_the_way) // fetch_bytes), self._read_ahead - others)
        left = max(memory.in_flight_bytes - self.in_flight_bytes, fetch_bytes)
        wanted = min(max(fetches, 1) * fetch_bytes, self._most_bytes, left)
        sharing = max(self._read_ahead - others, 1) if others else 1
        return min(wanted, max(self._left_on_line(line_bytes) // sharing, self._least(line_bytes)))

    def _least(self, line_bytes: int | None) -> int:
        """A known line has room for one share more: `line` leaves a reserve of two thirds. Answers of later ranges that
        have come and wait for their turn count as in flight, and must not leave crumbs to the range that is read."""
        return LEAST_BYTES if line_bytes is None else max(line_bytes // self._read_ahead, LEAST_BYTES)

    def sent(self, size_bytes: int) -> None:
        """A fetch that asks for so many bytes has left."""
        self._fetches += 1
        self.in_flight_bytes += size_bytes

    def ended(self, size_bytes: int) -> None:
        """That fetch is answered, has failed, or nobody waits for its answer any more."""
        self._fetches -= 1
        self.in_flight_bytes -= size_bytes

    def _left_on_line(self, line_bytes: int | None) -> int:
        carries = self.memory.fetch_bytes + _BESIDE_UNSEEN if line_bytes is None else line_bytes
        return carries - self.in_flight_bytes
