"""Which logs a checkpoint's offsets are of: topic ids (KIP-516) and leader epochs (KIP-320), as one text.

A topic's name is not its identity, and an offset means nothing in another topic of the name, or in a log that was
truncated and written again. The text is a key of the checkpoint's JSON, beside the topics' names:

    @1;t/2b1yVQz0RZmGV9kUS9nT6A/0-3=5,4=6;u//0=0

`@1` is its version. Of each topic, in order: the name; the id as Kafka's tools print it, empty where brokers have none
(before 2.8); of partitions, those that follow each other with one epoch together, the epoch that no record below the
offset is newer than (missing where brokers before 2.1 tell none). No topic's name holds any of `@;/=,|`.

The end of a query's first micro-batch also tells where that batch begins (`first_batch`): the same of its start, and of
each topic besides the offsets, behind a `|`. Such a text has version 2; all later ones stay version 1.

    @2;t/2b1yVQz0RZmGV9kUS9nT6A/0-1=5|t/2b1yVQz0RZmGV9kUS9nT6A/0-1=5/0=12,1=0
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from kafkasource.errors import KafkaSourceError
from kafkasource.types import TopicPartition

MARK = "@"
VERSION, WITH_START = "@1", "@2"
TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ID = re.compile(r"[a-zA-Z0-9_-]{22}")
_RUN = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?=([0-9]{1,19})")
_MAX_PARTITIONS = 1_000_000  # of one text; nothing real comes near


class Start(NamedTuple):
    """Where the first micro-batch begins. Never modified, as `Identities`."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, uuid.UUID]
    leader_epochs: Mapping[TopicPartition, int]


class Identities(NamedTuple):
    """Never modified: one text's are kept."""

    topic_ids: Mapping[str, uuid.UUID]
    leader_epochs: Mapping[TopicPartition, int]
    start: Start | None = None


def to_text(
    topic_ids: Mapping[str, uuid.UUID], leader_epochs: Mapping[TopicPartition, int], start: Start | None = None
) -> str:
    if start is None:
        return ";".join((VERSION, *_topics(topic_ids, leader_epochs)))
    begins = ";".join(_topics(start.topic_ids, start.leader_epochs, start.offsets))
    return ";".join((WITH_START, *_topics(topic_ids, leader_epochs))) + "|" + begins


def _topics(topic_ids: Mapping[str, uuid.UUID], *of_partitions: Mapping[TopicPartition, int]) -> Iterator[str]:
    """`t/id/0-3=5`, and a further such list for each further mapping."""
    lists = [_by_topic(numbers) for numbers in of_partitions]
    for topic in sorted(topic_ids.keys() | {topic for numbers in lists for topic in numbers}):
        runs = (",".join(_runs(numbers.get(topic, ()))) for numbers in lists)
        yield "/".join((topic, _id_to_text(topic_ids.get(topic)), *runs))


def _by_topic(numbers: Mapping[TopicPartition, int]) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for tp, number in sorted(numbers.items()):
        found.setdefault(tp.topic, []).append((tp.partition, number))
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
def from_text(text: str) -> Identities:
    """The inverse. Raises ValueError, and KafkaSourceError for a version that this one does not know."""
    version = text.partition(";")[0].partition("|")[0]
    if version not in (VERSION, WITH_START):
        raise KafkaSourceError(
            f"the checkpoint was written by a newer version of kafkasource: its entry {text[:20]!r}... is not of"
            f" version {VERSION} or {WITH_START}. Run the query with that version, or a newer one"
        )
    ends, bar, begins = text[len(version) :].partition("|")
    if (version == WITH_START) != bool(bar):
        raise ValueError(f"{text[:20]!r}... has a start, or none, against its version")
    topic_ids, (epochs,) = _topics_from_text(ends[1:], 1)
    if not bar:
        return Identities(topic_ids, epochs)
    start_ids, (start_epochs, offsets) = _topics_from_text(begins, 2)
    return Identities(topic_ids, epochs, Start(offsets, start_ids, start_epochs))


def _topics_from_text(text: str, lists: int) -> tuple[dict[str, uuid.UUID], list[dict[TopicPartition, int]]]:
    """The inverse of `_topics`, with so many lists of each topic."""
    topic_ids: dict[str, uuid.UUID] = {}
    found: list[dict[TopicPartition, int]] = [{} for _ in range(lists)]
    for topic in text.split(";") if text else ():
        name, topic_id, *runs_of = topic.split("/")
        if not TOPIC.fullmatch(name) or len(runs_of) != lists:
            raise ValueError(f"{topic[:300]!r} does not tell of a topic")
        if topic_id:
            topic_ids[name] = _id_from_text(topic_id)
        for numbers, runs in zip(found, runs_of, strict=True):
            for run in filter(None, runs.split(",")):
                first, last, value = _run_from_text(run)
                if len(numbers) + last - first >= _MAX_PARTITIONS:
                    raise ValueError("more partitions than can be")
                numbers.update((TopicPartition(name, number), value) for number in range(first, last + 1))
    return topic_ids, found


def _id_from_text(text: str) -> uuid.UUID:
    if not _ID.fullmatch(text):
        raise ValueError(f"{text!r} is not a topic id")
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def _run_from_text(text: str) -> tuple[int, int, int]:
    match = _RUN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} does not tell the leader epoch or the offset of partitions")
    first, last, value = int(match[1]), int(match[2] or match[1]), int(match[3])
    if last < first or value >= 2**63:
        raise ValueError(f"{text!r} ends before it begins, or is no number of Kafka's")
    return first, last, value
