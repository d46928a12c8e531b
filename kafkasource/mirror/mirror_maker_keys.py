"""Why a key of MirrorMaker 2's properties is not taken: THE table, for the keys that `mirror_maker` has left over."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kafkasource import options

_JAVA = "it names a Java class, which only MirrorMaker can run"
_NO_GROUP = "Spark gives partitions to its tasks: the mirror's readers are no members of a consumer group"
_METRICS = "the mirror's metrics are Spark's progress and the page of `metrics` in a TOML file (docs/mirror.md)"
_BYTES = "records are copied as bytes, never decoded"

# Patterns of whole keys behind the names of clusters, flows and clients. The first one that fits counts.
_OF_MIRROR_MAKER = (
    (
        r"groups(\.exclude|\.blacklist)?|sync\.group\.offsets.*|emit\.checkpoints.*|checkpoints\..*|"
        r"refresh\.groups.*|emit\.offset-syncs\.enabled",
        "group offsets are not carried along: `pykafka offsets translate` does it when you move a group",
    ),
    (r"sync\.topic\.acls.*", "ACLs are not carried along"),
    (
        r"config\.providers(\.\w+\.class)?",
        "the references ${env:NAME}, ${file:/path:key} and ${dir:/folder:file} need no provider; there are no others",
    ),
    (r"(emit\.)?heartbeats.*", "there are no heartbeats: Spark's progress shows whether the mirror runs"),
    (r"offset-syncs\..*|offset\.lag\.max", "the offset map is in a topic of its own, written after each micro-batch"),
    (r"(topic|group|config\.property)\.filter\.class|forwarding\.admin\.class", _JAVA),
    (
        r"tasks\.max|connector\..*|(key|value|header)\.converter.*|offset\.(storage|flush)\..*|"
        r"(config|status)\.storage\..*|group\.id|dedicated\..*|listeners.*|rest\..*|plugin\..*|transforms.*|predicates.*",
        "it is for Kafka Connect; here Spark shares the work out",
    ),
    (r"timeout\.ms", "it limits MirrorMaker's calls to its admin client: use admin.default.api.timeout.ms"),
    (r"poll\.timeout\.ms", "it is how long MirrorMaker waits for records: use consumer.fetch.max.wait.ms"),
)
_OF_CLIENTS = (
    (
        r"group\.(instance\.id|protocol|remote\.assignor)|session\.timeout\.ms|heartbeat\.interval\.ms|"
        r"partition\.assignment\.strategy|max\.poll\.interval\.ms|internal\.leave\.group\.on\.close",
        _NO_GROUP,
    ),
    (
        r"max\.poll\.records",
        "a fetch is limited in bytes: use consumer.fetch.max.bytes or consumer.max.partition.fetch.bytes",
    ),
    (r"(enable\.auto\.commit|auto\.commit\.interval\.ms)", "Spark's checkpoint keeps the offsets"),
    (
        r"auto\.offset\.reset",
        "a mirror begins at the beginning of each topic: startingOffsets in a TOML file says another place",
    ),
    (r"allow\.auto\.create\.topics", "reading never creates a topic"),
    (r"exclude\.internal\.topics", "an internal topic is copied only where `topics` has its whole name"),
    (r"metrics?\..*|enable\.metrics\.push|auto\.include\.jmx\.reporter", _METRICS),
    (r"client\.dns\.lookup", "all addresses of a name are tried"),
    (r"metadata\.recovery\..*", "where no known broker answers, the client always asks the bootstrap servers again"),
    (r"bootstrap\.controllers", "the mirror talks to brokers only: set bootstrap.servers"),
    (r"retries", "a request is sent again until default.api.timeout.ms is over"),
    (r"(key|value)\.(de)?serializer", _BYTES),
    (r"interceptor\.classes", _JAVA),
    (r"partitioner\..*", "a record keeps its partition"),
    (r"transactional\.id", "each task has its own: exactly.once.source.support = enabled makes transactions"),
)
# Values that say what the mirror does in any case.
_IN_ANY_CASE = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
    "enable.metrics.push": "false",
}


def reason(key: str, value: str, clusters: Iterable[str]) -> str | None:
    """Why the key is not taken. None: it says what the mirror does in any case."""
    at = _Place.of(key, clusters)
    if _IN_ANY_CASE.get(at.name, "false" if at.name.endswith(".enabled") else None) == value.strip().lower():
        return None
    for pattern, why in (*_OF_MIRROR_MAKER, *_OF_CLIENTS):
        if re.fullmatch(pattern, at.name):
            return why
    refused = options.refused(f"kafka.{at.name}")
    if refused is not None:
        return refused.instead
    if options.canonical(f"kafka.{at.name}") in options.BY_NAME:
        return at.instead()
    return _JAVA if at.name.endswith(".class") else "unknown, and ignored"


@dataclass(frozen=True)
class _Place:
    """The place of a key: `A->B.source.consumer.fetch.min.bytes`."""

    name: str  # of the key alone
    client: str = ""  # consumer, producer or admin
    cluster: str = ""
    flow: tuple[str, str] | None = None
    side: str = ""  # source, target or worker, which MirrorMaker's connectors put before the client

    @classmethod
    def of(cls, key: str, clusters: Iterable[str]) -> _Place:
        cluster, flow = "", None
        for name in sorted(clusters, key=len, reverse=True):
            match = re.match(rf"{re.escape(name)}(?:->([\w-]+))?\.", key)
            if match:
                cluster, flow = name, (name, match[1]) if match[1] else None
                key = key[match.end() :]
                break
        match = re.fullmatch(r"(?:(source|target|worker)\.)?(?:(consumer|producer|admin)\.)?(.*)", key, re.DOTALL)
        assert match is not None  # it matches any text
        return cls(match[3], match[2] or "", cluster, flow, match[1] or "")

    def instead(self) -> str:
        """Say where an option of ours has to stand."""
        if self.client and not (self.flow or self.side):
            return f"{self.name} is not an option of a {self.client}"
        if self.flow is None and not self.side:
            return (
                "clients share security.protocol, ssl.* and sasl.* only: write "
                f"consumer.{self.name} or producer.{self.name}"
            )
        cluster = self.cluster
        if self.flow is not None:
            cluster = self.flow[1 if self.client == "producer" else 0]
        place = ".".join(part for part in (cluster, self.client, self.name) if part)
        return f"the options of clients belong to a cluster here, not to a flow: write {place}"
