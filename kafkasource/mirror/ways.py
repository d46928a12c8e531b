"""Decides which records each flow of a mirror leaves out, so that a record comes to every cluster once. Pure.

The rule is that of `sink/clusters/origin.py`: a record takes the shortest way. Where every flow names its topics
`${source}.${topic}`, a topic's name says where its records have been, and a flow leaves out topics by their names.
Otherwise records carry a header for each cluster where they were read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from kafkasource.mirror.flow import EVERY_TOPIC, Flow
from kafkasource.sink.clusters.origin import PlannedFlow, shortest_ways

_MOST_WAYS = 10_000  # the search for a missed cluster ends after this many flows
_ANY_TOPIC = "a-topic"  # for `_whole`, whose flows take every topic


class Ways:
    """The ways that records take through the flows of a plan."""

    def __init__(self, flows: Sequence[Flow], clusters: Iterable[str]) -> None:
        self._steps = tuple(PlannedFlow(flow.source, flow.target, flow.template, flow.pattern) for flow in flows)
        self._whole = tuple(step._replace(pattern="") for step in self._steps)  # as if each took every topic
        self._clusters = sorted(clusters)
        self._by_other_ways = {
            (step.source, step.target): self._other_origins(step.source, step.target) for step in self._steps
        }
        several = any(origins - {target} for (_, target), origins in self._by_other_ways.items())
        names_tell = all(flow.names_source for flow in flows) and not (
            several and any((flow.topics, flow.exclude) != (EVERY_TOPIC, ()) for flow in flows)
        )
        self.need_headers = any(self._by_other_ways.values()) and not names_tell

    def steps(self, ids: Mapping[str, str]) -> tuple[PlannedFlow, ...]:
        """The flows, with the ids of the clusters in place of their names."""
        return tuple(step._replace(source=ids[step.source], target=ids[step.target]) for step in self._steps)

    def left_out_by_name(self, flow: Flow) -> str | None:
        """A pattern for the topics that the flow does not take, because their names say that their records have been at
        its target or come there by another way. None: names do not tell."""
        if self.need_headers or not flow.names_source:
            return None
        stopped = sorted({flow.target, *self._by_other_ways[flow.source, flow.target]})
        return rf"(?:{_any(self._clusters)}\.)*{_any(stopped)}\..*"

    def missed(self, origin: str, topic: str) -> str | None:
        """Say which cluster gets no record of this topic of `origin`, though a longer way leads there: the shortest
        way gives the topic another name, which the flows behind it do not take. None: each gets the records."""
        arrivals = shortest_ways(self._steps, origin, topic)
        unreached = shortest_ways(self._whole, origin, topic).keys() - arrivals.keys()
        waiting = [(origin, topic, frozenset({origin}))] if unreached else []
        for _ in range(_MOST_WAYS):
            if not waiting:
                break
            here, name, been = waiting.pop()
            for step in self._steps:
                copy = step.copy_of(name) if step.source == here and step.target not in been else None
                if copy is None:
                    continue
                if step.target in unreached:
                    has = arrivals[here].topic
                    flow = f"{here}->{step.target}"
                    return (
                        f"{step.target} gets no record of topic {topic!r} of {origin}: {here} has them under the name "
                        f"{has!r}, which {flow} does not take, and so not under the name {name!r}. Let {flow} take "
                        f"{has!r} too, or give the topic one name at {here}"
                    )
                waiting.append((step.target, copy, been | {step.target}))
        return None

    def _other_origins(self, source: str, target: str) -> set[str]:
        """The clusters whose records come to the source, and to the target by another way than by a flow from there."""
        ways = {origin: shortest_ways(self._whole, origin, _ANY_TOPIC) for origin in self._clusters}
        return {origin for origin, arrivals in ways.items() if source in arrivals and arrivals[target].source != source}


def _any(names: Sequence[str]) -> str:
    return "(?:" + "|".join(map(re.escape, names)) + ")"
