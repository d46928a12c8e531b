"""Decides the size of each fetch of a task, and whether the task sends it before it needs the answer.

One object for each task, `FetchBudget`, owns all of it: the memory that the task may take (`memory`), the fetches that
are in flight, and the task's speed. The fetchers of the task's ranges ask it before each fetch, and say what the line
to their broker carries (`line`). No I/O, no clock.

The first fetch of a range asks for `FIRST_BYTES`, each later one for twice as much, up to `max.partition.fetch.bytes`:
large fetches are faster, and small ranges need few bytes.

One fetch in flight hides the way to the broker only where the answer comes before the last one is used up. So a fetch
asks for as many times this size as the task uses up during two round trips (one to wait for the answer, one as the
transfer's share), at most `readAhead` times. It is a single larger fetch, not several at once: only the answer says
where a fetch ends, so fetches side by side would guess where each begins, and a broker answers a guess within a batch
with the whole batch. Measured in docs/decisions/reading.md (16).
"""

from __future__ import annotations

from kafkasource.kafka.fetch.config import FetchSettings
from kafkasource.kafka.fetch.line import LEAST_BYTES
from kafkasource.kafka.fetch.memory import FetchMemory

FIRST_BYTES = 1 << 20  # of a range's first fetch, if the broker is near
_SLOWLY = 0.25  # the weight of the newest observation
_UNSEEN_BYTES = 2 << 20  # bytes that may be in flight while the line is not known


class FetchBudget:
    """The budget of one task. For one thread."""

    def __init__(self, settings: FetchSettings, memory: FetchMemory | None = None) -> None:
        """`memory`: the memory that the task may take. Without it the settings alone limit the task."""
        self.memory = memory or FetchMemory.of(settings)
        self._read_ahead = settings.read_ahead
        self._most_bytes = settings.most_at_once  # one fetch asks for no more
        self._fetches = 0  # in flight
        self.in_flight_bytes = 0  # bytes that the fetches in flight asked for
        self._bytes_per_second = 0.0  # how fast the task uses fetched bytes up; 0: not known yet

    def used_up(self, size_bytes: int, seconds: float) -> None:
        """The task decoded `size_bytes` of records and gave their rows to Spark. The time that it waited for brokers is
        not in `seconds`."""
        speed = size_bytes / max(seconds, 1e-6)
        known = self._bytes_per_second
        self._bytes_per_second = known + _SLOWLY * (speed - known) if known else speed

    def near_bytes(self, answers: int = 0) -> int:
        """The size of a range's next fetch from a near broker, after this many answers with records."""
        return min(self.memory.fetch_bytes, FIRST_BYTES << min(answers, 31))

    def may_send_ahead(self, line_bytes: int | None, answers: int = 0) -> bool:
        """May the range that the task reads send its next fetch early? `line_bytes`, `answers`: as in `next_size`."""
        if not self.in_flight_bytes:
            return True
        return (
            self.in_flight_bytes + self.near_bytes(answers) <= self.memory.in_flight_bytes
            and self._left_on_line(line_bytes) >= LEAST_BYTES
        )

    def may_begin(self, line_bytes: int | None) -> bool:
        """May a later range send its first fetch?"""
        return self._fetches < self._read_ahead and self.may_send_ahead(line_bytes)

    def next_size(self, round_trip_s: float, line_bytes: int | None, answers: int = 0) -> int:
        """The bytes that the next fetch of a range may ask for.

        `line_bytes`: the most that may be in flight from its broker (`PartitionClient.line_bytes`). Fetches that are in
        flight share it. `answers`: how many answers with records the range has had.
        """
        memory, others = self.memory, self._fetches
        fetch_bytes = self.near_bytes(answers)
        on_the_way = 2 * round_trip_s * self._bytes_per_second
        fetches = min(-(-int(on_the_way) // fetch_bytes), self._read_ahead - others)
        left = max(memory.in_flight_bytes - self.in_flight_bytes, fetch_bytes)
        wanted = min(max(fetches, 1) * fetch_bytes, self._most_bytes, left)
        sharing = max(self._read_ahead - others, 1) if others else 1
        return min(wanted, max(self._left_on_line(line_bytes) // sharing, self._least(line_bytes)))

    def _least(self, line_bytes: int | None) -> int:
        """The least that a fetch asks for. A known line can carry one share more, because `line` leaves a reserve of
        two thirds. Answers of later ranges count as in flight until their turn comes. Without this least size they
        would leave the range that the task reads very small fetches."""
        return LEAST_BYTES if line_bytes is None else max(line_bytes // self._read_ahead, LEAST_BYTES)

    def sent(self, size_bytes: int) -> None:
        """The task sent a fetch that asks for `size_bytes`."""
        self._fetches += 1
        self.in_flight_bytes += size_bytes

    def ended(self, size_bytes: int) -> None:
        """Such a fetch was answered, has failed, or was given up."""
        self._fetches -= 1
        self.in_flight_bytes -= size_bytes

    def _left_on_line(self, line_bytes: int | None) -> int:
        return (_UNSEEN_BYTES if line_bytes is None else line_bytes) - self.in_flight_bytes
