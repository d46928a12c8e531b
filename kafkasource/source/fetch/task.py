"""What one task fetches: its ranges one after the other, the coming ones begun before their turn.

Where nothing more of a range is to be sent, the first fetch of the one behind it is, so that a task of many small
ranges does not pay a round trip for each.

Bound: the task has at most `readAhead` x `max.partition.fetch.bytes` in flight, all its ranges together, or what the
memory budget leaves (`memory`), and one answer of at most that size held: twice that of wire bytes (or one larger batch
each).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kafkasource.source.fetch.fetcher import PartitionFetcher
from kafkasource.source.fetch.memory import room_to_read
from kafkasource.source.fetch.messages import FetchSettings
from kafkasource.types import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkasource.client.config import ClientConfig

__all__ = ["FetchSettings", "fetch", "in_order"]


class _InOrder:
    """The ranges of one task: the first is read, those behind it are begun where nothing more of it is to be sent."""

    def __init__(self, fetchers: Iterable[PartitionFetcher], read_ahead: int) -> None:
        self._waiting = deque(fetchers)
        self._begun: deque[PartitionFetcher] = deque()
        self._read_ahead = read_ahead
        for fetcher in self._waiting:
            fetcher.others_in_flight = self._others_in_flight
            fetcher.on_last_sent = self._begin_coming

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            while self._waiting or self._begun:
                if not self._begun:
                    self._begun.append(self._waiting.popleft())
                    self._begun[0].begin()
                self._begin_coming()
                yield from self._begun[0].batches()
                self._begun.popleft()
        finally:
            for fetcher in self._begun:
                fetcher.drop_in_flight()

    def _others_in_flight(self) -> int:
        return sum(fetcher.is_in_flight for fetcher in self._begun)

    def _may_begin(self) -> bool:
        return self._others_in_flight() < self._read_ahead and self._waiting[0].has_room

    def _begin_coming(self) -> None:
        while self._waiting and self._begun[-1].covered and self._may_begin():
            self._begun.append(self._waiting.popleft())
            self._begun[-1].begin()


def in_order(fetchers: Iterable[PartitionFetcher], read_ahead: int) -> Iterator[pa.RecordBatch]:
    """Rows of one fetcher after the other; at most `read_ahead` of them have a fetch in flight."""
    return _InOrder(fetchers, read_ahead).batches()


def fetch(config: ClientConfig, ranges: Sequence[OffsetRange], settings: FetchSettings) -> Iterator[pa.RecordBatch]:
    """Rows of the ranges, one after the other in this order, over the worker's shared connections.

    A generator; closing it forgets what is in flight.
    """
    from kafkasource.source.fetch.cluster_partition import partition_clients

    with room_to_read(settings) as room:
        pace = settings.pace(room)
        clients = partition_clients(config, ranges, settings)
        fetchers = [PartitionFetcher(one, settings, client, pace=pace) for one, client in clients]
        yield from in_order(fetchers, settings.read_ahead)
