"""How many records a task was given for a cluster, and the sum of their contents: by this a batch is known again.

The sum covers each record as it is written: topic at the cluster, key, value, headers, and timestamp where the row has
one of its own. It does not depend on the order of records, nor on how they are cut into tasks, Arrow batches or packed
values. So Spark may shuffle the rows of a batch otherwise, and a mirror's fetches may end elsewhere. Partitions do not
count: a topic may have got more of them (decision 45).

For each topic the hashes of its records are added up (`RecordColumns.content`), and the sum is multiplied by a number
that is made of the topic's name. So clusters with different topics share the hashes. All is modulo 2**64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkasource.kafka.records.builder import RecordColumns

if TYPE_CHECKING:
    from kafkasource.kafka.producer.rows import Rows, Span

_MODULUS = 1 << 64


def total(contents: Sequence[int]) -> int:
    """The content of all together."""
    return sum(contents) % _MODULUS


class ContentSum:
    """Adds up the rows of one task that go into one transaction, or that the task skips."""

    def __init__(self) -> None:
        self.rows = 0
        self._by_topic: dict[str, int] = {}

    def add(
        self, topic: str, columns: RecordColumns, order: memoryview | None = None, spans: Sequence[Span] = ()
    ) -> None:
        """`order` and `spans`: those of the rows that count, as `Producer.hand_over` takes them; by default all."""
        first, last = (spans[0][1], spans[-1][2]) if spans else (0, columns.count)
        hashes = columns.content if last - first == columns.count else columns.content_of(order, first, last)
        self.rows += last - first
        self._by_topic[topic] = self._by_topic.get(topic, 0) + hashes

    def add_rows(self, topic: str, rows: Rows) -> None:
        self.add(topic, RecordColumns(rows.keys, rows.values, rows.timestamps_ms, rows.headers))

    @property
    def content(self) -> int:
        return total([_factor(topic) * hashes for topic, hashes in self._by_topic.items()])

    @property
    def topics(self) -> tuple[str, ...]:
        """In order."""
        return tuple(sorted(self._by_topic))


def _factor(topic: str) -> int:
    """An odd number: no two sums are the same once they are multiplied by it."""
    return int.from_bytes(hashlib.blake2b(topic.encode(), digest_size=8).digest(), "little") | 1
