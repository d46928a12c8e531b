"""The offsets that Spark's checkpoint keeps: the JVM connector's JSON, topic, partition, next offset to read.

    {"t":{"0":23,"1":7},"@1;t/2b1yVQz0RZmGV9kUS9nT6A/0-1=5":{}}

Every offset is a real one, so a query can change from the JVM connector to this one and go on. The last entry is ours:
its key tells which logs these are (`identities`), and in the end of a query's first micro-batch where that one begins.
The JVM connector takes it for a topic without partitions, so a query can also change back.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkasource.client.cluster import EARLIEST as EARLIEST
from kafkasource.client.cluster import LATEST as LATEST
from kafkasource.errors import KafkaSourceError
from kafkasource.source.plan import identities
from kafkasource.types import TopicPartition

Offsets = dict[TopicPartition, int]  # next offset to read
PartitionOffsets = Mapping[TopicPartition, int]
OffsetJson = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """A place in the logs of all partitions of a streaming query, and which logs these are.

    What is not known is missing: brokers before 2.8 tell no topic ids, before 2.1 no leader epochs, and a checkpoint of
    the JVM connector has neither. No record below an offset is of a later epoch than the one beside it.
    """

    offsets: Offsets
    topic_ids: Mapping[str, uuid.UUID] = field(default_factory=dict)
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    start: StreamOffset | None = None  # of the query's first micro-batch, in the end of that one alone


def to_json(offset: StreamOffset) -> OffsetJson:
    """What Spark's checkpoint gets. Sorted, because Spark compares the text to see whether there is anything new."""
    document: OffsetJson = {}
    for tp, next_offset in sorted(offset.offsets.items()):
        document.setdefault(tp.topic, {})[str(tp.partition)] = next_offset
    if document and (offset.topic_ids or offset.leader_epochs or offset.start is not None):
        start = offset.start
        kept = None if start is None else identities.Start(start.offsets, start.topic_ids, start.leader_epochs)
        document[identities.to_text(offset.topic_ids, offset.leader_epochs, kept)] = {}
    return document


def from_json(document: Any) -> StreamOffset:
    """The inverse, also for what the JVM connector wrote. Raises KafkaSourceError on anything else: a checkpoint is
    never guessed at.
    """
    offsets: Offsets = {}
    known: identities.Identities | None = None
    try:
        for topic, partitions in document.items():
            if topic.startswith(identities.MARK):
                if known is not None or partitions != {}:
                    raise ValueError(f"{topic[:20]!r}... stands twice, or has a value")
                known = identities.from_text(topic)
                continue
            if not identities.TOPIC.fullmatch(topic):
                raise ValueError(f"{topic!r} cannot be a topic: written by a newer version of this connector?")
            for number, offset in partitions.items():
                if type(offset) is not int or not 0 <= offset < 2**63:
                    raise ValueError(f"offset {offset!r} of {topic}-{number} is not a whole number from 0 to 2^63-1")
                offsets[TopicPartition(topic, partition_number(number))] = offset
    except (ValueError, TypeError, AttributeError, RecursionError) as error:  # the last from the text of nested values
        raise KafkaSourceError(f'not an offset of this source, expected e.g. {{"topic":{{"0":23}}}}: {error}') from None
    if known is None:
        return StreamOffset(offsets)
    start = None if known.start is None else StreamOffset(dict(known.start.offsets), *known.start[1:])
    return StreamOffset(offsets, known.topic_ids, known.leader_epochs, start)


def partition_number(number: str) -> int:
    """Of a JSON key. Raises ValueError."""
    if not (number.isascii() and number.isdecimal() and len(number) <= 10):
        raise ValueError(f"{number!r} is not a partition number")
    return int(number)


class RecentOffsets:
    """`to_json` and `from_json` for who is soon brought back what he gave: with 1,000 partitions worth noticing.

    Documents and offsets are never modified.
    """

    def __init__(self) -> None:
        self._known: deque[tuple[OffsetJson, StreamOffset]] = deque(maxlen=3)

    def to_json(self, offset: StreamOffset) -> OffsetJson:
        for document, known in self._known:
            if known is offset:
                return document
        self._known.append((to_json(offset), offset))
        return self._known[-1][0]

    def topics_to_json(self, offsets: Offsets) -> OffsetJson:
        """Without our own entry: for people and monitors."""
        for document, known in self._known:
            if known.offsets == offsets:
                return {key: value for key, value in document.items() if not key.startswith(identities.MARK)}
        return to_json(StreamOffset(offsets))

    def from_json(self, document: Mapping[str, Any]) -> StreamOffset:
        for known, offset in self._known:
            if known == document:
                return offset
        self._known.append((dict(document), from_json(document)))
        return self._known[-1][1]
