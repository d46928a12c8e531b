"""Reads from the options where a read starts and ends.

A `Position` is parsed and checked before any broker is asked, and resolved to offsets when a read is planned. Each end
has three options, and the first given counts, as in the JVM connector: `startingTimestamp`,
`startingOffsetsByTimestamp`, `startingOffsets`; `ending...` alike. Their JSON is the JVM connector's. An offset may be
-2 (earliest) or -1 (latest) too, as in Kafka's ListOffsets request, a topic may have one word for all its partitions,
`{"topic":"earliest"}` (SPARK-58774), and so may all that is not named, `{"*":"earliest"}`, which no topic is called. A
group's committed offsets can be the start.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkasource.errors import OptionError
from kafkasource.options.types import json_fault
from kafkasource.source.plan.offsets import EARLIEST, LATEST, Offsets, partition_number
from kafkasource.types import TopicPartition

if TYPE_CHECKING:
    from kafkasource.options import Options
    from kafkasource.source.plan.offset_reader import OffsetReader

_WORDS = {"earliest": EARLIEST, "latest": LATEST}
_OTHER_WORDS = {  # of kcat, of Kafka's and of librdkafka's clients
    **dict.fromkeys(("beginning", "smallest", "start", "-2"), "earliest"),
    **dict.fromkeys(("end", "largest", "newest", "-1"), "latest"),
}
_OTHERS = "*"  # in place of a topic: all that the JSON does not name
_COMMITTED = {"committed": None, "committed:earliest": EARLIEST, "committed:latest": LATEST}
_OFFSETS_EXAMPLE = 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES_EXAMPLE = 'Expected e.g. {"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789}}'


@dataclass(frozen=True, slots=True)
class Position(ABC):
    """One end of a read. `option` is the name that the user wrote."""

    option: str

    @abstractmethod
    def resolve(self, assigned: Iterable[TopicPartition], reader: OffsetReader) -> Offsets:
        """Ask brokers for the real offsets. Leaves out a partition that vanished meanwhile.

        Raises OptionError if the option does not fit the existing partitions.
        """

    @abstractmethod
    def covered(self, assigned: Iterable[TopicPartition]) -> set[TopicPartition]:
        """The partitions that the option is about: all, unless it names some."""

    def symbols(self, assigned: Iterable[TopicPartition]) -> Offsets:
        """EARLIEST or LATEST for those partitions for which the user asked for it."""
        return {}

    def written(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offsets, EARLIEST and LATEST that the option itself gives to some of these partitions."""
        return {}

    def was_in_log(self, tp: TopicPartition) -> bool:
        """Is this end an offset that a client got from the partition's log?"""
        return False


@dataclass(frozen=True, slots=True)
class AtOffsets(Position):
    """A word per topic, offsets per partition, and a word for all that they do not name."""

    others: int | None = None  # EARLIEST or LATEST; from the command line also real offsets
    topics: Mapping[str, int] = field(default_factory=dict)  # EARLIEST or LATEST
    partitions: Mapping[TopicPartition, int] = field(default_factory=dict)  # also real offsets

    def of(self, assigned: Iterable[TopicPartition]) -> Offsets:
        """The offset of each assigned partition; -2 and -1 stay as the user wrote them.

        Raises OptionError where the user named other partitions, and for an assigned one of which nothing is said: it
        would silently start somewhere.
        """
        wanted = set(assigned)
        named = set(self.partitions) | {tp for tp in wanted if tp.topic in self.topics}
        stray = sorted(self.topics.keys() - {tp.topic for tp in wanted})
        if not named <= wanted or stray or (self.others is None and named != wanted):
            specified = _names(named) + (f" and topics {', '.join(stray)}" if stray else "")
            raise OptionError(
                f"[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED] If {self.option} contains specific offsets, you must"
                f" specify all TopicPartitions. Use -1 for latest, -2 for earliest. Specified: {specified}"
                f" Assigned: {_names(wanted)}"
            )
        return self.written(wanted)

    def covered(self, assigned: Iterable[TopicPartition]) -> set[TopicPartition]:
        return set(self.written(assigned))

    def was_in_log(self, tp: TopicPartition) -> bool:
        return self.partitions.get(tp, LATEST) >= 0

    def symbols(self, assigned: Iterable[TopicPartition]) -> Offsets:
        return {tp: offset for tp, offset in self.of(assigned).items() if offset < 0}

    def written(self, partitions: Iterable[TopicPartition]) -> Offsets:
        found = {tp: self.partitions.get(tp, self.topics.get(tp.topic, self.others)) for tp in partitions}
        return {tp: offset for tp, offset in found.items() if offset is not None}

    def resolve(self, assigned: Iterable[TopicPartition], reader: OffsetReader) -> Offsets:
        offsets = self.of(assigned)
        symbolic = {tp: offset for tp, offset in offsets.items() if offset < 0}
        listed = reader.list_offsets(symbolic) if symbolic else {}
        return {tp: listed.get(tp, offset) for tp, offset in offsets.items() if offset >= 0 or tp in listed}


@dataclass(frozen=True, slots=True)
class AtTimestamps(Position):
    """At the first record that is not older than a timestamp, in ms: one for all partitions, or one for each.

    -1 and -2 mean latest and earliest here too, as to the JVM connector, which hands them to ListOffsets as they are.
    """

    everywhere_ms: int | None = None
    partitions_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    else_latest: bool = False  # where all records are older; False: an error

    def of(self, assigned: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Each assigned partition's timestamp. Raises OptionError unless exactly the assigned ones are named."""
        wanted = set(assigned)
        if self.everywhere_ms is not None:
            return dict.fromkeys(wanted, self.everywhere_ms)
        if wanted != set(self.partitions_ms):
            raise OptionError(
                f"[KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED] {self.option} must specify all TopicPartitions."
                f" Specified: {_names(self.partitions_ms)} Assigned: {_names(wanted)}"
            )
        return dict(self.partitions_ms)

    def resolve(self, assigned: Iterable[TopicPartition], reader: OffsetReader) -> Offsets:
        times = self.of(assigned)
        found = reader.offsets_for_times(times)
        older = sorted(tp for tp, offset in found.items() if offset is None)
        if older and not self.else_latest:
            others = f" (nor for {len(older) - 1} more)" if len(older) > 1 else ""
            raise OptionError(
                f"No offset matched from request of topic-partition {older[0]} and timestamp {times[older[0]]}{others}:"
                f" all records are older (option {self.option!r}). To start at the end there, set the option"
                " startingOffsetsByTimestampStrategy to latest"
            )
        return {tp: offset for tp, offset in found.items() if offset is not None} | _ends_of_older(older, times, reader)

    def covered(self, assigned: Iterable[TopicPartition]) -> set[TopicPartition]:
        return {tp for tp in assigned if self.everywhere_ms is not None or tp in self.partitions_ms}


@dataclass(frozen=True, slots=True)
class AtCommitted(Position):
    """At the offsets that a consumer group has committed."""

    group: str
    otherwise: int | None = None  # EARLIEST or LATEST, where it has none; None: an error

    def resolve(self, assigned: Iterable[TopicPartition], reader: OffsetReader) -> Offsets:
        found = reader.committed(self.group, assigned)
        missing = sorted(tp for tp, offset in found.items() if offset is None)
        if missing and self.otherwise is None:
            raise OptionError(
                f"group {self.group!r} has no committed offset for {_names(missing)}: set {self.option} to"
                " committed:earliest or committed:latest to say where such partitions start"
            )
        listed = reader.list_offsets(dict.fromkeys(missing, self.otherwise or EARLIEST)) if missing else {}
        return {tp: offset for tp, offset in found.items() if offset is not None} | listed

    def covered(self, assigned: Iterable[TopicPartition]) -> set[TopicPartition]:
        return set(assigned)

    def was_in_log(self, tp: TopicPartition) -> bool:
        return True


def starting_position(options: Options, *, streaming: bool) -> Position:
    """The start of a new query. A batch cannot start at latest: it would always be empty."""
    by_time = _by_time(
        options,
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        else_latest=options["startingOffsetsByTimestampStrategy"] == "latest",
    )
    if by_time is not None:
        return by_time
    text = options["startingOffsets"] or ("latest" if streaming else "earliest")
    if text.strip().lower() in _COMMITTED:
        if options["kafka.group.id"] is None:
            raise OptionError(
                f"option 'startingOffsets' is {text}: set 'kafka.group.id' to the group whose offsets are meant"
            )
        return AtCommitted("startingOffsets", options["kafka.group.id"], _COMMITTED[text.strip().lower()])
    position = parse_offsets("startingOffsets", text)
    if not streaming:
        _refuse(position, LATEST, "starting offset can't be latest for batch queries on Kafka", "latest")
    return position


def ending_position(options: Options, *, streaming: bool) -> Position | None:
    """The end of the read (exclusive). None: a stream without an end."""
    by_time = _by_time(options, "endingTimestamp", "endingOffsetsByTimestamp", else_latest=True)
    if by_time is not None:
        return by_time
    if streaming and options["endingOffsets"] is None:
        return None
    position = parse_offsets("endingOffsets", options["endingOffsets"] or "latest")
    _refuse(position, EARLIEST, "ending offset can't be earliest for batch queries on Kafka", "earliest")
    return position


def _ends_of_older(
    older: Iterable[TopicPartition], times: Mapping[TopicPartition, int], reader: OffsetReader
) -> Offsets:
    """The ends of logs whose records are all older than their timestamps.

    A record that is not older may come before the ends are listed, and a read that starts there would lose it. So the
    question by time is asked once more.
    """
    ends = reader.list_offsets(dict.fromkeys(older, LATEST)) if older else {}
    came = reader.offsets_for_times({tp: times[tp] for tp in ends}) if ends else {}
    return {tp: end if (offset := came.get(tp)) is None else min(offset, end) for tp, end in ends.items()}


def _by_time(options: Options, everywhere: str, partitions: str, *, else_latest: bool) -> Position | None:
    if options[everywhere] is not None:
        return AtTimestamps(everywhere, everywhere_ms=options[everywhere], else_latest=else_latest)
    if options[partitions] is None:
        return None
    text = options[partitions].strip()
    try:
        topics, times = _from_json(text, least=EARLIEST)
        if topics:
            raise ValueError(text)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        fault = json_fault(text, error)
        raise OptionError(f"option {partitions!r}: {_TIMES_EXAMPLE} in ms, got {text}{fault}") from None
    return AtTimestamps(partitions, partitions_ms=times, else_latest=else_latest)


def parse_offsets(option: str, text: str) -> AtOffsets:
    """`earliest`, `latest` (any case) or JSON. Raises OptionError with the option's name, the value and an example."""
    text = text.strip()
    word = _WORDS.get(text.lower())
    if word is not None:
        return AtOffsets(option, others=word)
    try:
        topics, partitions = _from_json(text, least=EARLIEST)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise OptionError(
            f"option {option!r}: {_OFFSETS_EXAMPLE} or earliest or latest, got {text}{_hint(text, error)}"
        ) from None
    return AtOffsets(option, others=topics.pop(_OTHERS, None), topics=topics, partitions=partitions)


def _hint(text: str, error: Exception) -> str:
    """Explain a word of other clients, or say where the JSON is broken."""
    meant = _OTHER_WORDS.get(text.lower())
    return json_fault(text, error) if meant is None else f". Did you mean {meant}?"


def _from_json(text: str, *, least: int) -> tuple[dict[str, int], dict[TopicPartition, int]]:
    """Words of topics and numbers of partitions. Raises ValueError, TypeError, AttributeError or RecursionError."""
    topics: dict[str, int] = {}
    partitions: dict[TopicPartition, int] = {}
    for topic, value in json.loads(text, object_pairs_hook=_without_duplicates).items():
        if isinstance(value, str):
            topics[topic] = _WORDS[value.strip().lower()] if value.strip().lower() in _WORDS else _fail(value)
            continue
        if topic == _OTHERS:
            raise ValueError(topic)
        for number, offset in value.items():
            tp = TopicPartition(topic, partition_number(number))
            if type(offset) is not int or not least <= offset < 2**63 or tp in partitions:
                raise ValueError(offset)
            partitions[tp] = offset
    if not topics and not partitions:
        raise ValueError(text)
    return topics, partitions


def _refuse(position: AtOffsets, word: int, message: str, name: str) -> None:
    if position.others == word:
        raise OptionError(f"{message} (option {position.option!r})")
    for where, offset in (*position.topics.items(), *position.partitions.items()):
        if offset == word:
            raise OptionError(f"{position.option} for {where} can't be {name} for batch queries on Kafka")


def check_start_before_end(start: Position, end: Position | None) -> None:
    """Raise OptionError for faults in a read's two ends that show without asking a broker."""
    if isinstance(start, AtOffsets) and isinstance(end, AtOffsets):
        begin, until = start.others, end.others
        if begin is not None and until is not None:
            if 0 <= until < begin:
                raise _start_is_greater("offset", start, begin, end, until, "all topics")
        elif begin is None and until is None and not start.topics and not end.topics:
            _check_each("offset", start, start.partitions, end, end.partitions)
    elif isinstance(start, AtTimestamps) and isinstance(end, AtTimestamps):
        from_ms, until_ms = start.everywhere_ms, end.everywhere_ms
        if from_ms is None or until_ms is None:
            starts = start.partitions_ms if from_ms is None else dict.fromkeys(end.partitions_ms, from_ms)
            ends = end.partitions_ms if until_ms is None else dict.fromkeys(start.partitions_ms, until_ms)
            _check_each("timestamp", start, starts, end, ends)
        elif 0 <= until_ms < from_ms:
            raise _start_is_greater("timestamp", start, from_ms, end, until_ms, "all topics")


def _check_each(
    kind: str,
    start: Position,
    starts: Mapping[TopicPartition, int],
    end: Position,
    ends: Mapping[TopicPartition, int],
) -> None:
    if not starts or not ends:
        return
    if set(starts) != set(ends):
        raise OptionError(
            "[MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET] The specified start offset and end"
            f" offset should have the same topic-partitions. {start.option}:"
            f" {_names(starts)}, {end.option}: {_names(ends)}"
        )
    for tp, begin in sorted(starts.items()):
        if 0 <= ends[tp] < begin:
            where = f"topic {tp.topic} partition {tp.partition}"
            raise _start_is_greater(kind, start, begin, end, ends[tp], where)


def _start_is_greater(kind: str, start: Position, begin: int, end: Position, until: int, where: str) -> OptionError:
    return OptionError(
        f"[UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The specified start {kind} {begin} is greater than the end"
        f" {kind} {until} for {where}: lower {start.option} or raise {end.option}."
    )


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key is there twice")
    return document


def _fail(value: str) -> int:
    raise ValueError(value)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return "{" + ", ".join(str(tp) for tp in sorted(partitions)) + "}"
