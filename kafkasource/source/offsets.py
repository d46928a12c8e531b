"""Where a read starts and ends: `startingOffsets`, `endingOffsets`, and the offsets that Spark's checkpoint keeps.

All three speak the JVM connector's JSON, `{"topic":{"0":23}}`: topic, partition, next offset to read. In options an
offset may also be -2 (earliest) or -1 (latest), as in Kafka's ListOffsets request, and a topic may have one word for
all its partitions, `{"topic":"earliest"}` (SPARK-58774). In a checkpoint every offset is a real one, so a query can
change from the JVM connector to this one and go on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.types import TopicPartition

EARLIEST, LATEST = -2, -1  # timestamps that ListOffsets understands
_WORDS = {"earliest": EARLIEST, "latest": LATEST}
_EXAMPLE = 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")

Offsets = dict[TopicPartition, int]  # next offset to read
ListOffsets = Callable[[Offsets], Offsets]  # asks the brokers what EARLIEST and LATEST are


@dataclass(frozen=True, slots=True)
class Position:
    """One end of a read as the user wrote it: one word for all, or a word per topic and offsets per partition."""

    option: str
    everywhere: int | None = None  # EARLIEST or LATEST
    topics: Mapping[str, int] = field(default_factory=dict)  # EARLIEST or LATEST
    partitions: Mapping[TopicPartition, int] = field(default_factory=dict)  # also real offsets

    def of(self, assigned: Iterable[TopicPartition]) -> Offsets:
        """The offset of each assigned partition, still -2 or -1 where that is what was written.

        Raises OptionError unless exactly the assigned partitions are named: a forgotten one would silently start
        somewhere.
        """
        wanted = set(assigned)
        if self.everywhere is not None:
            return dict.fromkeys(wanted, self.everywhere)
        named = set(self.partitions) | {tp for tp in wanted if tp.topic in self.topics}
        stray = sorted(self.topics.keys() - {tp.topic for tp in wanted})
        if named != wanted or stray:
            specified = _names(named) + (f" and topics {', '.join(stray)}" if stray else "")
            raise OptionError(
                f"If {self.option} contains specific offsets, you must specify all TopicPartitions."
                f" Use -1 for latest, -2 for earliest. Specified: {specified} Assigned: {_names(wanted)}"
            )
        return {tp: self.partitions[tp] if tp in self.partitions else self.topics[tp.topic] for tp in wanted}

    def resolve(self, assigned: Iterable[TopicPartition], list_offsets: ListOffsets) -> Offsets:
        """Real offsets: those written, and for -2 and -1 what the brokers answer in one call of `list_offsets`.

        A partition that vanished before it could be asked is missing in the result.
        """
        offsets = self.of(assigned)
        symbolic = {tp: offset for tp, offset in offsets.items() if offset < 0}
        listed = list_offsets(symbolic) if symbolic else {}
        return {tp: listed.get(tp, offset) for tp, offset in offsets.items() if offset >= 0 or tp in listed}


def parse_position(option: str, text: str | None, default: str) -> Position:
    """`earliest`, `latest` (any case) or JSON. Raises OptionError with the option's name, the value and an example."""
    text = (text if text is not None else default).strip()
    word = _WORDS.get(text.lower())
    if word is not None:
        return Position(option, everywhere=word)
    try:
        return _from_json(option, text)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise OptionError(f"option {option!r}: {_EXAMPLE} or earliest or latest, got {text}") from None


def _from_json(option: str, text: str) -> Position:
    topics: dict[str, int] = {}
    partitions: Offsets = {}
    for topic, value in json.loads(text, object_pairs_hook=_without_duplicates).items():
        if isinstance(value, str):
            topics[topic] = _WORDS[value.strip().lower()] if value.strip().lower() in _WORDS else _fail(value)
            continue
        for number, offset in value.items():
            tp = TopicPartition(topic, _partition(number))
            if type(offset) is not int or not EARLIEST <= offset < 2**63 or tp in partitions:
                raise ValueError(offset)
            partitions[tp] = offset
    if not topics and not partitions:
        raise ValueError(text)
    return Position(option, topics=topics, partitions=partitions)


def starting_offsets(options: Mapping[str, Any], *, streaming: bool) -> Position:
    """Where a new query starts. A batch cannot start at latest: it would always be empty."""
    position = parse_position("startingOffsets", options["startingOffsets"], "latest" if streaming else "earliest")
    if not streaming:
        _refuse(position, LATEST, "starting offset can't be latest for batch queries on Kafka", "latest")
    return position


def ending_offsets(options: Mapping[str, Any], *, streaming: bool) -> Position:
    """Where a batch read ends (exclusive); a streaming query has no end."""
    if streaming and options["endingOffsets"] is not None:
        raise OptionError("ending offset not valid in streaming queries: leave the option 'endingOffsets' out")
    position = parse_position("endingOffsets", options["endingOffsets"], "latest")
    _refuse(position, EARLIEST, "ending offset can't be earliest for batch queries on Kafka", "earliest")
    return position


def _refuse(position: Position, word: int, message: str, name: str) -> None:
    if position.everywhere == word:
        raise OptionError(f"{message} (option {position.option!r})")
    for where, offset in (*position.topics.items(), *position.partitions.items()):
        if offset == word:
            raise OptionError(f"{position.option} for {where} can't be {name} for batch queries on Kafka")


def check_start_before_end(start: Position, end: Position) -> None:
    """What can be seen wrong in a batch read's two options before any broker is asked."""
    if not start.partitions or not end.partitions or start.topics or end.topics:
        return
    if set(start.partitions) != set(end.partitions):
        raise OptionError(
            "startingOffsets and endingOffsets name different topic-partitions: "
            f"{_names(start.partitions)} and {_names(end.partitions)}"
        )
    for tp, offset in sorted(start.partitions.items()):
        until = end.partitions[tp]
        if offset >= 0 and until >= 0 and offset > until:
            raise OptionError(
                f"The specified start offset {offset} is greater than the end offset {until} "
                f"for topic {tp.topic} partition {tp.partition} (startingOffsets, endingOffsets)."
            )


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
                offsets[TopicPartition(topic, _partition(number))] = offset
    except (ValueError, TypeError, AttributeError) as error:
        raise KafkaSourceError(f'not an offset of this source, expected e.g. {{"topic":{{"0":23}}}}: {error}') from None
    return offsets


def _partition(number: str) -> int:
    if not (number.isascii() and number.isdecimal() and len(number) <= 10):
        raise ValueError(f"{number!r} is not a partition number")
    return int(number)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key stands twice")
    return document


def _fail(value: str) -> int:
    raise ValueError(value)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return "{" + ", ".join(str(tp) for tp in sorted(partitions)) + "}"
