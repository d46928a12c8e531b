"""The offsets that Spark's checkpoint keeps: the JVM connector's JSON, topic, partition, next offset to read.

    {"t":{"0":23,"1":7},"@1;t/2b1yVQz0RZmGV9kUS9nT6A/0-1=5":{}}

Every offset is a real offset, so a query can change from the JVM connector to ours and continue. The last entry is
ours. The JVM connector takes its key for a topic without partitions, so a query can also change back.

Our key says which logs the offsets belong to: topic ids (KIP-516) and leader epochs (KIP-320). A topic's name does not
identify it, and an offset means nothing in another topic of the name, or in a log that was truncated and written again.

    @1;t/2b1yVQz0RZmGV9kUS9nT6A/0-3=5,4=6;u//0=0

`@1` is the version of the key. Behind a `/` follows the cluster's id, if it has one: `@1/MkU3OEVBNTcwNTJENDM2Qk`. Then
come the topics in order, each with its name, its id and its leader epochs. The id is written as Kafka's tools print it;
it is empty where brokers have none (before 2.8). No record below the offset has a later epoch than the epoch written
here. Neighbouring partitions with one epoch stand together; a partition is missing where brokers give no epoch (before
2.1). No topic's name holds any of `@;/=,|`.

The end of a query's first micro-batch also says where that batch begins (`first_batch`). Behind a `|` follows the same
list for the start, and after each topic's epochs its offsets. Such a key has version 2; all later ones stay version 1.

    @2;t/2b1yVQz0RZmGV9kUS9nT6A/0-1=5|t/2b1yVQz0RZmGV9kUS9nT6A/0-1=5/0=12,1=0

On Spark 4.0 and 4.1 another key may say where the logs ended (`metrics.log_ends`). It is for progress
alone, and reading an offset skips it.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.cluster.offsets import EARLIEST as EARLIEST
from kafkasource.kafka.cluster.offsets import LATEST as LATEST
from kafkasource.kafka.network.log_view import LogView
from kafkasource.metrics.log_ends import is_log_ends
from kafkasource.types import TOPIC_NAME, TopicPartition

Offsets = dict[TopicPartition, int]  # next offset to read
PartitionOffsets = Mapping[TopicPartition, int]
OffsetJson = dict[str, dict[str, int]]

_MARK = "@"
_VERSION, _WITH_START = "@1", "@2"
_ID = re.compile(r"[a-zA-Z0-9_-]{22}")
_CLUSTER = re.compile(r"[a-zA-Z0-9._-]{1,100}")  # Kafka's are 22 characters of base64; others choose other names
_RUN = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?=([0-9]{1,19})")
_MAX_PARTITIONS = 1_000_000  # in one key; no real query comes near


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Offsets in the logs of all partitions of a streaming query, and the identity of these logs. Never modified.

    What is not known is missing: brokers before 2.8 give no topic ids, brokers before 2.1 no leader epochs, and a
    checkpoint of the JVM connector has neither. No record below an offset has a later epoch than the epoch beside the
    offset.
    """

    offsets: Offsets
    topic_ids: Mapping[str, uuid.UUID] = field(default_factory=dict)
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    start: StreamOffset | None = None  # the start of the query's first micro-batch; only the end of that batch has it
    cluster_id: str | None = None  # of the cluster that has the logs

    def view(self, tp: TopicPartition) -> LogView:
        """Get what identifies the partition's log."""
        return LogView(self.topic_ids.get(tp.topic), self.leader_epochs.get(tp))


def to_json(offset: StreamOffset) -> OffsetJson:
    """The document for Spark's checkpoint. It is sorted: Spark compares its text to find out whether anything is
    new."""
    document: OffsetJson = {}
    for topic, rows in sorted(_by_topic(offset.offsets).items()):
        document[topic] = {str(partition): next_offset for partition, next_offset in rows}
    if document and (offset.topic_ids or offset.leader_epochs or offset.start is not None):
        document[_logs_to_text(offset)] = {}
    return document


def from_json(document: Mapping[str, Mapping[str, object]]) -> StreamOffset:
    """The inverse, also for documents of the JVM connector. `document` may be any JSON value.

    Raises KafkaSourceError on anything else: a checkpoint is never guessed at.
    """
    offsets: Offsets = {}
    known: _Logs | None = None
    try:
        for topic, partitions in document.items():
            if is_log_ends(topic):
                continue
            if topic.startswith(_MARK):
                if known is not None or partitions != {}:
                    raise ValueError(f"{topic[:20]!r}... is there twice, or has a value")
                known = _logs_from_text(topic)
                continue
            if not TOPIC_NAME.fullmatch(topic):
                raise ValueError(f"{topic!r} cannot be a topic: written by a newer version of this connector?")
            for number, offset in partitions.items():
                if type(offset) is not int or not 0 <= offset < 2**63:
                    raise ValueError(f"offset {offset!r} of {topic}-{number} is not a whole number from 0 to 2^63-1")
                offsets[TopicPartition(topic, partition_number(number))] = offset
    except (ValueError, TypeError, AttributeError, RecursionError) as error:  # the last from the text of nested values
        raise KafkaSourceError(f'not an offset of this source, expected e.g. {{"topic":{{"0":23}}}}: {error}') from None
    if known is None:
        return StreamOffset(offsets)
    return StreamOffset(offsets, known.topic_ids, known.leader_epochs, known.start, known.cluster_id)


def partition_number(number: str) -> int:
    """The partition number in a JSON key. Raises ValueError."""
    if not (number.isascii() and number.isdecimal() and len(number) <= 10):
        raise ValueError(f"{number!r} is not a partition number")
    return int(number)


class RecentOffsets:
    """Caches the last three offsets in both forms. Reader process, one thread.

    Spark hands each offset back within a micro-batch or two, and with 1,000 partitions parsing it again is a
    measurable cost. Nobody may modify the documents or the offsets.
    """

    def __init__(self) -> None:
        self._known: deque[tuple[OffsetJson, StreamOffset]] = deque(maxlen=3)
        self._made: tuple[OffsetJson, StreamOffset] | None = None  # the last one of `to_json`

    def to_json(self, offset: StreamOffset) -> OffsetJson:
        for document, known in self._known:
            if known is offset:
                return document
        made = self._from_the_last(offset)
        document = to_json(offset) if made is None else made
        self._made = document, offset
        self._known.append(self._made)
        return document

    def _from_the_last(self, offset: StreamOffset) -> OffsetJson | None:
        """The last document with the offsets that moved since; it shares the entries of idle topics with the last one.

        None: more has changed than offsets. A document from a checkpoint is never the base: it may have another order,
        or entries that are not ours.
        """
        if self._made is None:
            return None
        document, last = self._made
        if not _same_logs(last, offset):
            return None
        changed = dict(document)
        for (topic, partition), next_offset in offset.offsets.items():
            if last.offsets[topic, partition] != next_offset:  # type: ignore[index]  # a TopicPartition is this tuple
                if changed[topic] is document[topic]:
                    changed[topic] = dict(document[topic])
                changed[topic][str(partition)] = next_offset
        return changed

    def topics_to_json(self, offsets: Offsets) -> OffsetJson:
        """The offsets as JSON without our own entry: for people and monitors."""
        for document, known in self._known:
            if known.offsets == offsets:
                return {key: value for key, value in document.items() if not key.startswith(_MARK)}
        return to_json(StreamOffset(offsets))

    def from_json(self, document: Mapping[str, dict[str, int]]) -> StreamOffset:
        for known, offset in self._known:
            if known == document:
                return offset
        self._known.append((dict(document), from_json(document)))
        return self._known[-1][1]


def _same_logs(one: StreamOffset, other: StreamOffset) -> bool:
    """Whether the two differ at most in how far their partitions are."""
    return (
        one.offsets.keys() == other.offsets.keys()
        and one.topic_ids == other.topic_ids
        and one.leader_epochs == other.leader_epochs
        and one.cluster_id == other.cluster_id
        and one.start is other.start is None
    )


class _Logs(NamedTuple):
    """The contents of our key. Never modified, because `_logs_from_text` caches and shares it."""

    topic_ids: Mapping[str, uuid.UUID]
    leader_epochs: Mapping[TopicPartition, int]
    start: StreamOffset | None = None
    cluster_id: str | None = None


def _logs_to_text(offset: StreamOffset) -> str:
    """Our key."""
    ends, start = _topics(offset.topic_ids, offset.leader_epochs), offset.start
    of_cluster = f"/{offset.cluster_id}" if _CLUSTER.fullmatch(offset.cluster_id or "") else ""
    if start is None:
        return ";".join((_VERSION + of_cluster, *ends))
    return (
        ";".join((_WITH_START + of_cluster, *ends))
        + "|"
        + ";".join(_topics(start.topic_ids, start.leader_epochs, start.offsets))
    )


def _topics(topic_ids: Mapping[str, uuid.UUID], *of_partitions: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Write `t/id/0-3=5` for each topic. A further list follows behind a `/` for each further mapping."""
    lists = [_by_topic(numbers) for numbers in of_partitions]
    for topic in sorted(topic_ids.keys() | {topic for numbers in lists for topic in numbers}):
        runs = (",".join(_runs(numbers.get(topic, ()))) for numbers in lists)
        yield "/".join((topic, _id_to_text(topic_ids.get(topic)), *runs))


def _by_topic(numbers: Mapping[TopicPartition, int]) -> dict[str, list[tuple[int, int]]]:
    """(partition, number) of each topic, in order. Sorts each topic alone: sorting all at once also compares names, for
    every partition, idle or not."""
    found: dict[str, list[tuple[int, int]]] = {}
    for (topic, partition), number in numbers.items():
        found.setdefault(topic, []).append((partition, number))
    for rows in found.values():
        rows.sort()
    return found


def _id_to_text(topic_id: uuid.UUID | None) -> str:
    return "" if topic_id is None else base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _runs(rows: Sequence[tuple[int, int]]) -> Iterator[str]:
    """(partition, epoch or offset) in order to `0-3=5`."""
    neighbours = groupby(enumerate(rows), key=lambda one: (one[1][0] - one[0], one[1][1]))
    for (_, value), run in neighbours:
        numbers = [number for _, (number, _) in run]
        yield f"{numbers[0]}={value}" if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}={value}"


@lru_cache(maxsize=4)
def _logs_from_text(text: str) -> _Logs:
    """The inverse of `_logs_to_text`.

    Raises ValueError, and KafkaSourceError where a newer version of kafkasource wrote the key.
    """
    head = text.partition(";")[0].partition("|")[0]
    version, slash, cluster_id = head.partition("/")
    if version not in (_VERSION, _WITH_START):
        raise KafkaSourceError(
            f"the checkpoint was written by a newer version of kafkasource: its entry {text[:20]!r}... is not of"
            f" version {_VERSION} or {_WITH_START}. Install the version that wrote it, or a newer one"
        )
    if slash and not _CLUSTER.fullmatch(cluster_id):
        raise ValueError(f"{cluster_id[:100]!r} is not the id of a cluster")
    ends, bar, begins = text[len(head) :].partition("|")
    if (version == _WITH_START) != bool(bar):
        raise ValueError(f"{text[:20]!r}... does not fit its version: {_WITH_START} has a start, {_VERSION} has none")
    topic_ids, (epochs,) = _topics_from_text(ends[1:], 1)
    if not bar:
        return _Logs(topic_ids, epochs, cluster_id=cluster_id or None)
    start_ids, (start_epochs, offsets) = _topics_from_text(begins, 2)
    return _Logs(topic_ids, epochs, StreamOffset(offsets, start_ids, start_epochs), cluster_id or None)


def _topics_from_text(text: str, lists: int) -> tuple[dict[str, uuid.UUID], list[dict[TopicPartition, int]]]:
    """The inverse of `_topics`; each topic has `lists` lists."""
    topic_ids: dict[str, uuid.UUID] = {}
    found: list[dict[TopicPartition, int]] = [{} for _ in range(lists)]
    for topic in text.split(";") if text else ():
        name, topic_id, *runs_of = topic.split("/")
        if not TOPIC_NAME.fullmatch(name) or len(runs_of) != lists:
            raise ValueError(f"{topic[:300]!r} does not describe a topic")
        if topic_id:
            topic_ids[name] = _id_from_text(topic_id)
        for numbers, runs in zip(found, runs_of, strict=True):
            for run in filter(None, runs.split(",")):
                first, last, value = _run_from_text(run)
                if len(numbers) + last - first >= _MAX_PARTITIONS:
                    raise ValueError(f"more than {_MAX_PARTITIONS} partitions")
                numbers.update((TopicPartition(name, number), value) for number in range(first, last + 1))
    return topic_ids, found


def _id_from_text(text: str) -> uuid.UUID:
    if not _ID.fullmatch(text):
        raise ValueError(f"{text!r} is not a topic id")
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def _run_from_text(text: str) -> tuple[int, int, int]:
    match = _RUN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} gives no leader epoch or offset of partitions")
    first, last, value = int(match[1]), int(match[2] or match[1]), int(match[3])
    if last < first or value >= 2**63:
        raise ValueError(f"{text!r} ends before it begins, or is not a number that Kafka has")
    return first, last, value
