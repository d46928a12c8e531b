"""Origin headers: where a record has been, so that a mirror does not bring it back. Pure.

Each time a mirror reads a record, it appends a header `mirror.origin` with the cluster and the topic of this read:

    mirror.origin = <cluster id>/<topic>        the name in the mirror's file where a cluster has no id (before 0.10.1)

Applications forward the headers of their input: Kafka Streams does so by default. So a header counts only while the
names fit: `_been_in` goes back from the topic that is read now, from the last header to the first, and stops at the
first header whose topic does not have the next one as its copy. What is before it belongs to another record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.kafka.producer.rows import Column

ORIGIN_HEADER = "mirror.origin"
_BETWEEN = b"\0"  # in no topic's name and in no cluster's id
_TOPIC = "${topic}"


@dataclass(frozen=True)
class UnlessFrom:
    """The records that a cluster does not get: those that have been in one of `clusters`. Hashable plain values."""

    here: str  # id of the cluster that the records are read from
    clusters: tuple[str, ...]  # ids
    templates: tuple[tuple[str, str, str], ...] = ()  # source's id, target's id, template: of flows that rename topics

    @classmethod
    def from_json(cls, text: str) -> UnlessFrom:
        """Raises ValueError, also for KeyError and TypeError of a wrong form."""
        try:
            found = json.loads(text)
            templates = tuple((str(a), str(b), str(c)) for a, b, c in found.get("templates", ()))
            return cls(str(found["here"]), tuple(map(str, found["clusters"])), templates)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{error!r}") from None

    def to_json(self) -> str:
        return json.dumps({"here": self.here, "clusters": self.clusters, "templates": self.templates})

    def numbers(self, topic: str, headers: Column) -> Column | None:
        """The numbers of the rows, all of this topic, that are left out: int64, ascending. None: none of them."""
        entries = headers.flatten()
        found = pc.equal(entries.field("key"), pa.scalar(ORIGIN_HEADER)).fill_null(False)
        if not pc.any(found).as_py():
            return None
        values = entries.field("value").filter(found).fill_null(b"")
        rows = pc.run_end_encode(
            pc.list_parent_indices(headers).cast(pa.int64()).filter(found), run_end_type=pa.int32()
        )
        ends = pa.concat_arrays([pa.array([0], pa.int32()), rows.run_ends])
        chains = pc.binary_join(pa.ListArray.from_arrays(ends, values), _BETWEEN).dictionary_encode()
        left_out = [
            number
            for number, chain in enumerate(chains.dictionary.to_pylist())
            if self.leaves_out(topic, chain.split(_BETWEEN))
        ]
        if not left_out:
            return None
        return rows.values.filter(pc.is_in(chains.indices, value_set=pa.array(left_out, chains.indices.type)))

    def leaves_out(self, topic: str, values: Sequence[bytes]) -> bool:
        """Has a record of this topic, with these values of the header in their order, been in one of the clusters?"""
        return any(cluster in self.clusters for cluster in self._been_in(topic, values))

    def _been_in(self, topic: str, values: Sequence[bytes]) -> Iterator[str]:
        here = self.here
        for value in reversed(values):
            cluster, slash, name = value.decode(errors="replace").partition("/")
            if not slash or (topic != name and topic != self._copy(cluster, here, name)):
                return
            if cluster != self.here:  # the last header is of this read
                yield cluster
            here, topic = cluster, name

    def _copy(self, source: str, target: str, topic: str) -> str | None:
        """The name of the topic's copy, where a flow from `source` to `target` renames topics."""
        for a, b, template in self.templates:
            if (a, b) == (source, target):
                return template.replace(_TOPIC, topic)
        return None
