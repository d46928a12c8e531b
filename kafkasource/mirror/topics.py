"""Keeps the targets' topics like the source's: threads of the driver create them, add partitions and copy settings.

`steps` decides, `TopicKeeper` asks and carries out. It removes no topic and no partition, and a setting only if the
source dropped it while the mirror ran. Tasks that write to a missing topic wait for it (`kafka.max.block.ms`), so the
thread looks more often than that.

One thread looks at the source, and hands its findings to a thread for each target: a target that does not answer holds
up no other. A topic that a target refuses holds up no other topic there, and the mirror tries it again at each look.
The sink leaves its records out meanwhile (`refusedTopics`). It waits for a topic that cannot be made for another
reason.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from kafkasource.errors import (
    AuthorizationFailed,
    BootstrapFailed,
    BrokerError,
    DeadlineExceeded,
    InvalidTopic,
    KafkaSourceError,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    UnsupportedApiVersion,
    few,
)
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.topics import Setting, Topics
from kafkasource.kafka.config import ClientConfig
from kafkasource.mirror.carried_settings import CarriedSettings
from kafkasource.mirror.flow import Flow
from kafkasource.mirror.plan import Route, offset_map_topic
from kafkasource.mirror.refused_settings import WillingTopics

log = logging.getLogger("kafkasource.mirror")

# Settings of the offset map's topic. It is compacted, because only the newest record of a partition counts.
_MAP_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
}


@dataclass(frozen=True)
class Create:
    topic: str
    partitions: int
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Grow:
    topic: str
    partitions: int  # in all


@dataclass(frozen=True)
class Change:
    topic: str
    settings: Mapping[str, str | None]  # None: back to the brokers' default


_REFUSALS = (AuthorizationFailed, InvalidTopic, PolicyViolation)  # others may pass: a broker is down, for example

Step = Create | Grow | Change


@dataclass(frozen=True)
class Known:
    """Topics of a cluster: partitions, and the settings of the topic itself, of those that were asked for."""

    partitions: Mapping[str, int]
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def steps(
    flow: Flow,
    topics: Iterable[str],
    here: Known,
    there: Known,
    before: Known | None = None,
    been_in: Mapping[str, Mapping[str, Collection[str]]] | None = None,
) -> list[Step]:
    """Decide the steps that make the target's topics like the source's `topics`.

    `before`: the source at the last time. `been_in`: topics whose settings also come from the target to the source; by
    setting, the clusters that its value was in. A flow carries only changes of their settings, and never back.
    """
    seen = before.settings if before else {}
    found: list[Step] = []
    for topic in sorted(topics):
        name = flow.template.replace("${topic}", topic)
        wanted = carried(flow, here.settings.get(topic, {}))
        count = there.partitions.get(name)
        if count is None:
            if flow.create_topics:
                found.append(Create(name, here.partitions[topic], wanted if flow.sync_settings else {}))
            continue
        if flow.create_topics and count < here.partitions[topic]:
            found.append(Grow(name, here.partitions[topic]))
        has = there.settings.get(name)
        if flow.sync_settings and topic in here.settings and has is not None:  # None: it does not let us see them
            old = seen.get(topic, {})
            gone = carried(flow, old).keys() - wanted.keys()
            changes: dict[str, str | None] = {key: value for key, value in wanted.items() if has.get(key) != value}
            changes.update((key, None) for key in sorted(gone) if key in has)
            if been_in is not None and topic in been_in:
                came = been_in[topic]
                changes = {
                    key: value
                    for key, value in changes.items()
                    if old.get(key) != value and flow.target not in came.get(key, ())
                }
            if changes:
                found.append(Change(name, changes))
    return found


def carried(flow: Flow, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that the mirror copies to a target."""
    return {
        name: value
        for name, value in settings.items()
        if not any(re.fullmatch(pattern, name) for pattern in flow.exclude_settings)
    }


class _Kept:
    """One flow's topics at its target. For one thread at a time: the thread that looks, or the flow's own while it
    works."""

    def __init__(
        self,
        flow: Flow,
        target: Topics,
        comes_back: Callable[[str], bool] = lambda _: False,
        in_circles: CarriedSettings | None = None,
    ) -> None:
        self.flow = flow
        self.settings_due = float("-inf")
        self.before: Known | None = None  # the source's topics that the target had when this was last done
        self.work: Future[None] | None = None
        self._target = target
        self._comes_back = comes_back
        self._in_circles = in_circles or CarriedSettings()
        self._willing = WillingTopics(str(flow), flow.target, target)
        self.refused: set[str] = set()  # topics there that the target does not let us make
        self._said: dict[str, str] = {}  # topic -> the target's error, which the log has already
        self._unseen: set[str] = set()  # topics whose settings the target does not show, which the log has already

    def new(self, topics: Iterable[str]) -> set[str]:
        """The topics that the mirror has not created at the target yet."""
        return set(topics) - (self.before.partitions.keys() if self.before else set())

    def look_after(self, topics: list[str], here: Known, *, first: bool = False) -> None:
        """Raises KafkaSourceError if the target does not answer; the first time also if it refuses every topic. Its
        error about a single topic is only logged."""
        flow, target = self.flow, self._target
        found = target.list()
        if flow.offset_map and all(topic.name != offset_map_topic(flow.source) for topic in found):
            self._make_map()
        topics = self._with_settings(topics, here, {topic.name for topic in found})
        names = {self._name(topic) for topic in topics if topic in here.settings}
        partitions = {topic.name: len(topic.partitions) for topic in found}
        there = Known(partitions, self._settings_there(names & partitions.keys()))
        been_in = {
            topic: self._in_circles.been_in(flow.source, topic, here.settings[topic])
            for topic in topics
            if topic in here.settings and self._comes_back(topic)
        }
        failing = self._carry_out_all(steps(flow, topics, here, there, self.before, been_in), been_in)
        done = [topic for topic in topics if self._name(topic) not in failing]
        if first and failing and not done:
            raise next(iter(failing.values()))
        old = self.before.settings if self.before else {}
        kept = {topic: old[topic] for topic in topics if topic in old}
        new = {topic: here.settings[topic] for topic in done if topic in here.settings}
        self.before = Known({topic: here.partitions[topic] for topic in done}, {**kept, **new})

    def _settings_there(self, names: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Ask for the settings of these topics at the target. Settings that it does not show are missing; logged
        once."""
        try:
            found, refused = self._target.settings_or_refusals(sorted(names))
        except UnsupportedApiVersion:  # before 0.11
            return {}
        unseen = {name: error for name, error in refused.items() if isinstance(error, AuthorizationFailed)}
        if news := unseen.keys() - self._unseen:
            error = unseen[min(news)]
            log.warning("flow %s: the settings of %s are not kept up to date: %s", self.flow, few(sorted(news)), error)
        self._unseen = set(unseen)
        return _of_the_topic(found)

    def _with_settings(self, topics: list[str], here: Known, there: set[str]) -> list[str]:
        """Leave out topics that were deleted at the target since the last look, if their settings were not asked for.
        The next look takes them for new: it asks, and makes them again."""
        if self.before is None or not (self.flow.create_topics and self.flow.sync_settings):
            return topics
        made = self.before.partitions
        return [topic for topic in topics if topic not in made or topic in here.settings or self._name(topic) in there]

    def _carry_out_all(
        self, todo: Iterable[Step], been_in: Mapping[str, Mapping[str, frozenset[str]]]
    ) -> dict[str, KafkaSourceError]:
        """The topics that the target refuses, with its errors. Raises if two in a row get no answer."""
        failing: dict[str, KafkaSourceError] = {}
        refused = set()
        unanswered = False
        for step in todo:
            log.info("flow %s: %s", self.flow, step)
            if step.topic in been_in and not isinstance(step, Grow):  # at both ends the topic has one name
                flow = self.flow
                self._in_circles.put(flow.target, step.topic, step.settings, flow.source, been_in[step.topic])
            try:
                self._carry_out(step)
                unanswered = False
            except (BrokerError, DeadlineExceeded, UnsupportedApiVersion) as error:
                if unanswered and isinstance(error, DeadlineExceeded):
                    raise
                unanswered = isinstance(error, DeadlineExceeded)
                failing[step.topic] = error
                for_good = isinstance(step, Create) and isinstance(error, _REFUSALS)
                if for_good:
                    refused.add(step.topic)
                if self._said.get(step.topic) != str(error):
                    meanwhile = " Its records are left out until the target takes it." if for_good else ""
                    log.warning(
                        "flow %s: topic %s at %s: %s%s", self.flow, step.topic, self.flow.target, error, meanwhile
                    )
        self._said = {topic: str(error) for topic, error in failing.items()}
        self.refused = refused
        return failing

    def _name(self, topic: str) -> str:
        return self.flow.template.replace("${topic}", topic)

    def _carry_out(self, step: Step) -> None:
        if isinstance(step, Create):
            with suppress(TopicAlreadyExists):  # another client was first: the next look will see the topic
                self._willing.create(step.topic, step.partitions, self.flow.replication_factor, step.settings)
        elif isinstance(step, Grow):
            self._target.add_partitions({step.topic: step.partitions})
        else:
            self._willing.change(step.topic, step.settings)

    def _make_map(self) -> None:
        with suppress(TopicAlreadyExists):
            self._willing.create(offset_map_topic(self.flow.source), 1, self.flow.replication_factor, _MAP_SETTINGS)


class TopicKeeper:
    """Keeps the topics of one route. `start` does that once, then a thread does it again and again, until `close`."""

    def __init__(
        self,
        route: Route,
        clients: Mapping[str, ClientConfig],
        *,
        refresh_topics_s: float,
        refresh_settings_s: float,
        optional: Iterable[str] = (),
        in_circles: CarriedSettings | None = None,
        open_cluster: Callable[[ClientConfig], Cluster] = Cluster,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clients` by cluster. `optional`: targets without which the mirror works if it cannot reach them.
        `in_circles`: one for all routes of a mirror."""
        self._route = route
        self._clusters: dict[str, Cluster] = {name: open_cluster(config) for name, config in clients.items()}
        self._kept = [
            _Kept(flow, self._clusters[flow.target].topics, partial(route.comes_back, flow), in_circles)
            for flow in route.flows
        ]
        self._topics_s, self._settings_s = refresh_topics_s, refresh_settings_s
        self._optional = set(optional)
        self._clock = clock
        self._seen: set[str] = set()  # topics of the source
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._threads = ThreadPoolExecutor(len(self._kept), thread_name_prefix=f"{route.name}-topics-at")

    def start(self) -> None:
        """Blocks until the first time is done. Raises the errors of clusters that refuse."""
        self.look(first=True)
        self._thread = threading.Thread(target=self._run, name=f"{self._route.name}-topics", daemon=True)
        self._thread.start()

    def refused(self) -> dict[str, list[str]]:
        """The topics that each target refused at the last look, by target. Any thread."""
        return {kept.flow.target: sorted(kept.refused) for kept in self._kept}

    def close(self) -> None:
        self._end.set()
        for cluster in self._clusters.values():
            cluster.close()
        if self._thread is not None:
            self._thread.join()
        self._threads.shutdown()

    def _run(self) -> None:
        while not self._end.wait(self._topics_s):
            try:
                self.ask()
            except Exception as error:  # any error: the mirror goes on, and tries again
                if not self._end.is_set():
                    log.warning("%s: cannot create or update topics at the targets: %s", self._route.name, error)

    def look(self, *, first: bool = False) -> None:
        """Do everything once, at all targets. The first time it raises KafkaSourceError if it cannot look at a target,
        but does its work at the others all the same."""
        asked = self.ask(first)
        errors = [kept.work.exception() for kept in asked if kept.work is not None]
        for error in errors:
            if error is not None:
                raise error

    def ask(self, first: bool = False) -> list[_Kept]:
        """Look at the source, and begin the work at each target. Returns the targets where work has begun."""
        source = self._clusters[self._route.source].topics
        topics = [topic for topic in source.list() if not topic.internal]
        self._warn_of_missed({topic.name for topic in topics})
        idle = [kept for kept in self._kept if kept.work is None or kept.work.done()]
        taken = {kept: [each.name for each in topics if self._route.takes(kept.flow, each.name)] for kept in idle}
        due = {kept: self._clock() >= kept.settings_due for kept in idle}
        asked = {
            kept: set(names) if due[kept] else kept.new(names)
            for kept, names in taken.items()
            if kept.flow.sync_settings
        }
        settings, gone = _settings_here(source, set[str]().union(*asked.values()))
        partitions = {topic.name: len(topic.partitions) for topic in topics}
        for kept, listed in taken.items():
            names = [name for name in listed if name not in gone]
            copied = {name: settings[name] for name in asked.get(kept, ()) if name in settings}
            kept.work = self._threads.submit(self._work, kept, names, Known(partitions, copied), due[kept], first)
        return idle

    def _warn_of_missed(self, topics: set[str]) -> None:
        for topic in sorted(topics - self._seen):
            if missed := self._route.missed(topic):
                log.warning("%s: %s", self._route.name, missed)
        self._seen = topics

    def _work(self, kept: _Kept, topics: list[str], here: Known, settings: bool, first: bool) -> None:
        try:
            kept.look_after(topics, here, first=first)
            if settings:
                kept.settings_due = self._clock() + self._settings_s
        except Exception as error:
            away = isinstance(error, (BootstrapFailed, DeadlineExceeded))
            if first and not (away and kept.flow.target in self._optional):
                raise
            if not self._end.is_set():
                log.warning("flow %s: cannot create or update topics at the target: %s", kept.flow, error)


def _settings_here(source: Topics, names: Iterable[str]) -> tuple[Mapping[str, Mapping[str, str]], set[str]]:
    """The settings of these topics, and those that were deleted since they were listed."""
    try:
        found, refused = source.settings_or_refusals(sorted(names))
    except UnsupportedApiVersion:  # before 0.11: the mirror does not copy settings
        return {}, set()
    for error in refused.values():
        if not isinstance(error, UnknownTopicOrPartition):
            raise error
    return _of_the_topic(found), set(refused)


def _of_the_topic(found: Mapping[str, Iterable[Setting]]) -> Mapping[str, Mapping[str, str]]:
    """Keep the topic's own settings, without brokers' settings and defaults."""
    return {
        name: {each.name: each.value for each in settings if each.source == "topic" and each.value is not None}
        for name, settings in found.items()
    }
