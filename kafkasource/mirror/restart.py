"""From the record of a source to the readers that run next: how a changed plan takes effect.

    1. settle    each reader that has an open micro-batch does it again, under the plan that it was begun with. Flows
                 that are to take no part are taken out of the record before
    2. positions the next offsets of all flows, from the readers' checkpoints
    3. record    is written: new readers that start at these positions. From here on the new plan holds
    4. tidy      folders of readers that the record does not name are deleted

A kill at any point leaves the old record or the new one, and the next start goes on from there. The same steps let a
flow that has caught up join the shared reader: its plan is new in that only one reader is left.

Decides only: a `World` reads and writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.kafka.fetch import loss
from kafkasource.kafka.fetch.loss import Loss
from kafkasource.mirror.positions import (
    FlowKey,
    FlowRules,
    Logs,
    MirrorReader,
    PositionRecord,
    Positions,
    SourceRules,
    carried_over,
    reached,
    renamed,
    renamed_rules,
    replan,
)
from kafkasource.source.plan.offsets import PartitionOffsets

log = logging.getLogger("kafkasource.mirror")


@dataclass(frozen=True, slots=True)
class Progress:
    """A reader's progress, from its checkpoint."""

    done: PartitionOffsets | None  # next offsets after its last finished micro-batch; None: it never planned one
    open: bool = False  # a micro-batch was planned, and is not known to be finished
    topic_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceTopics:
    """The source's topics now."""

    logs: Logs
    topic_ids: Mapping[str, str]
    deleted: Collection[str] = ()  # of the topics asked for, those that certainly do not exist any more


class World(Protocol):
    """The files that a restart reads and writes. Each method may raise KafkaSourceError, and block."""

    def progress(self, reader: MirrorReader) -> Progress: ...

    def repeat(self, rules: SourceRules, reader: MirrorReader, flows: tuple[FlowRules, ...]) -> None:
        """Finish the open micro-batch of a reader, for these of its flows, and begin no other one."""

    def source(self, rules: SourceRules, known: Collection[str], first: bool) -> SourceTopics:
        """The topics of these rules. `known`: topics in which there are positions. `first`: nothing has a position."""

    def save(self, record: PositionRecord) -> None:
        """Durable when it returns, and then the newest record."""

    def tidy(self, record: PositionRecord) -> None:
        """Delete older records, and the folders of readers that this record does not name."""


def next_record(
    world: World,
    record: PositionRecord | None,
    source: str,
    rules: SourceRules,
    ids: Mapping[str, str | None],
    *,
    again: bool = False,
    fail_on_data_loss: bool = True,
    warn: Callable[[str], None] = log.warning,
) -> PositionRecord:
    """The record whose readers run next. It is written, if it is new.

    `ids`: of all clusters in the file, by name. `again`: plan new readers though the rules are the same: catch-ups
    have ended. Raises OptionError where a name means another cluster now, or where a target is missing that an open
    micro-batch needs.
    """
    if record is None:
        return _write(
            world, PositionRecord(0, source, {}, rules, (), {}, {}), source, rules, ids, {}, None, {}, warn, True
        )
    used = {source, *(flow.target for flow in rules.flows)}
    names = carried_over(record, ids, used)
    for old, new in names.items():
        warn(f"cluster {old} is called {new} now: the mirror continues there from its last position")
    progress = {reader.name: world.progress(reader) for reader in record.readers}
    begun = all(each.done is not None for each in progress.values())
    if not again and begun and not names and record.rules == rules and record.source == source:
        known_ids = {name: ids.get(name) or its for name, its in record.cluster_ids.items()}
        if known_ids != record.cluster_ids:
            record = replace(record, number=record.number + 1, cluster_ids=known_ids)
            world.save(record)
        world.tidy(record)
        return record
    record = _without_removed(world, record, progress, rules, names, ids, warn)
    done, topic_ids = _settled(world, record, progress)
    known = renamed(reached(record, done), names)
    ran = renamed_rules(record.rules, names) if known else None
    topic_ids = {**record.topic_ids, **topic_ids}
    return _write(world, record, source, rules, ids, known, ran, topic_ids, warn, fail_on_data_loss)


def _without_removed(
    world: World,
    record: PositionRecord,
    progress: Mapping[str, Progress],
    rules: SourceRules,
    names: Mapping[str, str],
    clusters: Collection[str],
    warn: Callable[[str], None],
) -> PositionRecord:
    """The record without the flows that take no part when open micro-batches are finished.

    It is written first: once such a batch is finished, nothing else shows that it is not at those targets.
    """
    parked = {key: dict(places) for key, places in record.parked.items()}
    removed: set[FlowKey] = set()
    for reader in record.readers:
        if not progress[reader.name].open:
            continue
        for flow in reader.flows:
            if not _takes_part(record, flow, rules, names, clusters):
                warn(
                    f"the flow {record.source}->{flow.target} was removed while a micro-batch was under way: if it is "
                    f"wanted again later, that micro-batch may arrive at {flow.target} twice"
                )
                removed.add(flow.key)
    if not removed:
        return record
    for reader in record.readers:
        own = progress[reader.name].done
        for flow in reader.flows:
            if flow.key in removed:
                places = (reader.start or {}) if own is None else own
                parked.setdefault(flow.key, {}).update((tp, at) for tp, at in places.items() if flow.takes(tp.topic))
    shared, *catch_ups = (
        replace(reader, flows=tuple(flow for flow in reader.flows if flow.key not in removed))
        for reader in record.readers
    )
    left = tuple(flow for flow in record.rules.flows if flow.key not in removed)
    found = replace(
        record,
        number=record.number + 1,
        rules=replace(record.rules, flows=left),
        readers=(shared, *(reader for reader in catch_ups if reader.flows)),
        parked=parked,
    )
    world.save(found)
    return found


def _takes_part(
    record: PositionRecord, flow: FlowRules, rules: SourceRules, names: Mapping[str, str], clusters: Collection[str]
) -> bool:
    """Does the flow take part when its open micro-batch is finished? Under exactly once it has to."""
    target = names.get(flow.target, flow.target)
    if target in {each.target for each in rules.flows}:
        return True
    if not (record.rules.exactly_once and rules.exactly_once):
        return False
    if target not in clusters:
        raise OptionError(
            f"the flow {record.source}->{flow.target} was removed while a micro-batch was under way, which may be in "
            f"{flow.target} in part or whole, and the file does not say how to reach {flow.target} to find out. Start "
            "the mirror once with the old file, or once with exactly_once = false: if the flow is wanted again later, "
            "that micro-batch may arrive twice there"
        )
    return True


def _settled(
    world: World, record: PositionRecord, progress: Mapping[str, Progress]
) -> tuple[dict[tuple[str, FlowKey], PartitionOffsets], dict[str, str]]:
    """The next offsets of each reader's flows, and the ids of their topics, when no micro-batch is open any more."""
    done: dict[tuple[str, FlowKey], PartitionOffsets] = {}
    topic_ids: dict[str, str] = {}
    for reader in record.readers:
        now = progress[reader.name]
        if now.open and reader.flows:
            world.repeat(record.rules, reader, reader.flows)
            now = world.progress(reader)
            if now.open:
                raise KafkaSourceError(f"the micro-batch that was open in {reader.name} is not finished: start again")
        topic_ids.update(now.topic_ids)
        if now.done is not None:
            done.update(((reader.name, flow.key), now.done) for flow in reader.flows)
    return done, topic_ids


def _write(
    world: World,
    record: PositionRecord,
    source: str,
    rules: SourceRules,
    ids: Mapping[str, str | None],
    known: Positions,
    ran: SourceRules | None,
    topic_ids: Mapping[str, str],
    warn: Callable[[str], None],
    fail_on_data_loss: bool,
) -> PositionRecord:
    now = world.source(rules, {tp.topic for places in known.values() for tp in places}, ran is None)
    running = {flow.key: flow for flow in (ran.flows if ran is not None else ())}
    made_again = {topic for topic, its in topic_ids.items() if now.topic_ids.get(topic, its) != its}
    missed = {
        topic
        for topic in made_again
        if any(key in running and running[key].takes(topic) and _has(places, topic) for key, places in known.items())
        and not _parked(record, topic)
    }
    loss.report([_made_again(topic) for topic in sorted(missed)], fail_on_data_loss=fail_on_data_loss)
    for topic in sorted(now.deleted):
        warn(f"topic {topic} of {source} was deleted: its copies stay, and the mirror forgets how far it had read it")
    gone = made_again | set(now.deleted)
    known = {key: {tp: at for tp, at in places.items() if tp.topic not in gone} for key, places in known.items()}
    known = {key: places for key, places in known.items() if places}
    number = record.number + 1
    readers, parked = replan(number, rules, known, now.logs, ran)
    kept = {**{topic: its for topic, its in topic_ids.items() if topic not in gone}, **now.topic_ids}
    used = dict.fromkeys((source, *(flow.target for flow in rules.flows), *(target for target, _ in parked)))
    found = PositionRecord(
        number,
        source,
        {name: ids.get(name) or record.cluster_ids.get(name) for name in used},
        rules,
        readers,
        parked,
        {topic: kept[topic] for topic in sorted(kept) if any(_has(places, topic) for places in known.values())},
        record.source if record.source != source else record.came_from,
    )
    world.save(found)
    world.tidy(found)
    return found


def _has(places: PartitionOffsets, topic: str) -> bool:
    return any(tp.topic == topic for tp in places)


def _parked(record: PositionRecord, topic: str) -> bool:
    """Whether only parked positions are in this topic: nothing carried it, so nobody missed a record of it."""
    return not any(flow.takes(topic) for reader in record.readers for flow in reader.flows)


def _made_again(topic: str) -> Loss:
    return Loss(
        loss.TOPIC_RECREATED,
        f"Topic {topic} has been deleted and created again since the mirror ran last. What had not been copied of the"
        " old one is gone.",
        "The new one is copied from its earliest offsets.",
    )
