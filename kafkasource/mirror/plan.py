"""The plan of a mirror: clusters by name, and flows, each from one cluster to another. Pure; contacts no broker.

A route is one streaming query: all flows that leave one cluster. It reads the union of their topics once. The sink
then gives each target its own topics (`onlyTopics`).

No record runs in a circle, and none arrives at a cluster twice: `ways` decides which records a flow leaves out, and
whether it knows them by their topics' names or by headers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafkasource import options
from kafkasource.errors import OptionError
from kafkasource.mirror.flow import SAME_NAME, Flow, pattern_of
from kafkasource.mirror.positions import FlowRules, MirrorReader, PositionRecord, SourceRules, offsets_json
from kafkasource.mirror.ways import Ways
from kafkasource.options.java_regex import compile_java
from kafkasource.sink.clusters.origin import ORIGIN_HEADER, UnlessFrom
from kafkasource.types import TopicPartition

RECORD_HEADER = "mirror.record"  # the record's place in that cluster: topic/partition/offset

# The limits of a micro-batch, whichever is less: for small records the offsets, for large ones the bytes as the source
# stores them. A micro-batch should last seconds. After a failed task or a kill Spark does the whole micro-batch again,
# `pykafka mirror` ends only when its micro-batch ends, and the offset map grows only then.
MOST_OFFSETS, MOST_BYTES = 2_000_000, "512m"

# Options that the mirror sets itself.
_OURS = (
    *("subscribe", "subscribePattern", "assign", "includeHeaders", "columns", "packRecords", "addHeaders", "stopFile"),
    *("clusters", "topic", "createTopic", "onlyTopics", "unlessOrigin", "offsetMap", "refusedTopics"),
)
_PREFIX, _GUARANTEE = "transactionalIdPrefix", "deliveryGuarantee"
_OF_GROUP = (
    *("kafka.group.id", "commitOffsets", "groupOwnership"),
    *("kafka.group.protocol", "kafka.group.remote.assignor"),
)
_STARTS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy")


@dataclass(frozen=True)
class Plan:
    """A whole mirror. `warnings`: settings of the file that the mirror does not honour.

    `repr` shows no options: there are secrets among them.
    """

    # Options of the format, for reading from a cluster and writing to it.
    clusters: Mapping[str, Mapping[str, str]] = field(repr=False)
    flows: tuple[Flow, ...]
    checkpoint: str | None = None  # a folder for each route below it
    read: Mapping[str, str] = field(default_factory=dict, repr=False)  # options of every read
    write: Mapping[str, str] = field(default_factory=dict, repr=False)  # options of every write, to whichever cluster
    trigger: str | None = None  # Spark's processingTime; None: one micro-batch after the other
    exactly_once: bool = False
    provenance: bool = False  # add headers that say where a record was read
    spark: Mapping[str, str] = field(default_factory=dict)  # settings of the Spark session
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None  # of `serve_metrics`; None: not served
    refresh_topics_s: float = 5.0
    refresh_settings_s: float = 60.0
    warnings: tuple[str, ...] = ()
    # Options that hold in place of the cluster's for one role: by cluster and role (source, sink, admin).
    for_role: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict, repr=False)
    ways: Ways = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raises OptionError for a plan that cannot work."""
        if not self.flows:
            raise OptionError("the mirror lacks a flow: name at least one, with its source and target cluster")
        self._check_flows()
        self._check_options()
        self._check_clusters()
        object.__setattr__(self, "ways", Ways(self.flows, self.clusters))
        self._check_named_topics()

    def _check_flows(self) -> None:
        seen = set()
        for flow in self.flows:
            for name in (flow.source, flow.target):
                if name not in self.clusters:
                    raise OptionError(
                        f"flow {flow}: there is no cluster {name!r}, only {', '.join(sorted(self.clusters))}"
                    )
            if flow.source == flow.target:
                raise OptionError(f"flow {flow}: a cluster cannot be mirrored to itself")
            if (flow.source, flow.target) in seen:
                raise OptionError(f"flow {flow} exists twice: put all its topics into one")
            if "${topic}" not in flow.topic:
                raise OptionError(
                    f"flow {flow}: topic = {flow.topic!r} lacks ${{topic}}, so all topics would become one: add it"
                )
            seen.add((flow.source, flow.target))
            for pattern in (*flow.topics, *flow.exclude):
                _check_pattern(flow, pattern)

    def _check_options(self) -> None:
        of_flows = (flow.options for flow in self.flows)
        for where in (self.read, self.write, *self.clusters.values(), *self.for_role.values(), *of_flows):
            for key in where:
                if options.canonical(key) in _OURS:
                    raise OptionError(
                        f"option {key!r}: the mirror sets this option itself, from the keys of its flows: leave it out"
                    )

    def _check_clusters(self) -> None:
        for name in sorted({name for flow in self.flows for name in (flow.source, flow.target)}):
            if not re.fullmatch(r"[\w-]+", name):
                raise OptionError(f"cluster {name!r}: use only letters, digits, _ and - in the name of a cluster")
            if not any(options.canonical(key) == "kafka.bootstrap.servers" for key in self.clusters[name]):
                raise OptionError(f"cluster {name!r}: set its kafka.bootstrap.servers")

    def options_for(self, cluster: str, role: str) -> dict[str, str]:
        """The options of the format for reading from the cluster (source) or writing to it (sink)."""
        return {**_of_role(self.clusters[cluster], role), **_of_role(self.for_role.get((cluster, role), {}), role)}

    def to_reach(self, cluster: str, role: str) -> dict[str, str]:
        """The options to ask the cluster for its topics, and to change them. Where it has none for that, those of the
        mirror's role there."""
        several = (
            self.for_role.get((cluster, role), {}),
            self.clusters[cluster],
            self.for_role.get((cluster, "admin"), {}),
        )
        return {name: text for each in several for name, text in _of_role(each, "both").items()}

    def _check_named_topics(self) -> None:
        """Refuse a plan in which a cluster misses a topic that the file names in full. Of others the mirror warns."""
        topics = {name for flow in self.flows for name in flow.topics if re.fullmatch(r"[\w-]+", name)}
        for topic in sorted(topics):
            for origin in sorted({flow.source for flow in self.flows}):
                if missed := self.ways.missed(origin, topic):
                    raise OptionError(missed)

    def needs_header(self, flow: Flow) -> bool:
        """Does the flow know by headers which records to leave out?

        It does too where it is alone and keeps names: another mirror, or a later plan, may have a flow back.
        """
        return self.ways.need_headers or not flow.names_source

    def pattern(self, flow: Flow) -> str:
        """The flow's topics, without those that it leaves out by their names."""
        by_name = self.ways.left_out_by_name(flow)
        return flow.pattern if by_name is None else pattern_of(flow.topics, (*flow.exclude, by_name))


def _check_pattern(flow: Flow, pattern: str) -> None:
    try:
        compile_java(pattern)
    except ValueError as error:
        raise OptionError(f"flow {flow}: {pattern!r} is not a usable regular expression: {error}") from None


@dataclass(frozen=True)
class Route:
    """All flows that leave one cluster. One streaming query reads for them, but where some have to catch up."""

    source: str
    flows: tuple[Flow, ...]
    rules: SourceRules
    patterns: Mapping[str, str]  # by target: a pattern for the topics that it gets
    read: Mapping[str, str] = field(repr=False)  # options of the read
    write: Mapping[str, str] = field(repr=False)  # and of the write
    headers: Mapping[str, str]  # the headers that the source adds to each record
    checkpoint: str | None
    # The options to reach each cluster, the source included.
    clients: Mapping[str, Mapping[str, str]] = field(repr=False)
    # The topics whose settings a flow carries on under the same name: by source and target.
    same_names: Mapping[tuple[str, str], str]
    ways: Ways = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        return f"mirror-{self.source}"

    def missed(self, topic: str) -> str | None:
        """Say which cluster gets no record of this topic of the source, though flows lead there."""
        return self.ways.missed(self.source, topic)

    def takes(self, flow: Flow, topic: str) -> bool:
        return compile_java(self.patterns[flow.target]).search(topic) is not None

    def comes_back(self, flow: Flow, topic: str) -> bool:
        """Do flows carry the settings of this topic back, after `flow`, to the topic itself?"""
        if (flow.source, flow.target) not in self.same_names:
            return False
        reached, ahead = {flow.target}, [flow.target]
        while ahead:
            here = ahead.pop()
            for (source, target), pattern in self.same_names.items():
                if source == here and target not in reached and compile_java(pattern).search(topic) is not None:
                    reached.add(target)
                    ahead.append(target)
        return flow.source in reached


def offset_map_topic(source: str) -> str:
    """The name of the compacted topic at a target that maps the offsets of this source."""
    return f"mirror-offsets.{source}.internal"


def routes(plan: Plan, cluster_ids: Mapping[str, str | None] | None = None) -> list[Route]:
    """One route for each cluster that the mirror reads. Raises OptionError.

    `cluster_ids`: by name, where they are known. The name stands for a cluster without an id.
    """
    found = []
    ids = {name: (cluster_ids or {}).get(name) or name for name in plan.clusters}
    for flow in plan.flows:
        if ids[flow.source] == ids[flow.target]:  # it would copy its own copies, without end
            raise OptionError(
                f"flow {flow}: {flow.source} and {flow.target} have the same cluster id, {ids[flow.source]}. If they "
                "are one cluster, correct the kafka.bootstrap.servers of one of them. If they are two, format one of "
                "them with another id: a mirror knows by the id where a record has been"
            )
    same_names = {
        (flow.source, flow.target): plan.pattern(flow)
        for flow in plan.flows
        if flow.sync_settings and flow.template == SAME_NAME
    }
    for source in dict.fromkeys(flow.source for flow in plan.flows):
        flows = tuple(flow for flow in plan.flows if flow.source == source)
        patterns = {flow.target: plan.pattern(flow) for flow in flows}
        header = (
            plan.provenance
            or plan.ways.need_headers
            or any(flow.origin_header and not flow.names_source for flow in flows)
        )
        added = {ORIGIN_HEADER: f"{ids[source]}/${{topic}}"} if header else {}
        if plan.provenance:
            added[RECORD_HEADER] = "${topic}/${partition}/${offset}"
        rules = _rules(plan, flows, patterns, ids, added)
        found.append(
            Route(
                source,
                flows,
                rules,
                patterns,
                _reading(plan, source, rules, rules.flows),
                _writing(plan, source, rules, rules.flows),
                added,
                None if plan.checkpoint is None else f"{plan.checkpoint.rstrip('/')}/{source}",
                {
                    source: plan.to_reach(source, "source"),
                    **{target: plan.to_reach(target, "sink") for target in patterns},
                },
                same_names,
                plan.ways,
            )
        )
    return found


def reader_options(
    plan: Plan,
    route: Route,
    record: PositionRecord,
    reader: MirrorReader,
    *,
    flows: Iterable[FlowRules] | None = None,
    front: Mapping[TopicPartition, int] | None = None,
    names: Mapping[str, str] | None = None,
) -> tuple[dict[str, str], dict[str, str]]:
    """The options of a reader's read and write, as its record wants them.

    `flows`: those to write to, if not all. `front`: where a catch-up ends. `names`: of clusters that have another name
    in the plan than in the rules.
    """
    read = _reading(plan, route.source, record.rules, reader.flows)
    write = _writing(plan, route.source, record.rules, reader.flows if flows is None else flows, names)
    prefix = _of_role(plan.write, "sink").get(_PREFIX)
    if prefix is not None:
        write[_PREFIX] = f"{prefix}.{record.source}.{reader.name}"  # the source may have another name now
    if reader.start is not None:
        for name in _STARTS:
            read.pop(name, None)
        # `*`: what came since the source's partitions were listed.
        read["startingOffsets"] = json.dumps({**offsets_json(reader.start), "*": "earliest"})
    if front is not None:
        for name in _OF_GROUP:
            read.pop(name, None)  # the group's offsets are those of the shared reader
        read["endingOffsets"] = json.dumps(offsets_json(front))
    return read, write


def _rules(
    plan: Plan, flows: Iterable[Flow], patterns: Mapping[str, str], ids: Mapping[str, str], added: Mapping[str, str]
) -> SourceRules:
    found, steps = [], plan.ways.steps(ids)
    for flow in flows:
        left_out = UnlessFrom(ids[flow.source], ids[flow.target], steps)
        found.append(
            FlowRules(
                flow.target,
                flow.template,
                patterns[flow.target],
                left_out.to_json() if plan.needs_header(flow) else None,
                offset_map_topic(flow.source) if flow.offset_map else None,
            )
        )
    guarantee = _of_role(plan.write, "sink").get(_GUARANTEE)
    once = plan.exactly_once if guarantee is None else guarantee.lower() == "exactly_once"
    return SourceRules(tuple(found), added, once)


def _reading(plan: Plan, source: str, rules: SourceRules, flows: Iterable[FlowRules]) -> dict[str, str]:
    distinct = list(dict.fromkeys(flow.topics for flow in flows))
    wanted = distinct[0] if len(distinct) == 1 else "|".join(f"(?:{pattern})" for pattern in distinct)
    given = {**plan.options_for(source, "source"), **_of_role(plan.read, "source")}
    limited = {options.canonical(key) for key in given} & {"maxOffsetsPerTrigger", "maxBytesPerTrigger"}
    return {
        "startingOffsets": "earliest",
        "failOnDeletedTopic": "false",  # the others' records are to be copied all the same
        **({} if limited else {"maxOffsetsPerTrigger": str(MOST_OFFSETS), "maxBytesPerTrigger": MOST_BYTES}),
        **({"kafka.isolation.level": "read_committed"} if rules.exactly_once else {}),
        **given,
        "subscribePattern": wanted,
        "includeHeaders": "true",  # they are mirrored
        "packRecords": "true",
        **({"addHeaders": json.dumps(dict(rules.headers))} if rules.headers else {}),
    }


def _writing(
    plan: Plan,
    source: str,
    rules: SourceRules,
    flows: Iterable[FlowRules],
    names: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """`names`: of clusters that have another name in the plan than in the rules."""
    own = {flow.target: flow for flow in plan.flows if flow.source == source}
    clusters: dict[str, dict[str, str]] = {}
    for rule in flows:
        name = (names or {}).get(rule.target, rule.target)
        clusters[rule.target] = {
            **plan.options_for(name, "sink"),
            **(own[name].options if name in own else {}),
            "topic": rule.topic,
            "onlyTopics": rule.topics,
            "refusedTopics": "[]",
        }
        if rule.unless_origin is not None:
            clusters[rule.target]["unlessOrigin"] = rule.unless_origin
        if rule.offset_map is not None:
            clusters[rule.target]["offsetMap"] = rule.offset_map
    shared = _of_role(plan.write, "sink")
    shared.pop(_GUARANTEE, None)
    once = {_GUARANTEE: "exactly_once"} if rules.exactly_once else {}
    if _PREFIX in shared:  # else the queries of two sources would fence each other at a target that both write to
        shared[_PREFIX] += f".{source}"
    return {**once, **shared, "clusters": json.dumps(clusters)}


def with_refused(write: Mapping[str, str], refused: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The options of a write, with the topics that each target is known to refuse."""
    clusters = json.loads(write["clusters"])
    for target in refused.keys() & clusters.keys():  # a reader may write to some
        clusters[target]["refusedTopics"] = json.dumps(list(refused[target]))
    return {**write, "clusters": json.dumps(clusters)}


def _of_role(given: Mapping[str, str], role: str) -> dict[str, str]:
    """The options of a cluster for one role: reading, writing, or (both) reaching it.

    Unknown options stay, so that `options.parse` reports them.
    """
    roles = {"source", "sink"} if role == "both" else {role}
    found = {}
    for key, text in given.items():
        option = options.BY_NAME.get(options.canonical(key))
        if option is None:
            if role != "both":
                found[key] = text
        elif roles <= set(option.used_by):
            found[option.name] = text
    return found
