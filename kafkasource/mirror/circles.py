"""Proves that no record of a mirror runs in a circle or arrives at a cluster twice, before anything runs. Pure.

A *way* is a chain of flows that a record may take from the cluster where it was produced. A way has a set of topics:
those topics of its origin that every flow of the way takes. Each flow sees a topic under the name that the flows
before it gave. So `names.Names` can say for every possible topic whether two ways carry the same record.

A flow *stops* (does not copy) the records that have been in certain clusters:

    in its target                  where the flow is part of a cycle: they would come back
    in a cluster with a flow of    where that flow takes all of these records to the target directly (A->C beside
    its own to the same target     A->B->C)

A flow recognizes these records by the topic's name where all flows of the way put their cluster's name before it
(`${source}.${topic}`), else by a header. Then `decide` goes through all ways. It refuses a plan in which two ways that
end in the same cluster may carry the same record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkasource.errors import OptionError
from kafkasource.mirror.names import UNDECIDED, Names, NotUnderstood, Part

if TYPE_CHECKING:
    from kafkasource.mirror.flow import Flow

_TOPIC, _SOURCE = "${topic}", "${source}"
_MOST_WAYS = 20_000  # the most ways that the search goes through; this many take seconds
_ENOUGH_WAYS = 2_000  # the most ways of the first search, which finds the clusters whose records pass a flow


@dataclass(frozen=True)
class Stop:
    """The records that a flow does not copy: those that have been in these clusters."""

    clusters: frozenset[str] = frozenset()
    by_name: str | None = None  # a pattern for the whole names of their topics; None: a header tells

    @property
    def by_header(self) -> bool:
        return bool(self.clusters) and self.by_name is None


@dataclass(frozen=True)
class _Way:
    """From `flows[0].source`. A topic `t` there is `prefix + t + suffix` where the way ends."""

    origin: str
    flows: tuple[Flow, ...] = ()
    parts: frozenset[Part] = frozenset()  # the topics of the origin that reach the end of the way
    prefix: str = ""
    suffix: str = ""
    exact: bool = True  # False: `parts` may have more topics than really reach the end
    unclear: bool = False  # a template has the topic twice, so the name at the end is unknown

    @property
    def end(self) -> str:
        return self.flows[-1].target if self.flows else self.origin

    @property
    def clusters(self) -> set[str]:
        return {self.origin, *(flow.target for flow in self.flows)}

    def __str__(self) -> str:
        return ", ".join(map(str, self.flows))


@dataclass
class _Found:
    """The result of a search through all ways."""

    error: str | None = None
    ways: int = 0
    passed: dict[str, set[str]] = field(default_factory=dict)  # by flow: the clusters where its records had been
    lost: dict[str, set[str]] = field(
        default_factory=dict
    )  # by flow: clusters that it stops although their records reach the target no other way


def _separator(flow: Flow) -> str | None:
    """The text between the source's name and the topic's, if the template begins with the source's name; else None."""
    if not flow.topic.startswith(_SOURCE) and not re.match(rf"{re.escape(flow.source)}[^a-zA-Z0-9]", flow.topic):
        return None
    separator, topic, behind = flow.template[len(flow.source) :].partition(_TOPIC)
    return separator if separator and topic and not behind else None


def decide(flows: Sequence[Flow], clusters: Iterable[str], patterns: Mapping[str, str]) -> dict[str, Stop]:
    """What each flow stops, by `str(flow)`. `patterns`: the topics that each flow takes. Raises OptionError."""
    graph = _Graph(flows, sorted(clusters))
    search = _Search(flows, patterns)
    back = {str(flow): {flow.target} if graph.leads(flow.target, flow.source) else set() for flow in flows}
    none_back = {name: graph.stop(name, stopped) for name, stopped in back.items()}
    found = search.run(none_back, at_most=_ENOUGH_WAYS)
    straight = {
        name: {cluster for cluster in passed if f"{cluster}->{graph.flows[name].target}" in graph.flows}
        - {graph.flows[name].source}
        for name, passed in (found.passed if found.ways <= _ENOUGH_WAYS else graph.passed()).items()
    }
    while True:
        stops = {name: graph.stop(name, back[name] | straight.get(name, set())) for name in graph.flows}
        found = search.run(stops, straight, none_back, at_most=_MOST_WAYS)
        if not found.lost:
            break
        for name, lost in found.lost.items():
            straight[name] -= lost
    if found.ways > _MOST_WAYS:
        raise OptionError(
            f"the flows give records more than {_MOST_WAYS} routes, too many to prove that no record runs in a circle "
            "or arrives twice: use fewer flows, or fewer topics in each flow"
        )
    if found.error is not None:
        raise OptionError(found.error)
    return stops


class _Graph:
    """Which clusters lead to which, and what topic names say about it."""

    def __init__(self, flows: Sequence[Flow], clusters: Sequence[str]) -> None:
        self.flows = {str(flow): flow for flow in flows}
        self._clusters = clusters
        self._onward = {cluster: self._from(cluster) for cluster in clusters}
        self._separators = {name: _separator(flow) for name, flow in self.flows.items()}
        self._separators |= dict.fromkeys(self._unclear())

    def _from(self, cluster: str) -> set[str]:
        found: set[str] = set()
        todo = [cluster]
        while todo:
            here = todo.pop()
            new = {flow.target for flow in self.flows.values() if flow.source == here} - found
            found |= new
            todo += new
        return found

    def _unclear(self) -> set[str]:
        """Flows whose names may be taken for those of another source: `a-b.t` may be from `a-b`, or from `a`."""
        separators = {text for text in self._separators.values() if text is not None}
        prefixes = [(cluster, cluster + text) for cluster in self._clusters for text in separators]
        if any(one != other and longer.startswith(text) for one, text in prefixes for other, longer in prefixes):
            return set(self.flows)
        return {
            str(either)
            for name, flow in self.flows.items()
            for other in self.flows.values()
            if self._separators[name] is not None and other.source != flow.source
            if other.template.startswith(flow.template.removesuffix(_TOPIC))
            for either in (flow, other)
        }

    def leads(self, one: str, to: str) -> bool:
        return to in self._onward[one]

    def passed(self) -> dict[str, set[str]]:
        """By flow, where its records may have been, whatever their names."""
        return {
            name: {cluster for cluster in self._clusters if self.leads(cluster, flow.source)}
            for name, flow in self.flows.items()
        }

    def stop(self, name: str, clusters: set[str]) -> Stop:
        source = self.flows[name].source
        on_the_way = [
            other
            for other, flow in self.flows.items()
            for cluster in clusters
            if flow.source == cluster or self.leads(cluster, flow.source)
            if flow.target == source or self.leads(flow.target, source)
        ]
        if not clusters or any(self._separators[other] is None for other in on_the_way):
            return Stop(frozenset(clusters))
        separators = _any(map(re.escape, sorted({text for text in self._separators.values() if text})))
        names, stopped = (_any(map(re.escape, sorted(some))) for some in (self._clusters, clusters))
        return Stop(frozenset(clusters), f"(?:{names}{separators})*{stopped}{separators}.*")


def _any(patterns: Iterable[str]) -> str:
    return "(?:" + "|".join(patterns) + ")"


class _Search:
    def __init__(self, flows: Sequence[Flow], patterns: Mapping[str, str]) -> None:
        self._by_source: dict[str, list[Flow]] = {}
        for flow in flows:
            self._by_source.setdefault(flow.source, []).append(flow)
        self._names = Names()
        self._wanted: dict[str, int | None] = {}  # by flow; None: not understood, so it may be any
        for name, pattern in patterns.items():
            try:
                self._wanted[name] = self._names.matching(pattern)
            except NotUnderstood:
                self._wanted[name] = None
        self._passing: dict[str, int] = {}  # names that a flow's stop lets pass

    def run(
        self,
        stops: Mapping[str, Stop],
        straight: Mapping[str, set[str]] = MappingProxyType({}),
        none_back: Mapping[str, Stop] = MappingProxyType({}),
        *,
        at_most: int,
    ) -> _Found:
        """Go through the ways, each until it comes to a cluster where it was.

        `straight`: by flow, the clusters that it stops because their records reach the target directly. `none_back`:
        the stops without these.
        """
        found = _Found()
        self._passing = self._let_pass(stops)
        not_back = self._let_pass(none_back)
        for origin in self._by_source:
            arrived: dict[str, list[_Way]] = {}
            stopped: list[tuple[_Way, set[str]]] = []
            todo = [_Way(origin)]
            while todo and found.ways <= at_most:
                way = todo.pop()
                for flow in self._by_source.get(way.end, ()):
                    kept = straight.get(str(flow), set()) & way.clusters
                    if kept:
                        stopped.append((self._on(way, flow, not_back.get(str(flow))), kept))
                    for new in self._carried(way, flow, stops[str(flow)]):
                        found.ways += 1
                        found.passed.setdefault(str(flow), set()).update(way.clusters)
                        self._compare(new, way, arrived.setdefault(new.end, []), found)
                        if new.end not in way.clusters:
                            todo.append(new)
            for way, clusters in stopped:
                if way.end not in {flow.source for flow in way.flows} and self._is_lost(way, arrived):
                    found.lost.setdefault(str(way.flows[-1]), set()).update(clusters)
        return found

    def _let_pass(self, stops: Mapping[str, Stop]) -> dict[str, int]:
        return {name: self._names.matching(f"^(?!(?:{one.by_name})$)") for name, one in stops.items() if one.by_name}

    def _on(self, way: _Way, flow: Flow, passing: int | None = None) -> _Way:
        """One flow further; `passing`: the names, at its source, that its stop lets pass."""
        sets = [one for one in (self._wanted[str(flow)], passing) if one is not None]
        parts = way.parts
        if not way.unclear:
            parts |= {(self._names.after(one, way.prefix), way.suffix) for one in sets}
        before, _, behind = flow.template.partition(_TOPIC)
        return replace(
            way,
            flows=(*way.flows, flow),
            parts=parts,
            exact=way.exact and not way.unclear and self._wanted[str(flow)] is not None,
            prefix=before + way.prefix,
            suffix=way.suffix + behind,
            unclear=way.unclear or _TOPIC in behind,
        )

    def _carried(self, way: _Way, flow: Flow, stop: Stop) -> Iterator[_Way]:
        """The way one flow further, unless nothing gets there."""
        if stop.by_header and stop.clusters & way.clusters:
            return
        new = self._on(way, flow, self._passing.get(str(flow)))
        if self._names.example(new.parts) is not None:
            yield new

    def _compare(self, new: _Way, before: _Way, arrived: list[_Way], found: _Found) -> None:
        """With the ways that came to the same cluster already."""
        if found.error is None and new.end in before.clusters:
            topic = self._names.example(new.parts)
            found.error = (
                f"the flows {new} carry records round: one of topic {_shown(topic)} of {new.origin} would come to "
                f'{new.end} again. Give each of these flows topic = "${{source}}.${{topic}}", or topics or exclude '
                f"so that none comes back{_doubt(new)}"
            )
        for other in arrived if found.error is None else ():
            topic = self._names.example(new.parts | other.parts)
            if topic is not None:
                found.error = (
                    f"a record of topic {_shown(topic)} of {new.origin} would come to {new.end} twice: by {other} and "
                    f"by {new}. Leave out one of these flows, or give them topics or exclude that do not overlap"
                    f"{_doubt(new, other)}"
                )
        arrived.append(new)

    def _is_lost(self, way: _Way, arrived: Mapping[str, list[_Way]]) -> bool:
        others = [other.parts for other in arrived.get(way.end, ()) if other.exact]
        return self._names.example(way.parts, others) is not None


def _shown(topic: str | None) -> str:
    return "any name" if topic == UNDECIDED else repr(topic)


def _doubt(*ways: _Way) -> str:
    """What an error adds where it may be mistaken."""
    if all(way.exact for way in ways):
        return ""
    return ". (One of their expressions is too hard to tell what it takes: write it without back references or \\b)"
