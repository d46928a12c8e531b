"""How much memory the reading of one task may take: leases of two parts of the process's memory budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kafkasource.kafka import memory
from kafkasource.kafka.fetch.config import FetchSettings
from kafkasource.kafka.network.receive_memory import FRAMES
from kafkasource.kafka.records.compression import PIECE_BYTES

_PORTION_BYTES = 1 << 20  # larger ones take more memory and gain little time
_PIECES = 16  # two pieces exist at a time; keys and values are reserved twice, small records grow sixfold as columns


@dataclass(slots=True)
class FetchMemory:
    """The bounds of one task. They change while it reads, when parts of the budget are lent or taken back.

    Any thread sets the bounds; the task's thread reads them.
    """

    fetch_bytes: int  # one fetch, if the broker is near
    in_flight_bytes: int  # all fetches of the task that are not answered yet
    portion_bytes: int  # the part of an answer that the task decodes at a time
    piece_bytes: int = PIECE_BYTES  # decompressed records that the task decodes at a time
    process: memory.Budget | None = None  # counts the rows; None: the rows are not counted

    @classmethod
    def of(cls, settings: FetchSettings) -> FetchMemory:
        """The bounds that the settings alone give, without a memory budget."""
        portion_bytes = min(settings.max_partition_bytes, _PORTION_BYTES)
        return cls(settings.max_partition_bytes, settings.most_in_flight_bytes, portion_bytes)

    def saw_rows(self) -> None:
        """The task calls this after each piece that it has decoded, while the piece is in memory."""
        if self.process is not None:
            self.process.saw_rows()


@contextmanager
def leased_memory(settings: FetchSettings) -> Iterator[FetchMemory]:
    """The memory of one task, while it reads."""
    budget = memory.process_budget()
    found = FetchMemory.of(settings)
    portion_bytes = found.portion_bytes
    found.process = budget

    def receive(size: int) -> None:
        most = size // FRAMES
        found.fetch_bytes = min(settings.max_partition_bytes, most)
        found.in_flight_bytes = min(settings.most_in_flight_bytes, most)

    def decode(size: int) -> None:
        found.piece_bytes = min(PIECE_BYTES, size // _PIECES)
        found.portion_bytes = min(portion_bytes, size // _PIECES)

    receiving = memory.MemoryDemand(FRAMES * settings.most_in_flight_bytes, settings.named_size)
    decoding = memory.MemoryDemand(_PIECES * PIECE_BYTES)
    total = settings.memory_budget_bytes
    with (
        budget.lease(memory.RECEIVE, receiving, receive, total_bytes=total),
        budget.lease(memory.DECODED, decoding, decode, total_bytes=total),
    ):
        yield found
