"""The map of a mirror's offsets: a compacted topic at the target, with one record for each partition of the source.

    key    {"topic": "orders", "partition": 3}                                       of the source
    value  {"target": "east.orders", "spans": [[0, 1500, 0, 1500, 0], ...]}          the topic there; the same partition

A span is an `OffsetSpan`: source's first and next offset, target's first and next, shift. A mirror that is its target's
only writer and reads a log without holes has one span for ever. Transaction markers (exactly once), gaps of compaction,
other writers' records and batches written twice make more spans. Above 64 spans, those are joined that cost least, and
an offset within a joined span is translated to one that is not above the true one. So a reader that starts at a
translated offset misses nothing, and reads some records twice at worst.

The sink writes the topic after each micro-batch (`sink.clusters.offset_map`); `pykafka translate` reads it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields

from kafkasource.client.config import ClientConfig
from kafkasource.errors import KafkaSourceError
from kafkasource.sink.clusters.offset_spans import Mapped, OffsetMap, OffsetSpan, extended
from kafkasource.types import TopicPartition


@dataclass(frozen=True)
class Translated:
    """Where to go on reading at the target."""

    target: TopicPartition
    offset: int
    exact: bool  # False: records before it may have been read already
    behind: int = 0  # offsets of the source that the mirror has not carried over yet


def translate(offset_map: OffsetMap, tp: TopicPartition, offset: int) -> Translated | None:
    """Of the next offset to read at the source. None: the map knows nothing of it, or begins above it."""
    known = offset_map.get(tp)
    if known is None:
        return None
    target = TopicPartition(known.target_topic, tp.partition)
    before = [span for span in known.spans if span.source_first <= offset]
    if not before:
        return None
    span, last = before[-1], known.spans[-1]
    exact = span.exact or offset == span.source_first
    if offset >= span.source_next:
        following = known.spans[len(before)] if span is not last else None
        exact = following is None or following.target_first == span.target_next
    return Translated(target, span.lowest(offset), exact, max(0, offset - last.source_next))


# The topic's records.


def encoded(tp: TopicPartition, known: Mapped) -> tuple[str, str]:
    """Key and value."""
    key = json.dumps({"topic": tp.topic, "partition": tp.partition})
    return key, json.dumps({"target": known.target_topic, "spans": known.spans}, separators=(",", ":"))


def decoded(key: bytes | None, value: bytes | None) -> tuple[TopicPartition, Mapped | None]:
    """None: a tombstone. Raises KafkaSourceError for what is no record of an offset map."""
    try:
        where = json.loads(key or b"")
        tp = TopicPartition(str(where["topic"]), int(where["partition"]))
        if value is None:
            return tp, None
        told = json.loads(value)
        return tp, Mapped(str(told["target"]), tuple(_span(row) for row in told["spans"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise KafkaSourceError(f"cannot read a record of the offset map: key {key!r:.100}") from None


def _span(row: list[int | None]) -> OffsetSpan:
    source_first, source_next, target_first, target_next, shift = row
    if not all(type(each) is int for each in row[:4]) or not (shift is None or type(shift) is int):
        raise ValueError(row)
    return OffsetSpan(source_first, source_next, target_first, target_next, shift)  # type: ignore[arg-type]


class OffsetMapTopic:
    """The topic at one target. One thread at a time."""

    def __init__(self, config: ClientConfig, topic: str) -> None:
        from kafkasource.reader import Reader

        self._options = _as_options(config)
        self._topic = topic
        self._tp = TopicPartition(topic, 0)
        self._reader = Reader({**self._options, "subscribe": topic, "kafka.isolation.level": "read_uncommitted"})
        self._positions = self._reader.positions()
        self.known: dict[TopicPartition, Mapped] = {}

    def __enter__(self) -> OffsetMapTopic:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()

    def read(self) -> OffsetMap:
        """What the topic says now. Raises KafkaSourceError, also where there is no such topic (any more)."""
        if not self._positions.offsets:
            self._positions.begin([self._tp])
        for batch in self._reader.read(self._positions.next_ranges()):
            keys, values, offsets = (batch.column(name) for name in ("key", "value", "offset"))
            for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
                tp, known = decoded(key, value)
                if known is None:
                    self.known.pop(tp, None)
                else:
                    self.known[tp] = known
            self._positions.move({self._tp: offsets[len(offsets) - 1].as_py() + 1})
        return self.known

    def add(self, mapped: OffsetMap) -> None:
        """Write what a micro-batch adds. Returns when it is acknowledged."""
        import pyarrow as pa

        from kafkasource.writer import Writer

        known = self.read()
        changed = {tp: extended(known.get(tp), new) for tp, new in mapped.items()}
        rows = [encoded(tp, each) for tp, each in changed.items()]
        with Writer({**self._options, "topic": self._topic, "kafka.linger.ms": "0"}) as writer:
            writer.write(pa.table({"key": [key for key, _ in rows], "value": [value for _, value in rows]}))
            written = writer.flush()[self._tp]
        self.known.update(changed)
        if written.first_offset == self._positions.offsets[self._tp] and written.last_offset is not None:
            self._positions.move({self._tp: written.last_offset + 1})  # nobody else wrote: no need to read our own


def _as_options(config: ClientConfig) -> dict[str, str]:
    """As a user would write them: reader and writer take options."""
    found = {}
    for each in fields(ClientConfig):
        value = getattr(config, each.name)
        if each.name == "bootstrap_servers":
            value = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in value)
        found["kafka." + each.name.replace("_", ".")] = str(value)
    return found
