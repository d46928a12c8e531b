"""Selects the rows of a task that a cluster gets: each target of one read has its own topics, and a mirror must not
write a record to a cluster from which it was read. Pure."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkasource.options.java_regex import compile_java
from kafkasource.sink.clusters.origin import UnlessFrom

if TYPE_CHECKING:
    from kafkasource.kafka.producer.rows import Rows


@dataclass(frozen=True)
class Chosen:
    """The rule that selects the rows of one cluster. Hashable plain values."""

    only_topics: str | None = None  # a Java regular expression; it must be found in the topic's name
    unless_from: UnlessFrom | None = None

    def topic(self, name: str) -> bool:
        """Does the cluster get rows of this topic (the row's own name, before any template)?"""
        return self.only_topics is None or compile_java(self.only_topics).search(name) is not None

    def rows(self, rows: Rows) -> Rows:
        """The rows that `unless_from` does not leave out: the same object, if it leaves out none."""
        if self.unless_from is None or rows.headers is None:
            return rows
        left_out = self.unless_from.numbers(rows.topic, rows.headers)
        if left_out is None:
            return rows
        import pyarrow as pa
        import pyarrow.compute as pc

        numbers = pa.array(array("q", range(rows.count)), pa.int64())
        return rows.take(numbers.filter(pc.invert(pc.is_in(numbers, value_set=left_out))))
