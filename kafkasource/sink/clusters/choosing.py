"""Which rows a cluster gets: those of some topics, and none that have a certain header. Pure.

For mirrors: topics differ from target to target of one read, and a record must not come back to a cluster that it has
been read from.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.options.java_regex import compile_java
from kafkasource.sink.columns import Rows


@dataclass(frozen=True)
class Chosen:
    """Of one cluster; hashable plain values."""

    only_topics: str | None = None  # a Java regular expression that is found in the topic's name
    unless_header: tuple[str, tuple[bytes, ...]] | None = None  # key, and values any of which counts

    def topic(self, name: str) -> bool:
        """Does the cluster get rows of this topic (the row's own name, before any template)?"""
        return self.only_topics is None or compile_java(self.only_topics).search(name) is not None

    def rows(self, rows: Rows) -> Rows:
        """Those that have not the header; the same object where that is all."""
        if self.unless_header is None or rows.headers is None:
            return rows
        key, values = self.unless_header
        entries = rows.headers.flatten()
        found = pc.and_kleene(
            pc.equal(entries.field("key"), pa.scalar(key)),
            pc.is_in(entries.field("value"), value_set=pa.array(values, pa.binary())),
        ).fill_null(False)
        if not pc.any(found).as_py():
            return rows
        marked = pc.list_parent_indices(rows.headers).filter(found)
        numbers = pa.array(array("q", range(rows.count)), pa.int64())
        return rows.take(numbers.filter(pc.invert(pc.is_in(numbers, value_set=marked.cast(pa.int64())))))
