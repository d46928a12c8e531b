"""Makes the options of a write into one `ClusterTarget` for each cluster that gets rows.

The option `clusters`, as JSON or spread over `clusters.<name>.<option>`, names several. Without it the write has one
cluster, without a name. Pure; runs on the driver, before any broker is asked. A cluster's options are those of a
plain sink, parsed as such: an option outside of `clusters` holds for each cluster, unless the cluster sets its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from kafkasource import options
from kafkasource.errors import OptionError
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.options import MAX_INT32, Options
from kafkasource.options.java_regex import compile_java
from kafkasource.sink.clusters.chosen import Chosen
from kafkasource.sink.clusters.origin import UnlessFrom
from kafkasource.sink.schema import dead_letter_topic_of
from kafkasource.types import NewTopic

if TYPE_CHECKING:
    from kafkasource.kafka.producer.rows import Rows

Policy = Literal["block", "discard", "fail"]

ONLY = ""
"""The name of the cluster in a write that names no clusters."""

_PREFIX = "clusters."
_SERVERS = "kafka.bootstrap.servers"
_TOPIC = "${topic}"


@dataclass(frozen=True)
class ClusterTarget:
    """One cluster that gets rows. Hashable and picklable: it is the key under which a worker keeps its producers."""

    name: str
    config: ProducerConfig  # of each producer; but its memory is for all of them together
    partitioner: str
    transaction_timeout_ms: int
    new_topic: tuple[str, NewTopic] | None = None
    metadata_wait_ms: int = 0  # `kafka.max.block.ms`
    # Only for one of several clusters.
    topic_template: str = _TOPIC
    partitioning: Literal["source", "key"] = "source"
    producers: int = 1
    policy: Policy = "block"
    high_watermark_bytes: int = 0  # part of `buffer_memory_bytes` of `config`; the watermarks move with it
    low_watermark_bytes: int = 0
    wait_ms: int = 0  # `slowClusterWait`
    max_record_age_ms: int | None = None
    chosen: Chosen = field(default_factory=Chosen)  # which rows it gets
    offset_map: str | None = None  # the topic there that maps offsets of the source
    refused: frozenset[str] | None = None  # `refusedTopics`
    dead_letter_topic: str | None = None  # it gets each dead letter under this name, whatever `chosen` and template say

    @property
    def watermarks(self) -> bool:
        """Does the sink act on its queue? The queue of a write's only cluster holds nobody up."""
        return self.policy != "block" and self.high_watermark_bytes > 0

    @property
    def may_discard(self) -> bool:
        """May the sink leave out rows that the cluster should get? Then it tells how many bytes they have."""
        return self.policy == "discard" or self.max_record_age_ms is not None or self.refused is not None

    def topic(self, source: str) -> str:
        """The target's topic for rows of this topic."""
        return source if source == self.dead_letter_topic else self.topic_template.replace(_TOPIC, source)

    def takes(self, topic: str) -> bool:
        """Does it get rows of this topic (the row's own name, before the template)?"""
        return topic == self.dead_letter_topic or self.chosen.topic(topic)

    def rows(self, rows: Rows) -> Rows:
        """Choose the rows that it gets, of a topic that it takes: the same object, if these are all."""
        return rows if rows.topic == self.dead_letter_topic else self.chosen.rows(rows)

    def fixed_topic(self, topic: str | None) -> str | None:
        """The target's topic for all rows. None: their own topics decide. `topic` is that of `Targets`."""
        return self.topic(topic or "") if topic or _TOPIC not in self.topic_template else None


@dataclass(frozen=True)
class Targets:
    """All targets of a write. Pickled to the tasks."""

    shared: Options  # parsed: options of the whole write (`Option.per_cluster` false) and Spark's own
    topic: str | None  # topic of all rows, before a cluster's template; None: rows have a column
    by_name: Mapping[str, ClusterTarget]
    dead_letter_topic: str | None = None  # of `badRecords`


def named(written: Mapping[str, str]) -> bool:
    """Does the write have the option `clusters`, in either form? It may name a single cluster."""
    return any(key.lower() == "clusters" or key.lower().startswith(_PREFIX) for key in written)


def parse(written: Mapping[str, str], *, warn: Callable[[str], None] = options.log_warning) -> Targets:
    """Make targets from the options as the user wrote them. Raises OptionError, which names a cluster's option in
    full. `warn`: as for `options.parse`."""
    if named(written):
        return _several(written, warn)
    parsed = options.parse(written, "sink", warn=warn)
    topic, new, dead_letter_topic = parsed["topic"], parsed["createTopic"], dead_letter_topic_of(parsed)
    only = ClusterTarget(
        name=ONLY,
        config=ProducerConfig.from_options(parsed),
        partitioner=parsed["partitioner"],
        transaction_timeout_ms=parsed["kafka.transaction.timeout.ms"],
        new_topic=None if topic is None or new is None else (topic, new),
        metadata_wait_ms=parsed["kafka.max.block.ms"],
        policy="fail",
        dead_letter_topic=dead_letter_topic,
    )
    return Targets(parsed, topic, {ONLY: only}, dead_letter_topic)


def _several(written: Mapping[str, str], warn: Callable[[str], None]) -> Targets:
    clusters = _clusters(written)
    common = {key: text for key, text in written.items() if key.lower() != "clusters" and not _own(key)}
    if any(options.canonical(key) == _SERVERS for key in common):
        raise OptionError(f"option {_SERVERS!r} beside 'clusters': give it to each as 'clusters.<name>.{_SERVERS}'")
    topic = next((text for key, text in common.items() if key.lower() == "topic"), None)
    parsed: dict[str, Options] = {}
    said: list[str] = []
    for name, own in clusters.items():
        parsed[name] = _parsed(name, own, common, said.append)
    said += _without_effect(clusters, parsed)
    for text in dict.fromkeys(said):  # each cluster says the same of the options of all
        warn(text)
    shared = next(iter(parsed.values()))
    by_name = {name: _target(name, clusters[name], one, topic) for name, one in parsed.items()}
    if topic is None and all(_TOPIC not in target.topic_template for target in by_name.values()):
        topic = ""  # no row's topic matters
    return Targets(shared, topic, by_name, dead_letter_topic_of(shared))


def _without_effect(clusters: Mapping[str, Mapping[str, str]], parsed: Mapping[str, Options]) -> Iterator[str]:
    """A warning for each option of all clusters that has an effect on none of them, and each of a cluster's own."""
    unused = {name: options.without_effect(one, "sink") for name, one in parsed.items()}
    owned = {name: set(map(options.canonical, own)) for name, own in clusters.items()}
    used = {key for name, one in parsed.items() for key in one.given - unused[name].keys() - owned[name]}
    for name, texts in unused.items():
        for key, text in texts.items():
            if key in owned[name] or key not in used:
                yield text


def _own(key: str) -> bool:
    return key.lower().startswith(_PREFIX)


def _clusters(written: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The options that each cluster sets itself: name to text."""
    found: dict[str, dict[str, str]] = {}
    for key, text in written.items():
        if key.lower() == "clusters":
            for name, own in _from_json(str(text)).items():
                found.setdefault(name, {}).update(own)
    for key, text in written.items():
        if _own(key):
            name, dot, option = key[len(_PREFIX) :].partition(".")
            if not dot or not option:
                raise OptionError(f"option {key!r}: expected clusters.<name>.<option>")
            known = next((one for one in found if one.lower() == name.lower()), name)
            own = found.setdefault(known, {})
            if options.canonical(option) in map(options.canonical, own):
                raise OptionError(f"option {key!r} is given twice: in 'clusters' and as an option of its own")
            own[option] = str(text)
    if not found:
        raise OptionError("option 'clusters' names no cluster")
    for name, own in found.items():
        if not re.fullmatch(r"[\w-]+", name):
            raise OptionError(f"option 'clusters': a cluster's name is made of letters, digits, _ and -, not {name!r}")
        if [one.lower() for one in found].count(name.lower()) > 1:
            raise OptionError(f"option 'clusters': {name!r} is there twice (upper and lower case are the same)")
        _check_names(name, own)
    return found


def _from_json(text: str) -> dict[str, dict[str, str]]:
    wanted = f'option \'clusters\': expected JSON such as {{"east":{{"{_SERVERS}":"e:9092"}}}}'
    try:
        clusters = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{wanted}: {error}") from None
    if not isinstance(clusters, dict) or not all(isinstance(own, dict) for own in clusters.values()):
        raise OptionError(wanted)
    return {name: {key: _text(name, key, value) for key, value in own.items()} for name, own in clusters.items()}


def _text(name: str, key: str, value: object) -> str:
    """The value as it would be written in `.option(...)`."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int)):
        raise OptionError(f"option 'clusters.{name}.{key}': expected a text, a whole number or a boolean")
    return str(value)


def _check_names(name: str, own: Mapping[str, str]) -> None:
    for key in own:
        row = options.BY_NAME.get(options.canonical(key))
        if key.lower() in options.SPARKS_OWN or (row is not None and not row.per_cluster):
            raise OptionError(
                f"option 'clusters.{name}.{key}': {key!r} is for all clusters: set it outside of 'clusters'"
            )


def _parsed(name: str, own: Mapping[str, str], common: Mapping[str, str], warn: Callable[[str], None]) -> Options:
    """The options of one cluster, parsed as those of a sink with one cluster."""
    owned = {options.canonical(key) for key in own}
    merged = {key: text for key, text in common.items() if options.canonical(key) not in owned} | dict(own)
    try:
        parsed = options.parse(merged, "sink", of_cluster=True, warn=warn)
    except OptionError as error:
        raise OptionError(f"cluster {name!r} of 'clusters': {error}") from None
    for key in own:  # a name mistyped for one cluster of many is found late, so this does not only warn
        hint = options.unknown(key, "sink")
        if hint is not None:
            raise OptionError(f"option 'clusters.{name}.{key}' is unknown: {hint}")
    return parsed


def _target(name: str, own: Mapping[str, str], parsed: Options, topic: str | None) -> ClusterTarget:
    template = next((text for key, text in own.items() if key.lower() == "topic"), _TOPIC)
    memory, policy = parsed["kafka.buffer.memory"], parsed["onSlowCluster"]
    high = parsed["highWatermarkBytes"]
    if high is None:
        high = memory if policy == "block" else memory * 3 // 4
    low = parsed["lowWatermarkBytes"]
    if low is None:
        low = high // 2
    _check_watermarks(name, parsed, high, low)
    return ClusterTarget(
        name=name,
        config=replace(_producer_config(parsed, high), cluster_name=name),
        topic_template=template,
        partitioning=parsed["partitioning"],
        partitioner=parsed["partitioner"],
        producers=parsed["producersPerCluster"],
        policy=policy,
        high_watermark_bytes=high,
        low_watermark_bytes=low,
        wait_ms=parsed["slowClusterWait"],
        metadata_wait_ms=parsed["kafka.max.block.ms"],
        max_record_age_ms=parsed["maxRecordAge"],
        new_topic=_new_topic(name, template, parsed, topic),
        transaction_timeout_ms=parsed["kafka.transaction.timeout.ms"],
        chosen=_chosen(name, parsed),
        offset_map=_offset_map(name, parsed, topic),
        refused=_refused(name, parsed),
        dead_letter_topic=dead_letter_topic_of(parsed),
    )


def _chosen(name: str, parsed: Options) -> Chosen:
    try:
        compile_java(parsed["onlyTopics"] or "")
    except ValueError as error:
        raise OptionError(
            f"cluster {name!r} of 'clusters': option 'onlyTopics': {parsed['onlyTopics']!r} is not a usable regular "
            f"expression: {error}"
        ) from None
    text = parsed["unlessOrigin"]
    try:
        unless_from = None if text is None else UnlessFrom.from_json(text)
    except ValueError as error:
        form = UnlessFrom("idOfEast", "idOfWest").to_json()
        raise OptionError(
            f"cluster {name!r} of 'clusters': option 'unlessOrigin': expected JSON such as {form}: {error}"
        ) from None
    return Chosen(parsed["onlyTopics"], unless_from)


def _refused(name: str, parsed: Options) -> frozenset[str] | None:
    text = parsed["refusedTopics"]
    if text is None:
        return None
    try:
        topics = json.loads(text)
    except ValueError:
        topics = None
    if not isinstance(topics, list) or not all(isinstance(each, str) for each in topics):
        raise OptionError(f"cluster {name!r} of 'clusters': option 'refusedTopics': expected a JSON list of topics")
    return frozenset(topics)


def _offset_map(name: str, parsed: Options, topic: str | None) -> str | None:
    found: str | None = parsed["offsetMap"]
    if found is not None and (topic is not None or parsed["partitioning"] != "source"):
        raise OptionError(
            f"cluster {name!r} of 'clusters': option 'offsetMap' is for rows that keep the topic and the partition of "
            "where they were read: it goes neither with the option 'topic' for all rows nor with 'partitioning'=key"
        )
    return found


def _check_watermarks(name: str, parsed: Options, high: int, low: int) -> None:
    for what, number, most_of, most in (
        ("highWatermarkBytes", high, "kafka.buffer.memory", parsed["kafka.buffer.memory"]),
        ("lowWatermarkBytes", low, "highWatermarkBytes", high),
        ("kafka.batch.size", parsed["kafka.batch.size"], "highWatermarkBytes", high),
    ):
        if number > most:
            raise OptionError(f"cluster {name!r} of 'clusters': {what!r} ({number}) is above {most_of!r} ({most})")


def _producer_config(parsed: Options, high: int) -> ProducerConfig:
    """The configuration as for a sink with one cluster, except for the time that the sink waits for a cluster."""
    config = ProducerConfig.from_options(parsed)
    patience_ms, memory = config.delivery_timeout_ms, config.buffer_memory_bytes
    if parsed["onSlowCluster"] == "block":
        memory = high  # so that a task that would go above it waits for memory
        if parsed["deliveryGuarantee"] == "exactly_once":
            patience_ms = parsed["kafka.transaction.timeout.ms"]  # nothing is gained after that
        elif "kafka.delivery.timeout.ms" not in parsed.given:
            patience_ms = MAX_INT32
    block_ms = patience_ms
    age = parsed["maxRecordAge"]
    if age is not None:
        patience_ms = min(patience_ms, age)
    return replace(
        config,
        buffer_memory_bytes=memory,
        max_block_ms=block_ms,
        delivery_timeout_ms=patience_ms,
        linger_ms=min(config.linger_ms, patience_ms // 2),
    )


def _new_topic(name: str, template: str, parsed: Options, topic: str | None) -> tuple[str, NewTopic] | None:
    new = parsed["createTopic"]
    if new is None:
        return None
    if topic is None and _TOPIC in template:
        raise OptionError(
            f"cluster {name!r} of 'clusters': 'createTopic' needs the option 'topic': topics that rows name are not "
            "created"
        )
    return template.replace(_TOPIC, topic or ""), new
