"""What a mirror is to do: clusters by name, and flows, each from one cluster to another. Pure; contacts nobody.

A route is a streaming query: all flows that leave one cluster. It reads the union of their topics once, and the sink
gives each target its own (`onlyTopics`).

No record goes round in circles, nor comes to a cluster twice: `circles` decides which records a flow leaves out, and
whether topics' names tell which they are, or headers have to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafkasource import options
from kafkasource.errors import OptionError
from kafkasource.mirror.circles import Stop, decide
from kafkasource.options.java_regex import compile_java

CLUSTER_HEADER = "mirror.cluster"  # the cluster that a record was read from; one for each time it was mirrored
RECORD_HEADER = "mirror.record"  # and where there: topic/partition/offset
_SAME = "${topic}"
INTERNAL = (r"__.*", r".*[-.]internal", r".*\.replica")  # never mirrored, unless named in full

# In a micro-batch, so that it lasts seconds: what is not committed when a task fails or a mirror is killed is done
# again, `pykafka mirror` ends when the micro-batch does, and the map of offsets grows at its end. Whichever is less:
# the first is for small records, the second, in bytes as the source stores them, for large ones.
MOST_OFFSETS, MOST_BYTES = 2_000_000, "512m"

# Options that the mirror gives.
_OURS = (
    *("subscribe", "subscribePattern", "assign", "includeHeaders", "packRecords", "addHeaders", "stopFile"),
    *("clusters", "topic", "createTopic", "onlyTopics", "unlessHeader", "offsetMap"),
)

# Settings that are about the cluster they are made in, and so not carried to another.
LOCAL_SETTINGS = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.type",  # the target would stamp each record anew
    "message.timestamp.difference.max.ms",  # and refuse old ones: these two and the next
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "min.insync.replicas",
    "unclean.leader.election.enable",
)


@dataclass(frozen=True)
class Flow:
    """Topics of one cluster that another is to have."""

    source: str
    target: str
    topics: tuple[str, ...] = (".*",)  # Java regular expressions of whole names
    exclude: tuple[str, ...] = ()
    topic: str = _SAME  # the name there; ${source} and ${topic} stand for the cluster and the name here
    options: Mapping[str, str] = field(default_factory=dict)  # of the sink, for this target
    replication_factor: int = -1  # of topics that are made; -1: the brokers' default
    create_topics: bool = True  # and partitions
    sync_settings: bool = True
    exclude_settings: tuple[str, ...] = LOCAL_SETTINGS
    offset_map: bool = True

    @property
    def template(self) -> str:
        """As the sink takes it: `${topic}` alone is left to be filled in."""
        return self.topic.replace("${source}", self.source)

    @property
    def pattern(self) -> str:
        """The topics, as a regular expression."""
        return pattern_of(self.topics, self.exclude)

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


def pattern_of(topics: Iterable[str], exclude: Iterable[str]) -> str:
    """Whole names that one of `topics` matches and none of `exclude`, nor is internal unless named in full."""
    wanted = list(topics)
    named = [text for text in wanted if re.fullmatch(r"[\w.-]+", text)]
    internal = "".join(f"(?!{_any(named)}$)" if named else "") + _any(INTERNAL)
    refused = [internal, *exclude]
    return f"^(?!{_any(refused)}$){_any(wanted)}$"


def _any(patterns: Iterable[str]) -> str:
    several = list(patterns)
    return f"(?:{several[0]})" if len(several) == 1 else "(?:" + "|".join(f"(?:{text})" for text in several) + ")"


@dataclass(frozen=True)
class Plan:
    """A whole mirror. `warnings`: what the file says that is not done."""

    clusters: Mapping[str, Mapping[str, str]]  # options of the format, for reading from it and writing to it
    flows: tuple[Flow, ...]
    checkpoint: str | None = None  # a folder for each route below it
    read: Mapping[str, str] = field(default_factory=dict)  # options of every read
    write: Mapping[str, str] = field(default_factory=dict)  # and of every write, whichever the cluster
    trigger: str | None = None  # Spark's processingTime; None: one micro-batch after the other
    exactly_once: bool = False
    provenance: bool = False  # headers that tell where a record was read
    spark: Mapping[str, str] = field(default_factory=dict)  # of the session: settings of Spark's that a query may have
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None  # of `serve_metrics`; None: not served
    refresh_topics_s: float = 5.0
    refresh_settings_s: float = 60.0
    warnings: tuple[str, ...] = ()
    _stops: Mapping[str, Stop] = field(init=False, repr=False, compare=False)  # by flow

    def __post_init__(self) -> None:
        """Raises OptionError for what cannot be."""
        if not self.flows:
            raise OptionError("the mirror has no flow: name at least one, with its source and target cluster")
        self._check_flows()
        self._check_options()
        self._check_clusters()
        stops = decide(self.flows, self.clusters, {str(flow): flow.pattern for flow in self.flows})
        object.__setattr__(self, "_stops", stops)

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
        for where in (self.read, self.write, *self.clusters.values(), *(flow.options for flow in self.flows)):
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

    def stop(self, flow: Flow) -> Stop:
        """Which records the flow does not carry."""
        return self._stops[str(flow)]

    def unless_from(self, flow: Flow) -> list[str]:
        """Clusters whose records the flow does not carry, as their headers tell."""
        stop = self.stop(flow)
        return sorted(stop.clusters) if stop.by_header else []

    def pattern(self, flow: Flow) -> str:
        """The flow's topics but those that it does not carry as their names tell."""
        by_name = self.stop(flow).by_name
        return flow.pattern if by_name is None else pattern_of(flow.topics, (*flow.exclude, by_name))


def _check_pattern(flow: Flow, pattern: str) -> None:
    try:
        compile_java(pattern)
    except ValueError as error:
        raise OptionError(f"flow {flow}: {pattern!r} is not a usable regular expression: {error}") from None


@dataclass(frozen=True)
class Route:
    """One streaming query: from one cluster to all its targets."""

    source: str
    flows: tuple[Flow, ...]
    patterns: Mapping[str, str]  # by target: the topics it gets
    read: Mapping[str, str]  # options of the read
    write: Mapping[str, str]  # and of the write
    headers: Mapping[str, str]  # that each record gets
    checkpoint: str | None
    clients: Mapping[str, Mapping[str, str]]  # by cluster, its source included: how to reach it

    @property
    def name(self) -> str:
        return f"mirror-{self.source}"

    def takes(self, flow: Flow, topic: str) -> bool:
        return compile_java(self.patterns[flow.target]).search(topic) is not None


def offset_map_topic(source: str) -> str:
    """The compacted topic at a target that maps a source's offsets."""
    return f"mirror-offsets.{source}.internal"


def routes(plan: Plan) -> list[Route]:
    """One for each cluster that something is read from. Raises OptionError."""
    found = []
    for source in dict.fromkeys(flow.source for flow in plan.flows):
        flows = tuple(flow for flow in plan.flows if flow.source == source)
        patterns = {flow.target: plan.pattern(flow) for flow in flows}
        header = plan.provenance or any(source in plan.unless_from(flow) for flow in plan.flows)
        added = {CLUSTER_HEADER: source} if header else {}
        if plan.provenance:
            added[RECORD_HEADER] = "${topic}/${partition}/${offset}"
        found.append(
            Route(
                source,
                flows,
                patterns,
                _reading(plan, source, patterns.values(), added),
                _writing(plan, source, flows, patterns),
                added,
                None if plan.checkpoint is None else f"{plan.checkpoint.rstrip('/')}/{source}",
                {name: _of_role(plan.clusters[name], "both") for name in (source, *patterns)},
            )
        )
    return found


def _reading(plan: Plan, source: str, patterns: Iterable[str], added: Mapping[str, str]) -> dict[str, str]:
    distinct = list(dict.fromkeys(patterns))
    wanted = distinct[0] if len(distinct) == 1 else "|".join(f"(?:{pattern})" for pattern in distinct)
    given = {**_of_role(plan.clusters[source], "source"), **_of_role(plan.read, "source")}
    limited = {options.canonical(key) for key in given} & {"maxOffsetsPerTrigger", "maxBytesPerTrigger"}
    return {
        "startingOffsets": "earliest",
        **({} if limited else {"maxOffsetsPerTrigger": str(MOST_OFFSETS), "maxBytesPerTrigger": MOST_BYTES}),
        **({"kafka.isolation.level": "read_committed"} if plan.exactly_once else {}),
        **given,
        "subscribePattern": wanted,
        "includeHeaders": "true",  # they are mirrored
        "packRecords": "true",
        **({"addHeaders": json.dumps(added)} if added else {}),
    }


def _writing(plan: Plan, source: str, flows: Iterable[Flow], patterns: Mapping[str, str]) -> dict[str, str]:
    clusters: dict[str, dict[str, str]] = {}
    for flow in flows:
        clusters[flow.target] = {
            **_of_role(plan.clusters[flow.target], "sink"),
            **flow.options,
            "topic": flow.template,
            "onlyTopics": patterns[flow.target],
        }
        unless = plan.unless_from(flow)
        if unless:
            clusters[flow.target]["unlessHeader"] = f"{CLUSTER_HEADER}={','.join(unless)}"
        if flow.offset_map:
            clusters[flow.target]["offsetMap"] = offset_map_topic(source)
    once = {"deliveryGuarantee": "exactly_once"} if plan.exactly_once else {}
    return {**once, **_of_role(plan.write, "sink"), "clusters": json.dumps(clusters)}


def _of_role(given: Mapping[str, str], role: str) -> dict[str, str]:
    """Of a cluster's options those for reading, writing, or (both) for reaching it. What nobody knows stays, so that
    it is spoken of where it is parsed."""
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
