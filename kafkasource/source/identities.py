"""Which logs a checkpoint's offsets are of: topic ids (KIP-516) and leader epochs (KIP-320), as one text.

A topic's name is not its identity, and an offset means nothing in another topic of the name, or in a log that was
truncated and written again. The text is a key of the checkpoint's JSON, beside the topics' names:

    @1;t/2b1yVQz0RZmGV9kUS9nT6A/0-3=5,4=6;u//0=0

`@1` is its version. Of each topic, in order: the name; the id as Kafka's tools print it, empty where brokers have none
(before 2.8); of partitions, those that follow each other with one epoch together, the epoch that no record below the
offset is newer than (missing where brokers before 2.1 tell none). No topic's name holds any of `@;/=,`.
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
VERSION = "@1"
TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ID = re.compile(r"[a-zA-Z0-9_-]{22}")
_RUN = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?=([0-9]{1,10})")
_MAX_PARTITIONS = 1_000_000  # of one text; nothing real comes near


class Identities(NamedTuple):
    """Never modified: one text's are kept."""

    topic_ids: Mapping[str, uuid.UUID]
    leader_epochs: Mapping[TopicPartition, int]


def to_text(topic_ids: Mapping[str, uuid.UUID], leader_epochs: Mapping[TopicPartition, int]) -> str:
    epochs: dict[str, list[tuple[int, int]]] = {}
    for tp, epoch in sorted(leader_epochs.items()):
        epochs.setdefault(tp.topic, []).append((tp.partition, epoch))
    topics = (
        f"{topic}/{_id_to_text(topic_ids.get(topic))}/{','.join(_runs(epochs.get(topic, ())))}"
        for topic in sorted(topic_ids.keys() | epochs.keys())
    )
    return ";".join((VERSION, *topics))


def _id_to_text(topic_id: uuid.UUID | None) -> str:
    return "" if topic_id is None else base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _runs(epochs: Sequence[tuple[int, int]]) -> Iterator[str]:
    """(partition, epoch) in order to `0-3=5`."""
    neighbours = groupby(enumerate(epochs), key=lambda one: (one[1][0] - one[0], one[1][1]))
    for (_, epoch), run in neighbours:
        numbers = [number for _, (number, _) in run]
        yield f"{numbers[0]}={epoch}" if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}={epoch}"


@lru_cache(maxsize=4)
def from_text(text: str) -> Identities:
    """The inverse. Raises ValueError, and KafkaSourceError for a version that this one does not know."""
    version, *topics = text.split(";")
    if version != VERSION:
        raise KafkaSourceError(
            f"the checkpoint was written by a newer version of kafkasource: its entry {text[:20]!r}... is not of"
            f" version {VERSION}. Run the query with that version, or a newer one"
        )
    topic_ids: dict[str, uuid.UUID] = {}
    leader_epochs: dict[TopicPartition, int] = {}
    for topic in topics:
        name, topic_id, runs = topic.split("/")
        if not TOPIC.fullmatch(name):
            raise ValueError(f"{name!r} cannot be a topic")
        if topic_id:
            topic_ids[name] = _id_from_text(topic_id)
        for run in filter(None, runs.split(",")):
            first, last, epoch = _run_from_text(run)
            if len(leader_epochs) + last - first >= _MAX_PARTITIONS:
                raise ValueError("more partitions than can be")
            leader_epochs.update((TopicPartition(name, number), epoch) for number in range(first, last + 1))
    return Identities(topic_ids, leader_epochs)


def _id_from_text(text: str) -> uuid.UUID:
    if not _ID.fullmatch(text):
        raise ValueError(f"{text!r} is not a topic id")
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def _run_from_text(text: str) -> tuple[int, int, int]:
    match = _RUN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} does not tell the leader epoch of partitions")
    first, last, epoch = int(match[1]), int(match[2] or match[1]), int(match[3])
    if last < first:
        raise ValueError(f"{text!r} ends before it begins")
    return first, last, epoch
