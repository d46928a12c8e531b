"""A flow of a mirror: topics of one cluster that are copied to another, and how. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

SAME_NAME = "${topic}"
EVERY_TOPIC = (".*",)
INTERNAL = (r"__.*", r".*[-.]internal", r".*\.replica")  # not mirrored, unless a flow names the topic in full

# Settings that concern one cluster only. The mirror does not copy them to another.
LOCAL_SETTINGS = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.type",  # else the target would give each record a new timestamp
    "message.timestamp.difference.max.ms",  # else the target would refuse old records; so with the next two
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "min.insync.replicas",
    "unclean.leader.election.enable",
)


@dataclass(frozen=True)
class Flow:
    """Topics of one cluster that the mirror copies to another."""

    source: str
    target: str
    topics: tuple[str, ...] = EVERY_TOPIC  # Java regular expressions of whole names
    exclude: tuple[str, ...] = ()
    topic: str = SAME_NAME  # the name at the target; ${source}: the source cluster, ${topic}: the topic's name there
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # options of the sink, for this target
    replication_factor: int = -1  # for topics that the mirror creates; -1: the brokers' default
    create_topics: bool = True  # and partitions
    sync_settings: bool = True
    exclude_settings: tuple[str, ...] = LOCAL_SETTINGS
    offset_map: bool = True
    origin_header: bool = True  # False: copies get no origin header, so a flow back would take them for new records

    @property
    def names_source(self) -> bool:
        """Do the names at the target tell where a record was? They do, because no cluster's name has a dot."""
        return self.topic == "${source}.${topic}"

    @property
    def template(self) -> str:
        """`topic` for the sink: only `${topic}` is left for the sink to replace."""
        return self.topic.replace("${source}", self.source)

    @property
    def pattern(self) -> str:
        """A regular expression that matches the flow's topics."""
        return pattern_of(self.topics, self.exclude)

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


def pattern_of(topics: Iterable[str], exclude: Iterable[str]) -> str:
    """A pattern for whole names: one of `topics` matches, none of `exclude`. Internal topics must be named in full."""
    wanted = list(topics)
    named = [text for text in wanted if re.fullmatch(r"[\w.-]+", text)]
    internal = "".join(f"(?!{_any(named)}$)" if named else "") + _any(INTERNAL)
    refused = [internal, *exclude]
    return f"^(?!{_any(refused)}$){_any(wanted)}$"


def _any(patterns: Iterable[str]) -> str:
    several = list(patterns)
    return f"(?:{several[0]})" if len(several) == 1 else "(?:" + "|".join(f"(?:{text})" for text in several) + ")"
