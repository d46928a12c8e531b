"""Origin headers: where a record has been, so that a mirror brings it to each cluster once. Pure.

Each time a mirror reads a record, it appends a header with the cluster and the topic of this read:

    mirror.origin = <cluster id>/<topic>        the name in the mirror's file where a cluster has no id (before 0.10.1)

The rule: a record takes the shortest way to each cluster, the fewest flows. Of two that are equally short, it takes the
way whose last flow stands first in the file. A flow leaves out a record that has been at its target, or that comes
there by another way (`shortest_ways`).

Applications forward the headers of their input: Kafka Streams does so by default. So a header counts only while the
names fit. `UnlessFrom._been_in` goes back from the topic that is read now, from the last header to the first, and stops
at the first header whose topic does not have the next one as its copy. Headers before it belong to another record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kafkasource.options.java_regex import compile_java

if TYPE_CHECKING:
    from kafkasource.kafka.producer.rows import Column

ORIGIN_HEADER = "mirror.origin"
_BETWEEN = b"\0"  # in no topic's name and in no cluster's id
_TOPIC = "${topic}"


class PlannedFlow(NamedTuple):
    """A flow of the plan, as the rule sees it. The clusters are ids in the sink, names in the plan."""

    source: str
    target: str
    template: str  # the topic's name at the target; `${topic}` stands for the name at the source
    pattern: str  # a Java regular expression: the topics that the flow takes

    def copy_of(self, topic: str) -> str | None:
        """The name of the topic's copy at the target; None: the flow does not take the topic."""
        return self.template.replace(_TOPIC, topic) if compile_java(self.pattern).search(topic) else None


class Arrival(NamedTuple):
    """How a record comes to a cluster."""

    source: str | None  # the cluster before it; None: the record was produced here
    topic: str  # its name here


@lru_cache(maxsize=4096)
def shortest_ways(steps: tuple[PlannedFlow, ...], origin: str, topic: str) -> dict[str, Arrival]:
    """Find how a record of this topic, produced at `origin`, comes to each cluster that it reaches."""
    arrivals = {origin: Arrival(None, topic)}
    latest = set(arrivals)
    while latest:
        new: dict[str, Arrival] = {}
        for step in steps:
            if step.source in latest and step.target not in arrivals and step.target not in new:
                name = step.copy_of(arrivals[step.source].topic)
                if name is not None:
                    new[step.target] = Arrival(step.source, name)
        arrivals.update(new)
        latest = set(new)
    return arrivals


@dataclass(frozen=True)
class UnlessFrom:
    """The records of a flow that its target does not get. Hashable plain values; clusters are ids."""

    here: str  # the cluster that the records are read from
    target: str
    steps: tuple[PlannedFlow, ...] = ()  # all flows of the plan, in their order in the file

    @classmethod
    def from_json(cls, text: str) -> UnlessFrom:
        """Raises ValueError, also for KeyError and TypeError of a wrong form."""
        try:
            values = json.loads(text)
            steps = tuple(PlannedFlow(*map(str, step)) for step in values.get("flows", ()))
            for step in steps:
                compile_java(step.pattern)
            return cls(str(values["here"]), str(values["target"]), steps)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{error!r}") from None

    def to_json(self) -> str:
        return json.dumps({"here": self.here, "target": self.target, "flows": self.steps})

    def numbers(self, topic: str, headers: Column) -> Column | None:
        """The numbers of the rows, all of this topic, that are left out: int64, ascending. None: none of them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        entries = headers.flatten()
        ours = pc.equal(entries.field("key"), pa.scalar(ORIGIN_HEADER)).fill_null(False)
        if not pc.any(ours).as_py():
            return None
        values = entries.field("value").filter(ours).fill_null(b"")
        rows = pc.run_end_encode(pc.list_parent_indices(headers).cast(pa.int64()).filter(ours), run_end_type=pa.int32())
        ends = pa.concat_arrays([pa.array([0], pa.int32()), rows.run_ends])
        chains = pc.binary_join(pa.ListArray.from_arrays(ends, values), _BETWEEN).dictionary_encode()
        left_out = [
            number
            for number, chain in enumerate(chains.dictionary.to_pylist())
            if self.leaves_out(topic, chain.split(_BETWEEN))
        ]
        if not left_out:
            return None
        return rows.values.filter(pc.is_in(chains.indices, value_set=pa.array(left_out, chains.indices.type)))

    def leaves_out(self, topic: str, values: Sequence[bytes]) -> bool:
        """Is a record of this topic left out? `values`: of its headers `mirror.origin`, in their order."""
        origin, name, by_our_flows = self.here, topic, True
        for cluster, its_name, ours in self._been_in(topic, values):
            if cluster == self.target:
                return True
            by_our_flows = by_our_flows and ours
            if by_our_flows:  # for this plan, what another mirror brought was produced where it brought it
                origin, name = cluster, its_name
        arrival = shortest_ways(self.steps, origin, name).get(self.target)
        return arrival is not None and arrival.source != self.here

    def _been_in(self, topic: str, values: Sequence[bytes]) -> Iterator[tuple[str, str, bool]]:
        """Yield the clusters before this one, from the last to the first: each with the topic's name there, and whether
        a flow of the plan leads from there to the next."""
        here = self.here
        for value in reversed(values):
            cluster, slash, name = value.decode(errors="replace").partition("/")
            if cluster == here == self.here and name == topic:
                continue  # the last header is of this read
            ours = any(
                (step.source, step.target) == (cluster, here) and step.copy_of(name) == topic for step in self.steps
            )
            if not slash or not (ours or topic == name):
                return
            yield cluster, name, ours
            here, topic = cluster, name
