"""The offsets that Spark's checkpoint keeps: the JVM connector's JSON, `{"topic":{"0":23}}`: topic, partition, next offset
to read. Every offset is a real one, so a query can change from the JVM connector to this one and go on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kafkasource.errors import KafkaSourceError
from kafkasource.types import TopicPartition

EARLIEST, LATEST = -2, -1  # timestamps that ListOffsets understands
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")

Offsets = dict[TopicPartition, int]  # next offset to read


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """What Spark's checkpoint gets. Sorted, because Spark compares the text to see whether there is anything new."""
    document: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(offsets.items()):
        document.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return document


def from_json(document: Any) -> Offsets:
    """The inverse, also for what the JVM connector wrote. Raises KafkaSourceError on anything else: a checkpoint is
    never guessed at.
    """
    try:
        offsets: Offsets = {}
        for topic, partitions in document.items():
            if not _TOPIC.fullmatch(topic):
                raise ValueError(f"{topic!r} cannot be a topic: written by a newer version of this connector?")
            for number, offset in partitions.items():
                if type(offset) is not int or not 0 <= offset < 2**63:
                    raise ValueError(f"offset {offset!r} of {topic}-{number} is not a whole number from 0 to 2^63-1")
                offsets[TopicPartition(topic, partition_number(number))] = offset
    except (ValueError, TypeError, AttributeError) as error:
        raise KafkaSourceError(f'not an offset of this source, expected e.g. {{"topic":{{"0":23}}}}: {error}') from None
    return offsets


def partition_number(number: str) -> int:
    """Of a JSON key. Raises ValueError."""
    if not (number.isascii() and number.isdecimal() and len(number) <= 10):
        raise ValueError(f"{number!r} is not a partition number")
    return int(number)
