"""Which queries run, and what each of them promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka.partitioner import murmur2

from lab.campaign.checker import Copy

IN_PARTITIONS, OUT_PARTITIONS = 4, 3
GROUP_OF = ("once", "least")  # queries that commit their offsets to a group
OWNER = "least"  # the one that is its group's only member
MEMBERS = "members"  # the group of mixed clients
TOLD = "what the group's members told"
FOLLOW = "what Reader.follow gave"


@dataclass(frozen=True)
class Names:
    """Of topics and groups. `stem` is new for each campaign."""

    stem: str

    @property
    def source(self) -> str:
        return f"in-{self.stem}"

    def target(self, query: str) -> str:
        return self.mirrored if query == MIRROR else f"{query}-{self.stem}"

    @property
    def west(self) -> str:
        """The second topic of the query that writes to several clusters."""
        return self.west_of(FAN)

    @property
    def passing(self) -> str:
        """A topic whose records are removed while they are read."""
        return f"passing-{self.stem}"

    @property
    def remade(self) -> str:
        """A topic that is deleted and made again while it is read."""
        return f"remade-{self.stem}"

    def west_of(self, query: str) -> str:
        return f"{self.target(query)}-west"

    def group(self, query: str) -> str:
        return f"group-{query}-{self.stem}"

    @property
    def mirrored(self) -> str:
        return f"east.{self.source}"

    @property
    def offset_map(self) -> str:
        return "mirror-offsets.east.internal"


SINKS: dict[str, dict[str, str]] = {
    "once": {"deliveryGuarantee": "exactly_once"},
    "atomic": {"deliveryGuarantee": "exactly_once", "atomicBatch": "true"},
    "least": {},
    # Writes twice: as if to two clusters, and both must have all. Each batch is compressed once for both.
    "fan": {"clusters.west.topic": "${topic}-west", "kafka.compression.type": "zstd"},
}
FAN = "fan"
MIRROR = "mirror"
# Queries to two clusters, of which the second may fall behind: what the storm has beside those above.
POLICIES: dict[str, dict[str, str]] = {
    policy: {
        "clusters.west.topic": "${topic}-west",
        "clusters.west.onSlowCluster": policy,
        "clusters.west.slowClusterWait": "500ms",
        "kafka.compression.type": "lz4",
    }
    for policy in ("discard", "fail")
}


def partition_of(key: bytes) -> int:
    """Where Kafka's own partitioner puts a key, by kafka-python's murmur2."""
    return (int(murmur2(key)) & 0x7FFFFFFF) % OUT_PARTITIONS


def copies(names: Names) -> list[Copy]:
    mirror = Copy(MIRROR, names.source, names.mirrored, once=True, same_partition=True, with_headers=True)
    return [*of_sinks(names), mirror, as_read("follow", names, FOLLOW), of_members(names)]


def of_sinks(names: Names) -> list[Copy]:
    found = [
        Copy(
            query,
            names.source,
            names.target(query),
            once="deliveryGuarantee" in options,
            with_headers=True,
            partition_of=partition_of,
        )
        for query, options in SINKS.items()
    ]
    west = Copy("fan west", names.source, names.west, once=False, with_headers=True, partition_of=partition_of)
    return [*found, west]


def of_policies(names: Names, left_out: Mapping[str, int]) -> list[Copy]:
    """`left_out`: how many records a query said that it discarded, by the target's topic."""
    return [
        Copy(
            f"{query} to {target}",
            names.source,
            target,
            once=False,
            with_headers=True,
            partition_of=partition_of,
            left_out=left_out.get(target, 0) if (query, target) == ("discard", names.west_of(query)) else None,
        )
        for query in POLICIES
        for target in (names.target(query), names.west_of(query))
    ]


def as_read(name: str, names: Names, told: str) -> Copy:
    """What a reader that goes on where it was gave: each record once, as it is in the source."""
    return Copy(name, names.source, told, True, True, True, True)


def of_members(names: Names) -> Copy:
    return Copy(MEMBERS, names.source, TOLD, once=False, same_partition=True, same_offset=True, with_headers=True)
