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

A flow that stops records must not take them from any cluster. So `decide` also goes through the ways as they would be
without the stops for a direct flow. A record that does not get to the end of such a way by any other way is *lost*:

    at the target of the flow      the direct flow does not take it: the flow must not stop it
    at a cluster behind it         the target has the record under the name that the direct flow gave, and a flow on
                                   from there takes only the other name. Without the stop the target would get the
                                   record twice, so `decide` refuses the plan
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from kafkasource.errors import OptionError
from kafkasource.mirror.flow import INTERNAL_WITH_PREFIX
from kafkasource.mirror.names import ALL, UNDECIDED, Names, NotUnderstood, Part

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


_Arrived: TypeAlias = dict[str, list[_Way]]  # by cluster: the ways that end there


@dataclass
class _Found:
    """The result of a search through all ways."""

    error: str | None = None
    ways: int = 0
    passed: dict[str, set[str]] = field(default_factory=dict)  # by flow: the clusters where its records had been
    lost: dict[str, set[str]] = field(
        default_factory=dict
    )  # by flow: clusters that it stops although their records reach the target no other way
    arrived: dict[str, _Arrived] = field(default_factory=dict)  # by origin
    stopped: list[_Way] = field(default_factory=list)  # whose last flow stops them, for a direct flow


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
    back = {str(flow): {flow.target} if flow.source in graph.onward[flow.target] else set() for flow in flows}
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
    if found.error is None:
        search.look_behind(found, none_back, graph, at_most=_MOST_WAYS)
    if found.ways > _MOST_WAYS:
        raise OptionError(
            f"the flows give records more than {_MOST_WAYS} routes, too many to prove that no record runs in a circle, "
            "arrives twice or is lost: use fewer flows, or fewer topics in each flow"
        )
    if found.error is not None:
        raise OptionError(found.error)
    return stops


class _Graph:
    """Which clusters lead to which, and what topic names say about it."""

    def __init__(self, flows: Sequence[Flow], clusters: Sequence[str]) -> None:
        self.flows = {str(flow): flow for flow in flows}
        self._clusters = clusters
        self.onward = {cluster: self._from(cluster) for cluster in clusters}  # where flows lead to from there
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

    def passed(self) -> dict[str, set[str]]:
        """By flow, where its records may have been, whatever their names."""
        return {
            name: {cluster for cluster in self._clusters if flow.source in self.onward[cluster]}
            for name, flow in self.flows.items()
        }

    def stop(self, name: str, clusters: set[str]) -> Stop:
        source = self.flows[name].source
        on_the_way = [
            other
            for other, flow in self.flows.items()
            for cluster in clusters
            if flow.source == cluster or flow.source in self.onward[cluster]
            if flow.target == source or source in self.onward[flow.target]
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
        self._taken: dict[str, int] = {}  # by cluster: see `_ever_taken`

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
            arrived = found.arrived[origin] = {}
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
                if way.end not in {flow.source for flow in way.flows}:
                    found.stopped.append(way)
                    if self._lost(way, arrived.get(way.end, ())) is not None:
                        found.lost.setdefault(str(way.flows[-1]), set()).update(clusters)
        return found

    def look_behind(self, found: _Found, none_back: Mapping[str, Stop], graph: _Graph, *, at_most: int) -> None:
        """Follow each stopped way on, as if nothing had stopped it: does a cluster lose records?

        Called when no flow loses records at its own target. Sets `found.error`, and adds to `found.ways`. A way that
        goes on carries the same topics or fewer. So where a cluster has all topics of a way that it ever takes, it
        loses nothing further on, and the search ends early.
        """
        not_back = self._let_pass(none_back)
        # With a prefix these topics are internal: whoever does not take them behind it, does so on purpose.
        others = self._names.without(self._names.matching(f"^(?:{'|'.join(INTERNAL_WITH_PREFIX)})$")), ""
        for stopped in found.stopped:
            arrived = found.arrived[stopped.origin]
            first = self._on(_Way(stopped.origin, parts=frozenset({others})), stopped.flows[0])
            start = replace(stopped, parts=stopped.parts | {others})
            todo = [(start, self._without(first, graph.onward[start.end], arrived))]
            while todo and found.ways <= at_most:
                way, clusters = todo.pop()
                way = replace(way, parts=way.parts | self._not_like_others(way, arrived.get(way.end, ())))
                without = self._without(way, clusters & graph.onward[way.end] - way.clusters, arrived)
                for flow in self._by_source.get(way.end, ()) if without else ():
                    if flow.target not in way.clusters:
                        found.ways += 1
                        new = self._on(way, flow, not_back.get(str(flow)))
                        topic = self._lost(new, arrived.get(new.end, ()))
                        if topic is not None:
                            found.error = self._shown_loss(topic, way, new, stopped.flows[-1], arrived)
                            return
                        todo.append((new, without))

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

    def _without(self, way: _Way, clusters: Iterable[str], arrived: _Arrived) -> set[str]:
        """The clusters that may get records of the way, and do not have all of them by others."""
        found = set()
        for cluster in clusters:
            taken = set() if way.unclear else {(self._names.after(self._ever_taken(cluster), way.prefix), way.suffix)}
            if self._lost(replace(way, parts=way.parts | taken), arrived.get(cluster, ())) is not None:
                found.add(cluster)
        return found

    def _ever_taken(self, cluster: str) -> int:
        """The names that records have anywhere before they get to the cluster; maybe more names."""
        if cluster not in self._taken:
            flows = [flow for some in self._by_source.values() for flow in some]
            templates = [flow.template.partition(_TOPIC) for flow in flows]
            wanted = [self._wanted[str(flow)] for flow in flows if flow.target == cluster]
            if any(behind for _, _, behind in templates):
                self._taken[cluster] = ALL
            else:
                added = {before for before, _, _ in templates}
                sets = [ALL if one is None else self._names.after_some(one, added) for one in wanted]
                self._taken[cluster] = self._names.either(*sets)
        return self._taken[cluster]

    def _lost(self, way: _Way, others: Iterable[_Way]) -> str | None:
        """A topic of the way that none of the others has."""
        return self._names.example(way.parts, [other.parts for other in others if other.exact])

    def _not_like_others(self, way: _Way, arrived: Iterable[_Way]) -> set[Part]:
        """The topics whose names at the end of the way are not such as the ways that arrived there give to others.

        Where a flow takes `a.t` for t of a, the topic a.t of a (there a.a.t) is not missed.
        """
        return {
            (self._names.after(self._names.without(self._names.matching(pattern)), way.prefix), way.suffix)
            for other in arrived
            if not (way.prefix.startswith(other.prefix) and way.suffix.endswith(other.suffix))
            for pattern in (f"^{re.escape(other.prefix)}.*{re.escape(other.suffix)}$",)
        }

    def _shown_loss(self, topic: str, before: _Way, lost: _Way, stopping: Flow, arrived: _Arrived) -> str:
        """`lost` goes one flow further than `before`. All records of `before` got to its end by ways in `arrived`."""
        origin, here, last = lost.origin, before.end, lost.flows[-1]
        if topic == UNDECIDED:
            return (
                f"{lost.end} may miss records of {origin}: some come to {here} otherwise than by {before}, and {last} "
                "may not take the names that they have then. The expressions of these flows are too hard to tell: "
                "write them simpler, or leave out one of the flows"
            )
        this = {(self._names.matching(f"^{re.escape(topic)}$"), "")}
        other = next(one for one in arrived[here] if one.exact and self._names.example(one.parts | this) is not None)
        name, missed = other.prefix + topic + other.suffix, before.prefix + topic + before.suffix
        return (
            f"{lost.end} would get no record of topic {topic!r} of {origin}: {here} has them under the name {name!r} "
            f"(by {other}), so the mirror does not carry them there under the name {missed!r} too (by {before}), and "
            f"{last} does not take {name!r}. Let {last} take names like {name!r} too, or give the topics one name at "
            f"{here}; if {lost.end} is not to have them, exclude them from {stopping}{_doubt(lost, other)}"
        )


def _shown(topic: str | None) -> str:
    return "any name" if topic == UNDECIDED else repr(topic)


def _doubt(*ways: _Way) -> str:
    """What an error adds where it may be mistaken."""
    if all(way.exact for way in ways):
        return ""
    return ". (One of their expressions is too hard to tell what it takes: write it without back references or \\b)"
