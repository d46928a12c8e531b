"""Makes a Plan from properties of MirrorMaker 2 (KIP-382), with their meaning and defaults. Warns of keys without a
meaning here.

    clusters = A, B
    A.security.protocol = SASL_SSL           security.protocol, ssl.*, sasl.*: of all clusters without their own
    A.bootstrap.servers = a1:9092            A.consumer.fetch.min.bytes, A.producer.acks, A.admin.…, consumer.…, …
    A->B.enabled = true                      a flow's key may stand without the flow, for all of them
    A->B.topics = orders.*, customers

A topic is called `A.orders` at the target unless the replication policy is IdentityReplicationPolicy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from kafkasource import options
from kafkasource.errors import OptionError
from kafkasource.kafka.security import properties
from kafkasource.mirror import mirror_maker_keys
from kafkasource.mirror.flow import LOCAL_SETTINGS, Flow
from kafkasource.mirror.plan import Plan

# Clients of MirrorMaker, their role here, and the roles whose options they take.
_CLIENTS = (
    ("consumer", "source", {"source"}),
    ("producer", "sink", {"sink"}),
    ("admin", "admin", {"source", "sink"}),
)
CHECKPOINT = "pykafka.checkpoint"  # our own key: MirrorMaker keeps its offsets in Kafka
_MOST_REFRESH_S = 30.0  # tasks wait for a topic that is not made yet, for kafka.max.block.ms

# Keys of flows, also without one.
_OF_FLOW = (
    "enabled",
    "topics",
    "topics.exclude",
    "topics.blacklist",
    "replication.policy.class",
    "replication.policy.separator",
    "replication.factor",
    "sync.topic.configs.enabled",
    "config.properties.exclude",
    "config.properties.blacklist",
    "refresh.topics.enabled",
    "refresh.topics.interval.seconds",
    "sync.topic.configs.interval.seconds",
)


def parse(text: str, where: str) -> Plan:
    """`where` names the file in errors. Raises OptionError."""
    try:
        given = {key: value.strip() for key, value in properties.parse(text).items()}
        return _Reading(given).plan()
    except OptionError as error:
        raise OptionError(f"{where}: {error}") from None


class _Reading:
    """Takes keys out of the properties. The remaining keys are unknown."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self._taken: set[str] = set()
        self._warnings: list[str] = []

    def plan(self) -> Plan:
        names = _list(self._take("clusters") or "")
        if not names:
            raise OptionError("clusters = names no cluster: list their names, as clusters = A, B")
        clusters, for_role = self._clusters(names)
        pairs = [(source, target) for source in names for target in names if source != target]
        enabled = [pair for pair in pairs if self._of_flow(pair, "enabled", "false").lower() == "true"]
        if not enabled:
            raise OptionError("no flow is enabled: enable one with A->B.enabled = true")
        flows = tuple(self._flow(pair, clusters[pair[1]] | for_role.get((pair[1], "sink"), {})) for pair in enabled)
        exactly_once = [self._take(f"{name}.exactly.once.source.support") for name in names]
        exactly_once.append(self._take("exactly.once.source.support"))
        plan = Plan(
            clusters=clusters,
            flows=flows,
            checkpoint=self._take(CHECKPOINT),
            exactly_once="enabled" in exactly_once,
            refresh_topics_s=self._interval(enabled, "refresh.topics.interval.seconds", Plan.refresh_topics_s),
            refresh_settings_s=self._interval(enabled, "sync.topic.configs.interval.seconds", Plan.refresh_settings_s),
            for_role=for_role,
        )
        self._say_what_is_left(names)
        return replace(plan, warnings=tuple(self._warnings))

    # Clusters.

    def _clusters(
        self, names: Iterable[str]
    ) -> tuple[dict[str, dict[str, str]], dict[tuple[str, str], dict[str, str]]]:
        """Options of each cluster, and those that only its consumers, producers or admin clients have, by role."""
        clusters, for_role = {}, {}
        for name in names:
            own = clusters[name] = self._options(("", f"{name}."))
            for client, role, used_by in _CLIENTS:
                found = self._options(("", f"{client}.", f"{name}.", f"{name}.{client}."), used_by)
                of_client = {option: text for option, text in found.items() if own.get(option) != text}
                alone = {option for option in of_client if set(options.BY_NAME[option].used_by) == used_by == {role}}
                own.update({option: of_client[option] for option in alone})
                for_role[name, role] = {option: text for option, text in of_client.items() if option not in alone}
        return clusters, for_role

    def _options(self, prefixes: Iterable[str], used_by: Set[str] = frozenset()) -> dict[str, str]:
        """Options that these roles, and perhaps others, have. From the most general prefix on, so that more specific
        ones override it."""
        found: dict[str, str] = {}
        for prefix in prefixes:
            for key in [key for key in self._given if key.startswith(prefix)]:
                option = options.BY_NAME.get(options.canonical("kafka." + key[len(prefix) :]))
                if (
                    option is not None
                    and (prefix or option.name in options.SECURITY_NAMES)  # MirrorMaker's clients share only these
                    and used_by <= set(option.used_by)
                ):
                    found[option.name] = self._given[key]
                    self._taken.add(key)
        return found

    # Flows.

    def _flow(self, pair: tuple[str, str], of_target: Mapping[str, str]) -> Flow:
        source, target = pair
        policy = self._of_flow(pair, "replication.policy.class", "DefaultReplicationPolicy").rpartition(".")[2]
        separator = self._of_flow(pair, "replication.policy.separator", ".")
        if policy not in ("DefaultReplicationPolicy", "IdentityReplicationPolicy"):
            raise OptionError(
                f"replication.policy.class: {policy} is a Java class, which only MirrorMaker can run. Leave it out, "
                "or use "
                "DefaultReplicationPolicy or IdentityReplicationPolicy"
            )
        exclude = self._of_flow(pair, "topics.exclude", None) or self._of_flow(pair, "topics.blacklist", "")
        not_carried = self._of_flow(pair, "config.properties.exclude", None) or self._of_flow(
            pair, "config.properties.blacklist", ""
        )
        self._say_that_topics_are_looked_for(pair)
        return Flow(
            source=source,
            target=target,
            topics=tuple(_list(self._of_flow(pair, "topics", ".*"))),
            exclude=tuple(_list(exclude)),
            topic="${topic}" if policy == "IdentityReplicationPolicy" else f"${{source}}{separator}${{topic}}",
            replication_factor=_number("replication.factor", self._of_flow(pair, "replication.factor", "-1")),
            sync_settings=self._of_flow(pair, "sync.topic.configs.enabled", "true").lower() == "true",
            exclude_settings=tuple(_list(not_carried)) or LOCAL_SETTINGS,
            offset_map=self._keeps_order(pair, of_target),
        )

    def _say_that_topics_are_looked_for(self, pair: tuple[str, str]) -> None:
        """MirrorMaker creates topics when it starts, also where this key is false. The read here takes new topics at
        once, so they are created, too: a task that writes to a missing topic fails."""
        if self._of_flow(pair, "refresh.topics.enabled", "true").lower() != "true":
            flow = f"{pair[0]}->{pair[1]}"
            self._warnings.append(
                f"{flow}: refresh.topics.enabled = false is not taken: the mirror looks for new topics all the time, "
                f"makes them at {pair[1]} and copies them. Name the topics in {flow}.topics if it is not to copy others"
            )

    def _keeps_order(self, pair: tuple[str, str], of_target: Mapping[str, str]) -> bool:
        """Does the target's producer keep the order when it sends batches again? The map of offsets needs that."""
        acks, idempotence, retries = (
            of_target.get(f"kafka.{key}", "").strip().lower() for key in ("acks", "enable.idempotence", "retries")
        )
        if acks in ("", "all", "-1") and idempotence != "false" and retries != "0":
            return True
        self._warnings.append(
            f"{pair[0]}->{pair[1]}: no map of offsets is kept, as the producer of {pair[1]} has no idempotence "
            "(acks, enable.idempotence or retries): the map would be wrong"
        )
        return False

    def _interval(self, pairs: list[tuple[str, str]], key: str, default: float) -> float:
        given = [text for text in (self._of_flow(pair, key, "") for pair in pairs) if text]
        if not given:
            return default
        seconds = min(float(_number(key, text)) for text in given)
        if key.startswith("refresh") and seconds > _MOST_REFRESH_S:
            self._warnings.append(f"{key}: new topics are looked for every {_MOST_REFRESH_S:.0f} s: their records wait")
            return _MOST_REFRESH_S
        return max(1.0, seconds)

    def _of_flow(self, pair: tuple[str, str], key: str, default: str | None) -> str:
        """The flow's own value, else the value for all flows."""
        own = self._take(f"{pair[0]}->{pair[1]}.{key}")
        for_all = self._take(key)
        return own or for_all or default or ""

    # The rest.

    def _take(self, key: str) -> str | None:
        self._taken.add(key)
        return self._given.get(key)

    def _say_what_is_left(self, names: list[str]) -> None:
        for key, value in self._given.items():
            if key in self._taken or re.sub(r"^[\w-]+->[\w-]+\.", "", key) in _OF_FLOW:  # of a flow that is not enabled
                continue
            why = mirror_maker_keys.reason(key, value, names)
            if why is not None:
                self._warnings.append(f"{key}: {why}")


def _list(text: str) -> list[str]:
    return [one for one in (part.strip() for part in text.split(",")) if one]


def _number(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"{key}: expected a whole number, got {text!r}") from None
