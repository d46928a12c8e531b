"""Topics at the targets as the source has them: made, grown, and set alike, by a thread of the driver.

`steps` decides, `TopicKeeper` asks and carries out. Nothing is ever taken away: no topic is deleted, no partition, and
a setting only where the source had it while the mirror ran and now has it no more. Who writes to a topic that is not
there yet waits (`kafka.max.block.ms`), so the thread looks more often than that.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafkasource.client.admin import Admin, Setting
from kafkasource.client.config import ClientConfig
from kafkasource.client.metadata import TopicMetadata
from kafkasource.errors import (
    BootstrapFailed,
    DeadlineExceeded,
    KafkaSourceError,
    TopicAlreadyExists,
    UnsupportedApiVersion,
)
from kafkasource.mirror.plan import Flow, Route, offset_map_topic

log = logging.getLogger("kafkasource.mirror")

# Of the offset map: only the newest record of a partition counts.
_MAP_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
}


class Cluster(Protocol):
    """What is asked of `client.admin.Admin`."""

    def all_topics(self) -> list[TopicMetadata]: ...
    def topic_settings(self, topics: Iterable[str]) -> dict[str, list[Setting]]: ...
    def create_topics(
        self,
        names: Iterable[str],
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> None: ...
    def create_partitions(self, totals: Mapping[str, int]) -> None: ...
    def alter_topic_settings(self, topic: str, changes: Mapping[str, str | None]) -> None: ...
    def close(self) -> None: ...


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


Step = Create | Grow | Change


@dataclass(frozen=True)
class Known:
    """Topics of a cluster: partitions, and what was set for the topic itself (empty where nobody asked)."""

    partitions: Mapping[str, int]
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def steps(flow: Flow, topics: Iterable[str], here: Known, there: Known, before: Known | None = None) -> list[Step]:
    """What makes the target's topics like the source's `topics`. `before`: the source when this was last done."""
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
        if flow.sync_settings and topic in here.settings:
            has = there.settings.get(name, {})
            gone = carried(flow, (before.settings if before else {}).get(topic, {})).keys() - wanted.keys()
            changes: dict[str, str | None] = {key: value for key, value in wanted.items() if has.get(key) != value}
            changes.update((key, None) for key in sorted(gone) if key in has)
            if changes:
                found.append(Change(name, changes))
    return found


def carried(flow: Flow, settings: Mapping[str, str]) -> dict[str, str]:
    """Those settings that a target is to have too."""
    return {
        name: value
        for name, value in settings.items()
        if not any(re.fullmatch(pattern, name) for pattern in flow.exclude_settings)
    }


class TopicKeeper:
    """For one route. `start` does it once, then again and again on a thread, until `close`."""

    def __init__(
        self,
        route: Route,
        clients: Mapping[str, ClientConfig],
        *,
        refresh_topics_s: float,
        refresh_settings_s: float,
        optional: Iterable[str] = (),
        open_cluster: Callable[[ClientConfig], Any] = Admin,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clients` by cluster; `optional`: targets that are done without where they cannot be reached."""
        self._route = route
        self._clusters: dict[str, Cluster] = {name: open_cluster(config) for name, config in clients.items()}
        self._topics_s, self._settings_s = refresh_topics_s, refresh_settings_s
        self._optional = set(optional)
        self._clock = clock
        self._before: Known | None = None
        self._settings_due = float("-inf")
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Blocks for the first time. Raises what the clusters refuse."""
        self.look(first=True)
        self._thread = threading.Thread(target=self._run, name=f"{self._route.name}-topics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        for cluster in self._clusters.values():
            cluster.close()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._topics_s):
            try:
                self.look()
            except Exception as error:  # whatever it is: the mirror goes on, and it is tried again
                if not self._end.is_set():
                    log.warning("%s: topics are not looked after: %s", self._route.name, error)

    def look(self, *, first: bool = False) -> list[Step]:
        """Once; what was done, at all targets. Raises KafkaSourceError on the first time, later it warns."""
        settings = self._clock() >= self._settings_due
        source = self._clusters[self._route.source]
        topics = [topic for topic in source.all_topics() if not topic.internal]
        taken = {
            flow.target: [topic.name for topic in topics if self._route.takes(flow, topic.name)]
            for flow in self._route.flows
        }
        wanted = {name for names in taken.values() for name in names}
        new = wanted - (self._before.partitions.keys() if self._before else set())
        here = _known(source, topics, wanted if settings else new)
        done: list[Step] = []
        complete = True
        for flow in self._route.flows:
            try:
                done += self._make(flow, taken[flow.target], here)
            except KafkaSourceError as error:
                if first and not (
                    flow.target in self._optional and isinstance(error, (BootstrapFailed, DeadlineExceeded))
                ):
                    raise
                complete = False
                log.warning("flow %s: topics are not looked after: %s", flow, error)
        if complete:
            old = self._before.settings if self._before else {}
            kept = {name: value for name, value in old.items() if name in wanted}
            self._before = Known({name: here.partitions[name] for name in wanted}, {**kept, **here.settings})
            if settings:
                self._settings_due = self._clock() + self._settings_s
        return done

    def _make(self, flow: Flow, topics: list[str], here: Known) -> list[Step]:
        target = self._clusters[flow.target]
        found = target.all_topics()
        if flow.offset_map and all(topic.name != offset_map_topic(flow.source) for topic in found):
            self._make_map(flow, target)
        names = {flow.template.replace("${topic}", topic) for topic in topics if topic in here.settings}
        todo = steps(flow, topics, here, _known(target, found, names), self._before)
        for step in todo:
            self._carry_out(flow, target, step)
        return todo

    @staticmethod
    def _carry_out(flow: Flow, target: Cluster, step: Step) -> None:
        log.info("flow %s: %s", flow, step)
        if isinstance(step, Create):
            with suppress(TopicAlreadyExists):  # somebody else was quicker: looked at again the next time
                target.create_topics(
                    [step.topic],
                    partitions=step.partitions,
                    replication_factor=flow.replication_factor,
                    configs=step.settings,
                )
        elif isinstance(step, Grow):
            target.create_partitions({step.topic: step.partitions})
        else:
            try:
                target.alter_topic_settings(step.topic, step.settings)
            except UnsupportedApiVersion:
                log.warning(
                    "flow %s: brokers before Kafka 2.3 change no single settings: %s stays as it is", flow, step
                )

    @staticmethod
    def _make_map(flow: Flow, target: Cluster) -> None:
        with suppress(TopicAlreadyExists):
            target.create_topics(
                [offset_map_topic(flow.source)],
                partitions=1,
                replication_factor=flow.replication_factor,
                configs=_MAP_SETTINGS,
            )


def _known(cluster: Cluster, topics: Iterable[TopicMetadata], settings_of: Iterable[str]) -> Known:
    partitions = {topic.name: len(topic.partitions) for topic in topics}
    asked = sorted(set(settings_of) & partitions.keys())
    try:
        told = cluster.topic_settings(asked) if asked else {}
    except UnsupportedApiVersion:  # before 0.11: they are not carried along
        told = {}
    settings = {
        name: {each.name: each.value for each in found if each.source == "topic" and each.value is not None}
        for name, found in told.items()
    }
    return Known(partitions, settings)
