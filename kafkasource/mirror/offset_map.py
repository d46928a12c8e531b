"""The map of a mirror's offsets: a compacted topic at the target, with one record for each partition of the source.

    key    {"topic": "orders", "partition": 3}                                topic and partition of the source
    value  {"target": "east.orders", "spans": [[0, 1500, 0, 1500, 0], ...]}   the target's topic; the partition is equal
           "left_out": [1500, 1700]   offsets of the source that were left out while the target refused the topic

A span is an `OffsetSpan`: the source's first and next offset, the target's first and next offset, and the shift. Where
a mirror is the only writer of its target and reads a log without holes, one span is enough for ever. Transaction
markers (exactly once), gaps of compaction, records of other writers and batches that were written twice make more
spans. A map has at most 64 spans: it joins neighbours where readers lose least. It translates an offset within a joined
span to one that is not above the true one. So a reader that starts at a translated offset misses nothing; at worst it
reads some records twice.

The sink writes the topic after each micro-batch (`sink.clusters.offset_map`); `pykafka translate` reads it.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, fields

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.config import ClientConfig
from kafkasource.sink.clusters.offset_spans import Mapped, OffsetMap, OffsetSpan, extended
from kafkasource.types import TopicPartition

log = logging.getLogger("kafkasource.sink")


@dataclass(frozen=True)
class Translated:
    """The offset at which a reader continues at the target."""

    target: TopicPartition
    offset: int
    exact: bool  # False: a reader that continues here may read some records twice
    behind: int = 0  # offsets of the source that the mirror has not carried over yet


def translate(offset_map: OffsetMap, tp: TopicPartition, offset: int) -> Translated | None:
    """The target's offset for `offset`, the next one to read at the source. None: the map does not have the partition,
    or begins above the offset."""
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


def added(known: Mapped | None, tp: TopicPartition, new: Mapped, target: str) -> Mapped:
    """The map of a partition with what a micro-batch adds. Once the target stores records of a topic again that it had
    refused, this warns of those that were left out."""
    found = extended(known, new)
    if not new.spans or found.left_out is None:
        return found
    log.warning(
        "topic %s at %s takes records again. Records of %s from offset %d to %d were left out while it was refused, "
        "and the mirror does not copy them any more. To have them there too, delete topic %s there, and copy %s by a "
        "mirror with a checkpoint of its own",
        *(found.target_topic, target, tp, found.left_out[0], found.left_out[1] - 1, found.target_topic, tp.topic),
    )
    return found._replace(left_out=None)


# The topic's records.


def encoded(tp: TopicPartition, known: Mapped) -> tuple[str, str]:
    """Key and value of a record."""
    key = json.dumps({"topic": tp.topic, "partition": tp.partition})
    value: dict[str, object] = {"target": known.target_topic, "spans": known.spans}
    if known.left_out is not None:
        value["left_out"] = known.left_out
    return key, json.dumps(value, separators=(",", ":"))


def decoded(key: bytes | None, value: bytes | None) -> tuple[TopicPartition, Mapped | None]:
    """The partition at the source and its map, None for a tombstone. Raises KafkaSourceError for other records."""
    try:
        where = json.loads(key or b"")
        tp = TopicPartition(str(where["topic"]), int(where["partition"]))
        if value is None:
            return tp, None
        parsed = json.loads(value)
        known = Mapped(str(parsed["target"]), tuple(_span(row) for row in parsed["spans"]))
        if parsed.get("left_out") is None:
            return tp, known
        first, last = parsed["left_out"]
        return tp, known._replace(left_out=(int(first), int(last)))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise KafkaSourceError(f"cannot read a record of the offset map: key {key!r:.100}") from None


def _span(row: list[int | None]) -> OffsetSpan:
    source_first, source_next, target_first, target_next, shift = row
    if not all(type(each) is int for each in row[:4]) or not (shift is None or type(shift) is int):
        raise ValueError(row)
    return OffsetSpan(source_first, source_next, target_first, target_next, shift)  # type: ignore[arg-type]


class OffsetMapTopic:
    """The topic of the map at one target. For one thread at a time."""

    def __init__(self, config: ClientConfig, topic: str) -> None:
        from kafkasource.reader import Reader

        self._config, self._options = config, _as_options(config)
        self._topic = topic
        self._tp = TopicPartition(topic, 0)
        reading = {**self._options, "subscribe": topic, "kafka.isolation.level": "read_uncommitted"}
        self._reader = Reader(reading, client=config)
        self._positions = self._reader.positions()
        self.known: dict[TopicPartition, Mapped] = {}

    def __enter__(self) -> OffsetMapTopic:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()

    def read(self) -> OffsetMap:
        """The map as the topic has it now. Raises KafkaSourceError, also if the topic does not exist (any more)."""
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
        """Write what a micro-batch adds. Returns when the brokers have acknowledged it."""
        import pyarrow as pa

        from kafkasource.writer import Writer

        known = self.read()
        servers = self._options["kafka.bootstrap.servers"]
        changed = {tp: added(known.get(tp), tp, new, servers) for tp, new in mapped.items()}
        rows = [encoded(tp, each) for tp, each in changed.items()]
        writing = {**self._options, "topic": self._topic, "kafka.linger.ms": "0"}
        with Writer(writing, client=self._config) as writer:
            writer.write(pa.table({"key": [key for key, _ in rows], "value": [value for _, value in rows]}))
            written = writer.flush()[self._tp]
        self.known.update(changed)
        if written.first_offset == self._positions.offsets[self._tp] and written.last_offset is not None:
            self._positions.move({self._tp: written.last_offset + 1})  # no other writer between: skip our own records


def _as_options(config: ClientConfig) -> dict[str, str]:
    """Times and sizes as the options that a user would set. How to authenticate is in the configuration alone; groups
    have nothing to do with the map."""
    found = {}
    for each in fields(ClientConfig):
        if each.name == "security" or each.name.startswith("group_"):
            continue
        value = getattr(config, each.name)
        if each.name == "bootstrap_servers":
            value = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in value)
        found["kafka." + each.name.replace("_", ".")] = str(value)
    return found
