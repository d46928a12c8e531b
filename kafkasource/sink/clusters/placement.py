"""Places the rows of a task in all clusters: once for those that place alike. Tells which rows their batches can share.

Clusters place rows alike that have the same partitioner, number of producers and partitions. They also compress alike
if codec, level and batch size are the same. Most fan-outs and mirrors have such clusters: their options differ in the
servers alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

from kafkasource.kafka.producer.rows import Rows
from kafkasource.kafka.producer.sharing import SharedRows
from kafkasource.sink.clusters.routing import Placer, RowsByProducer
from kafkasource.sink.clusters.targets import ClusterTarget
from kafkasource.sink.partitioner import partitioner_of

_Rule = tuple[object, ...]
_Place = tuple[_Rule, int, tuple[int, ...]]


class Placement:
    """Places the rows of one task, on the task's thread."""

    def __init__(self) -> None:
        self._placers: dict[_Place, Placer] = {}
        self._numbers = count()
        self._rows: Rows | None = None
        self._placed: dict[_Place, RowsByProducer] = {}
        self._encodings: list[_Rule] = []  # of the clusters that get the rows
        self._shared: dict[tuple[int, _Rule], SharedRows] = {}

    @contextmanager
    def appending(self, rows: Rows, takers: Collection[ClusterTarget]) -> Iterator[None]:
        """While each cluster in turn gets these rows. `takers`: the clusters that get rows of their topic."""
        self._rows = rows
        self._encodings = [_encoding(target) for target in takers]
        try:
            yield
        finally:
            self._rows = None
            self._placed.clear()
            self._shared.clear()

    def place(self, rows: Rows, target: ClusterTarget, partitions: int, available: Sequence[int]) -> RowsByProducer:
        """Place rows like `Placer.place`. Clusters that place alike share the result, if all get these rows."""
        key = _placing(target), partitions, tuple(available)
        placer = self._placers.get(key)
        if placer is None:
            partitioner = partitioner_of(target.partitioner, target.config.batch_bytes)
            by_key = target.partitioning == "key"
            placer = self._placers[key] = Placer(partitioner, target.producers, by_key=by_key)
        if rows is not self._rows:
            return placer.place(rows, partitions, available)
        placed = self._placed.get(key)
        if placed is None:
            placed = self._placed[key] = placer.place(rows, partitions, available)
        return placed

    def shared(self, rows: Rows, placed: RowsByProducer, target: ClusterTarget) -> SharedRows | None:
        """The part of these rows that the cluster shares with others. The first cluster that asks leads. None:
        nothing."""
        encoding = _encoding(target)
        clusters = self._encodings.count(encoding)
        if rows is not self._rows or clusters < 2 or target.config.compression == "none":
            return None
        key = id(placed), encoding
        known = self._shared.get(key)
        if known is not None:
            return replace(known, leads=False)
        new = self._shared[key] = SharedRows(next(self._numbers), clusters, leads=True, begins=[])
        return new


def _placing(target: ClusterTarget) -> _Rule:
    return target.partitioner, target.config.batch_bytes, target.partitioning, target.producers


def _encoding(target: ClusterTarget) -> _Rule:
    config = target.config
    return *_placing(target), config.compression, config.compression_level, config.max_request_bytes
