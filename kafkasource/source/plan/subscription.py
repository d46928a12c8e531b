"""Chooses the topic-partitions that a query reads: `subscribe`, `subscribePattern` or `assign`, parsed and checked
before a broker is asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from kafkasource.errors import OptionError
from kafkasource.options.java_regex import compile_java
from kafkasource.options.parse import WHAT_TO_READ
from kafkasource.options.types import json_fault
from kafkasource.types import TopicPartition


@dataclass(frozen=True, slots=True)
class SubscribeTopics:
    """All partitions of these topics, also of internal ones. Every topic must exist."""

    topics: tuple[str, ...]
    option: ClassVar[str] = "subscribe"

    def covers(self, tp: TopicPartition) -> bool:
        return tp.topic in self.topics

    def __str__(self) -> str:
        return f"Subscribe[{', '.join(self.topics)}]"


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics whose names contain a match of the Java regex. Internal topics are excluded."""

    pattern: str
    option: ClassVar[str] = "subscribePattern"

    def matches(self, topic: str) -> bool:
        return compile_java(self.pattern).search(topic) is not None

    def covers(self, tp: TopicPartition) -> bool:
        return self.matches(tp.topic)

    def __str__(self) -> str:
        return f"SubscribePattern[{self.pattern}]"


@dataclass(frozen=True, slots=True)
class Assign:
    """Exactly these partitions; those that do not exist are left out, with a warning."""

    partitions: tuple[TopicPartition, ...]
    option: ClassVar[str] = "assign"

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({tp.topic for tp in self.partitions}))

    def covers(self, tp: TopicPartition) -> bool:
        return tp in self.partitions

    def __str__(self) -> str:
        return f"Assign[{', '.join(map(str, self.partitions))}]"


Subscription = SubscribeTopics | SubscribePattern | Assign


def parse_subscription(options: Mapping[str, str | None]) -> Subscription:
    """The one strategy that the options name. Raises OptionError when none, several, or a malformed one is given."""
    given = [name for name in WHAT_TO_READ if options[name] is not None]
    if not given:
        raise OptionError(
            "One of the following options must be specified for Kafka source: subscribe, subscribePattern, assign."
        )
    if len(given) > 1:
        raise OptionError(
            "Only one of the following options can be specified for Kafka source: "
            f"subscribe, subscribePattern, assign. Got {', '.join(given)}."
        )
    text = options[given[0]] or ""
    if given[0] == "subscribe":
        return _subscribe(text)
    return _subscribe_pattern(text) if given[0] == "subscribePattern" else _assign(text)


def _subscribe(text: str) -> SubscribeTopics:
    topics = tuple(dict.fromkeys(filter(None, (topic.strip() for topic in text.split(",")))))
    if not topics:
        raise OptionError(f"No topics to subscribe to: option 'subscribe' is {text!r}, expected topic[,topic...]")
    return SubscribeTopics(topics)


def _subscribe_pattern(text: str) -> SubscribePattern:
    if not text.strip():
        raise OptionError("Pattern to subscribe is empty: option 'subscribePattern' needs a regular expression")
    try:
        compile_java(text.strip())
    except ValueError as error:
        raise OptionError(f"option 'subscribePattern': {text!r} is not a usable regular expression: {error}") from None
    return SubscribePattern(text.strip())


def _assign(text: str) -> Assign:
    if not text.strip().startswith("{"):
        raise OptionError(
            f"No topicpartitions to assign: option 'assign' is {text!r}, expected e.g. {{\"topicA\":[0,1]}}"
        )
    try:
        partitions = [
            TopicPartition(topic, number) for topic, numbers in json.loads(text).items() for number in _numbers(numbers)
        ]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        fault = json_fault(text, error)
        raise OptionError(
            f'option \'assign\': Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}{fault}'
        ) from None
    if not partitions:
        raise OptionError(f"No topicpartitions to assign: option 'assign' is {text!r}")
    return Assign(tuple(sorted(set(partitions))))


def _numbers(value: object) -> list[int]:
    if not isinstance(value, list) or any(type(item) is not int or item < 0 for item in value):
        raise TypeError
    return value
