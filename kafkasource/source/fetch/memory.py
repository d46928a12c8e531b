"""How much of the process's memory one task's reading may take, from leases of the budget's parts. See `memory`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkasource.client.receive_memory import FRAMES
from kafkasource.records.compression import PIECE_BYTES

if TYPE_CHECKING:
    from kafkasource.source.fetch.messages import FetchSettings

_PIECES = 16  # two pieces exist at a time; keys and values are reserved twice, small records grow sixfold as columns


@dataclass(slots=True)
class Room:
    """Bounds of one task; they change when parts are lent or taken back. Counts what is under way. One thread, but for
    the two bounds, which any thread sets."""

    fetch_bytes: int  # of one fetch where the broker is near
    most_under_way_bytes: int  # of all fetches of the task that are not answered yet
    portion_bytes: int  # of an answer, decoded at a time
    piece_bytes: int = PIECE_BYTES  # of decompressed records, decoded at a time
    under_way_bytes: int = 0
    made_rows: Callable[[], None] = lambda: None  # called for each piece, when it is in memory

    @property
    def for_another(self) -> bool:
        """May a fetch be sent that nobody waits for yet?"""
        return not self.under_way_bytes or self.under_way_bytes + self.fetch_bytes <= self.most_under_way_bytes

    def sent(self, size: int) -> None:
        self.under_way_bytes += size

    def done(self, size: int) -> None:
        """Answered, or nobody waits for it any more."""
        self.under_way_bytes -= size


def unbounded(settings: FetchSettings) -> Room:
    """As the settings alone say."""
    return Room(settings.max_partition_bytes, settings.most_under_way_bytes, settings.max_partition_bytes)


@contextmanager
def room_to_read(settings: FetchSettings) -> Iterator[Room]:
    """Of a task, while it reads."""
    from kafkasource import memory

    budget = memory.process_budget()
    room = unbounded(settings)
    room.made_rows = budget.saw_rows

    def receive(size: int) -> None:
        most = size // FRAMES
        room.fetch_bytes = min(settings.max_partition_bytes, most)
        room.most_under_way_bytes = min(settings.most_under_way_bytes, most)

    def decode(size: int) -> None:
        room.piece_bytes = min(PIECE_BYTES, size // _PIECES)
        room.portion_bytes = min(settings.max_partition_bytes, size // _PIECES)

    receiving = memory.Wish(FRAMES * settings.most_under_way_bytes, settings.named_size)
    decoding = memory.Wish(_PIECES * PIECE_BYTES)
    total = settings.memory_budget_bytes
    with (
        budget.lease(memory.RECEIVE, receiving, receive, total_bytes=total),
        budget.lease(memory.DECODED, decoding, decode, total_bytes=total),
    ):
        yield room
