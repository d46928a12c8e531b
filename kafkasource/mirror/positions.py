"""The positions of a mirror's flows, and the readers that carry them. Pure: no Spark, no broker, no file.

A flow is one target and the names that topics get there. Its position in a topic-partition is the next offset that it
copies. A reader is one streaming query with a checkpoint of its own. The position of a flow is the position of the
reader that carries it; positions of flows and topics that no reader carries are parked in the record.

One shared reader carries each topic to all flows that are at its front, the furthest position that any flow has there.
Topics in which a flow is behind the front have a catch-up reader, for this flow alone, until it reaches the front.

The `PositionRecord` beside the checkpoints says all this, and which plan the readers run under. A plan that differs
from it takes effect by `replan`: from the positions that all readers have reached to new readers.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.options.java_regex import compile_java
from kafkasource.source.plan.offsets import Offsets, PartitionOffsets
from kafkasource.types import TopicPartition

FlowKey = tuple[str, str]  # the target's name, and the template of its topics' names
Positions = dict[FlowKey, Offsets]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class FlowRules:
    """The rules by which a flow chooses and names the records that it copies."""

    target: str
    topic: str  # the template of the topics' names there: `east.${topic}`
    topics: str  # a pattern
    unless_origin: str | None = None  # the option `unlessOrigin`
    offset_map: str | None = None  # the topic with the map at the target

    @property
    def key(self) -> FlowKey:
        return self.target, self.topic

    def takes(self, topic: str) -> bool:
        return compile_java(self.topics).search(topic) is not None

    def only(self, topics: Collection[str]) -> FlowRules:
        return replace(self, topics=f"^(?:{_names(topics)})$")

    def without(self, topics: Collection[str]) -> FlowRules:
        return replace(self, topics=f"(?!^(?:{_names(topics)})$)(?:{self.topics})") if topics else self


def _names(topics: Iterable[str]) -> str:
    return "|".join(sorted(topic.replace(".", r"\.") for topic in topics))


@dataclass(frozen=True, slots=True)
class SourceRules:
    """The part of a plan for one source on which positions depend. No secrets."""

    flows: tuple[FlowRules, ...]
    headers: Mapping[str, str] = field(default_factory=dict)  # that the source adds to each record
    exactly_once: bool = False


@dataclass(frozen=True, slots=True)
class MirrorReader:
    """One streaming query. Its name is the name of its folder: `7`, or `7-to-west` for a catch-up."""

    name: str
    flows: tuple[FlowRules, ...]
    start: PartitionOffsets | None  # of its first micro-batch; None: as `startingOffsets` says
    end: PartitionOffsets | None = None  # of a catch-up: the front when it was planned

    @property
    def catches_up(self) -> bool:
        return self.end is not None


@dataclass(frozen=True, slots=True)
class PositionRecord:
    """The contents of the file beside the checkpoints."""

    number: int  # each record has a higher one than the last
    source: str
    cluster_ids: Mapping[str, str | None]  # of the source and of all targets with positions; None: not known
    rules: SourceRules  # that the readers run under
    readers: tuple[MirrorReader, ...]
    parked: Positions
    topic_ids: Mapping[str, str]  # of topics in which there are positions, as far as brokers have them
    came_from: str | None = None  # the name that the source had before it was renamed

    @property
    def shared(self) -> MirrorReader:
        return self.readers[0]

    @property
    def catch_ups(self) -> tuple[MirrorReader, ...]:
        return self.readers[1:]


@dataclass(frozen=True, slots=True)
class Logs:
    """The source's logs, where a plan may start flows that have no position in them."""

    configured: PartitionOffsets  # as `startingOffsets` says; all partitions that exist
    earliest: PartitionOffsets
    from_latest: bool = False  # `startingOffsets` is latest


def reached(record: PositionRecord, done: Mapping[tuple[str, FlowKey], PartitionOffsets]) -> Positions:
    """The positions of all flows. `done`: by reader and flow the next offsets, where its checkpoint has any."""
    found = {key: dict(offsets) for key, offsets in record.parked.items()}
    for reader in record.readers:
        for flow in reader.flows:
            own = done.get((reader.name, flow.key), reader.start or {})
            places = found.setdefault(flow.key, {})
            places.update((tp, offset) for tp, offset in own.items() if flow.takes(tp.topic))
    return {key: places for key, places in found.items() if places}


def replan(
    number: int, rules: SourceRules, known: Mapping[FlowKey, PartitionOffsets], logs: Logs, ran: SourceRules | None
) -> tuple[tuple[MirrorReader, ...], Positions]:
    """The readers of a new record, the shared one first, and the positions that are parked.

    `known`: all positions. `ran`: the rules that held until now; None: there are no positions yet. A partition that
    came while a flow ran is read from its beginning, whatever `startingOffsets` says.
    """
    at = _places(rules, known, logs, ran)
    front = _front(at.values())
    behind = {key: {tp.topic for tp, offset in places.items() if offset < front[tp]} for key, places in at.items()}
    sharing = tuple(flow.without(behind[flow.key]) for flow in rules.flows)
    shared = {tp: front[tp] for flow in rules.flows for tp in at[flow.key] if tp.topic not in behind[flow.key]}
    readers = [MirrorReader(str(number), sharing, shared if ran is not None or any(known.values()) else None)]
    for flow in rules.flows:
        topics = behind[flow.key]
        start = {tp: offset for tp, offset in at[flow.key].items() if tp.topic in topics}
        if start:
            end = {tp: front[tp] for tp in start}
            readers.append(MirrorReader(f"{number}-to-{flow.target}", (flow.only(topics),), start, end))
    parked = {
        key: {tp: offset for tp, offset in places.items() if tp not in at.get(key, {})} for key, places in known.items()
    }
    return tuple(readers), {key: places for key, places in parked.items() if places}


def front_now(catch_up: MirrorReader, shared: PartitionOffsets) -> Offsets:
    """The ends up to which a catch-up may read: the shared reader's positions, in the topics that the catch-up
    carries."""
    return {tp: max(end, shared.get(tp, end)) for tp, end in (catch_up.end or {}).items()}


def capped(front: PartitionOffsets, done: PartitionOffsets, most: int) -> Offsets:
    """At most this many offsets of what lies between."""
    share = max(1, most // max(1, sum(1 for tp, end in front.items() if done.get(tp, 0) < end)))
    return {tp: min(end, max(done.get(tp, 0), done.get(tp, 0) + share)) for tp, end in front.items()}


def rest(front: PartitionOffsets, done: PartitionOffsets) -> int:
    """How many offsets lie between."""
    return sum(max(0, end - done.get(tp, 0)) for tp, end in front.items())


def _places(
    rules: SourceRules, known: Mapping[FlowKey, PartitionOffsets], logs: Logs, ran: SourceRules | None
) -> dict[FlowKey, Offsets]:
    """Find where each flow continues, in all partitions that it takes."""
    before = {flow.key: flow for flow in ran.flows} if ran is not None else {}
    new: dict[FlowKey, list[TopicPartition]] = {}
    found: dict[FlowKey, Offsets] = {}
    for flow in rules.flows:
        own, old = known.get(flow.key, {}), before.get(flow.key)
        topics = {tp.topic for tp in own}
        places = found.setdefault(flow.key, {})
        for tp in logs.configured:
            if not flow.takes(tp.topic):
                continue
            if tp in own:
                places[tp] = own[tp]
            elif tp.topic in topics or (old is not None and old.takes(tp.topic)):
                places[tp] = logs.earliest[tp]
            else:
                new.setdefault(flow.key, []).append(tp)
    front = _front(found.values())
    for key, partitions in new.items():
        for tp in partitions:
            configured = logs.configured[tp]
            found[key][tp] = front.get(tp, configured) if logs.from_latest else configured
    return found


def _front(several: Iterable[PartitionOffsets]) -> Offsets:
    front: Offsets = {}
    for places in several:
        for tp, offset in places.items():
            front[tp] = max(offset, front.get(tp, offset))
    return front


def carried_over(record: PositionRecord, ids: Mapping[str, str | None], used: Collection[str]) -> dict[str, str]:
    """Clusters that have another name in the file now, old name to new. `ids`: by name, of the file's clusters.

    Raises OptionError where a name that is `used` now means another cluster.
    """
    found: dict[str, str] = {}
    for name, old in record.cluster_ids.items():
        now = ids.get(name)
        if name in ids and (old is None or now is None or old == now):
            continue
        free = (other for other, its in ids.items() if old is not None and its == old)
        other = next((other for other in free if other not in record.cluster_ids and other not in found.values()), None)
        if other is not None:
            found[name] = other
        elif name in ids and name in used:
            raise OptionError(
                f"cluster {name!r} has the id {now} now, and had the id {old} when the mirror ran last with this "
                "checkpoint: it is another cluster, in which the mirror's positions mean nothing. Give the cluster "
                "another name in the file, or the mirror another checkpoint: it then gets a copy of everything"
            )
    return found


def renamed(positions: Mapping[FlowKey, PartitionOffsets], names: Mapping[str, str]) -> Positions:
    return {(names.get(target, target), topic): dict(places) for (target, topic), places in positions.items()}


def renamed_rules(rules: SourceRules, names: Mapping[str, str]) -> SourceRules:
    return replace(
        rules, flows=tuple(replace(flow, target=names.get(flow.target, flow.target)) for flow in rules.flows)
    )


# JSON.


def to_text(record: PositionRecord) -> str:
    document = {
        "version": _VERSION,
        "number": record.number,
        "source": record.source,
        "clusters": dict(record.cluster_ids),
        "came_from": record.came_from,
        "rules": {
            "flows": [_flow_json(flow) for flow in record.rules.flows],
            "headers": dict(record.rules.headers),
            "exactly_once": record.rules.exactly_once,
        },
        "readers": [
            {
                "name": reader.name,
                "flows": [_flow_json(flow) for flow in reader.flows],
                "start": None if reader.start is None else offsets_json(reader.start),
                "end": None if reader.end is None else offsets_json(reader.end),
            }
            for reader in record.readers
        ],
        "parked": [
            {"target": target, "topic": topic, "offsets": offsets_json(places)}
            for (target, topic), places in record.parked.items()
        ],
        "topic_ids": dict(record.topic_ids),
    }
    return json.dumps(document, indent=1) + "\n"


def from_text(text: str, where: str) -> PositionRecord:
    """Raises KafkaSourceError, which names `where`, for anything else: a position is never guessed at."""
    try:
        given = json.loads(text)
        if given["version"] != _VERSION:
            raise ValueError(f"version {given['version']}")
        return PositionRecord(
            int(given["number"]),
            str(given["source"]),
            dict(given["clusters"]),
            SourceRules(
                tuple(map(_flow, given["rules"]["flows"])),
                dict(given["rules"]["headers"]),
                bool(given["rules"]["exactly_once"]),
            ),
            tuple(
                MirrorReader(
                    each["name"], tuple(map(_flow, each["flows"])), _offsets(each["start"]), _offsets(each["end"])
                )
                for each in given["readers"]
            ),
            {(each["target"], each["topic"]): dict(_offsets(each["offsets"]) or {}) for each in given["parked"]},
            dict(given["topic_ids"]),
            given["came_from"],
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise KafkaSourceError(f"{where} is not a record of a mirror's positions: {error!r}") from None


def _flow_json(flow: FlowRules) -> dict[str, str | None]:
    return {
        "target": flow.target,
        "topic": flow.topic,
        "topics": flow.topics,
        "unless_origin": flow.unless_origin,
        "offset_map": flow.offset_map,
    }


def _flow(given: Mapping[str, Any]) -> FlowRules:
    return FlowRules(**given)


def offsets_json(offsets: PartitionOffsets) -> dict[str, dict[str, int]]:
    """Convert offsets to the form of the option `startingOffsets`."""
    found: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(offsets.items()):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return found


def _offsets(given: Mapping[str, Mapping[str, int]] | None) -> Offsets | None:
    return None if given is None else dict(_each(given))


def _each(given: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[TopicPartition, int]]:
    for topic, places in given.items():
        for partition, offset in places.items():
            yield TopicPartition(topic, int(partition)), int(offset)
