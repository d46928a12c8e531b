"""The offset map of a mirror: a compacted topic at the target, one record for each partition of the source.

    key    {"topic": "orders", "partition": 3}                                       of the source
    value  {"target": "east.orders", "spans": [[0, 1500, 0, 1500, 0], ...]}          the topic there; the same partition

A span is `source_offsets.OffsetSpan`: source's first and next offset, target's first and next, shift. A mirror that is
its target's only writer and reads a log without holes has one span for ever. Transaction markers (exactly once), gaps
of compaction, other writers' records and batches written twice make more of them; above 64 those are joined that
cost least, and an offset within is translated to one that is not above the true one. So who starts at a translated
offset misses nothing, and reads some records twice at worst.

`record` is called in the process of Spark's commits, after each micro-batch. A thread for each topic keeps in memory
what the topic holds, reads what others have added, and writes the partitions that got records; the commit waits for it,
though not for long (`Recorder`). A rerun, or a source topic that was made anew, begins at a lower offset than the map
ends: from there on the new spans count.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial

from kafkasource.client.config import ClientConfig
from kafkasource.errors import KafkaSourceError
from kafkasource.sink.clusters.source_offsets import Mapped, OffsetSpan, merged
from kafkasource.types import TopicPartition

OffsetMap = dict[TopicPartition, Mapped]
"""By the source's topic-partition."""


@dataclass(frozen=True)
class Translated:
    """Where to go on reading at the target."""

    target: TopicPartition
    offset: int
    exact: bool  # False: records before it may have been read already
    behind: int = 0  # offsets of the source that the mirror has not carried over yet


def translate(offset_map: Mapping[TopicPartition, Mapped], tp: TopicPartition, offset: int) -> Translated | None:
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


def extended(before: Mapped | None, new: Mapped) -> Mapped:
    """What the map knows of a partition, and what a micro-batch adds; the latter counts from its first offset on."""
    if before is None or before.target_topic != new.target_topic or not new.spans:
        return new if new.spans or before is None else before
    begins = min(span.source_first for span in new.spans)
    kept = [_cut(span, begins) for span in before.spans if span.source_first < begins]
    ends = max((span.target_next for span in kept), default=0)
    if any(span.target_first < ends for span in new.spans):
        return new  # the target's topic was made anew
    return Mapped(new.target_topic, tuple(merged([*kept, *new.spans])))


def _cut(span: OffsetSpan, end: int) -> OffsetSpan:
    """What is below `end`, a source offset."""
    if span.source_next <= end:
        return span
    target_next = span.lowest(end) if span.exact else span.target_next
    return OffsetSpan(span.source_first, end, span.target_first, target_next, span.shift)


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
        self.known: OffsetMap = {}

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

    def add(self, mapped: Mapping[TopicPartition, Mapped]) -> None:
        """Write what a micro-batch adds. Returns when it is acknowledged."""
        import pyarrow as pa

        from kafkasource.writer import Writer

        known = self.read()
        changed = {tp: extended(known.get(tp), new) for tp, new in mapped.items()}
        rows = [encoded(tp, each) for tp, each in changed.items()]
        with Writer({**self._options, "topic": self._topic, "kafka.linger.ms": "0"}) as writer:
            writer.write(pa.table({"key": [key for key, _ in rows], "value": [value for _, value in rows]}))
            written = writer.flush()[self._tp]
        known.update(changed)
        if written.first_offset == self._positions.offsets[self._tp] and written.last_offset is not None:
            self._positions.move({self._tp: written.last_offset + 1})  # nobody else wrote: no need to read our own


class NotRecorded(KafkaSourceError):
    """The topic lacks spans of micro-batches that are written. Whoever translates offsets reads more twice."""


class Recorder:
    """The thread that writes one topic's spans. Its methods are for the thread of the commits.

    What could not be written is kept and written with the next micro-batch's, while this process lives. A commit that
    has waited in vain is followed by commits that do not wait, for ten times as long: a cluster that is away costs the
    others a tenth of the time at most.
    """

    def __init__(
        self, open_topic: Callable[[], OffsetMapTopic], topic: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open_topic, self._name, self._clock = open_topic, topic, clock
        self._topic: OffsetMapTopic | None = None  # the thread's
        self._news = threading.Condition()
        self._lacking: OffsetMap = {}  # handed over and not written
        self.busy = False  # the thread runs; to look at
        self._error: Exception | None = None  # of its last attempt
        self._impatient_until = float("-inf")

    def hand_over(self, mapped: Mapping[TopicPartition, Mapped]) -> None:
        with self._news:
            self._lacking = _together(self._lacking, mapped)
            if not self.busy:
                self.busy = True
                threading.Thread(target=self._run, name="kafkasource-offset-map", daemon=True).start()

    def wait(self, wait_ms: int) -> None:
        """Return when all is written. Raises NotRecorded, also when that takes longer than `wait_ms`."""
        wait_s = wait_ms / 1000 if self._clock() >= self._impatient_until else 0.0
        with self._news:
            self._news.wait_for(lambda: not self.busy, wait_s)
            if not self._lacking:
                self._impatient_until = float("-inf")
                return
            if wait_s:
                self._impatient_until = self._clock() + 10 * wait_s
            why = "it has not answered yet" if self.busy else str(self._error)
            raise NotRecorded(
                f"{self._name} lacks the offsets of {_told(self._lacking)}. Their records are written ({why}). The "
                "mirror "
                "adds the offsets with a later micro-batch of this run, if the cluster answers then"
            )

    def _run(self) -> None:
        while True:
            with self._news:
                if not self._lacking:
                    self._ended(None)
                    return
                mapped = self._lacking
            try:
                if self._topic is None:
                    self._topic = self._open_topic()
                self._topic.add(mapped)
            except Exception as error:  # whatever it is: a later commit begins anew
                if self._topic is not None:
                    self._topic.close()
                    self._topic = None
                with self._news:
                    self._ended(error)
                return
            with self._news:
                self._lacking = {tp: new for tp, new in self._lacking.items() if new is not mapped.get(tp)}

    def _ended(self, error: Exception | None) -> None:
        self.busy, self._error = False, error
        self._news.notify_all()


def _together(before: OffsetMap, new: Mapping[TopicPartition, Mapped]) -> OffsetMap:
    return {**before, **{tp: extended(before.get(tp), each) for tp, each in new.items()}}


def _told(lacking: OffsetMap, most: int = 5) -> str:
    ranges = [
        f"{tp.topic}-{tp.partition} [{lacking[tp].spans[0].source_first}, {lacking[tp].spans[-1].source_next})"
        for tp in sorted(lacking)
        if lacking[tp].spans
    ]
    more = f" and {len(ranges) - most} partitions more" if len(ranges) > most else ""
    return ", ".join(ranges[:most]) + more


_lock = threading.Lock()
_kept: dict[tuple[ClientConfig, str], Recorder] = {}


def record(config: ClientConfig, topic: str, mapped: Mapping[TopicPartition, Mapped]) -> Recorder:
    """Called by the sink (`offsetMap`) after each micro-batch; what is handed over may be waited for."""
    key = config, topic
    with _lock:
        recorder = _kept.get(key)
        if recorder is None:
            recorder = _kept[key] = Recorder(partial(OffsetMapTopic, config, topic), topic)
    recorder.hand_over(mapped)
    return recorder


def _as_options(config: ClientConfig) -> dict[str, str]:
    """As a user would write them: reader and writer take options."""
    found = {}
    for each in fields(ClientConfig):
        value = getattr(config, each.name)
        if each.name == "bootstrap_servers":
            value = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in value)
        found["kafka." + each.name.replace("_", ".")] = str(value)
    return found
