"""Topics: lists and describes them, and carries out an operator's changes.

Nothing of this package makes or changes a topic unless a user asks for it. Settings are shown and changed by brokers
from 0.11 on; older ones raise UnsupportedApiVersion.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkasource.errors import (
    AuthorizationFailed,
    BrokerError,
    ConnectionLost,
    InvalidPartitions,
    KafkaSourceError,
    LeaderNotAvailable,
    NotController,
    ProtocolError,
    RequestTimeout,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    error_for,
    few,
    row_of,
)
from kafkasource.kafka.cluster.caller import PROPAGATION_MS, Caller, checked, message_in
from kafkasource.kafka.network.metadata import TopicMetadata, topic_error
from kafkasource.kafka.protocol.apis import (
    ALTER_CONFIGS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    METADATA,
    Api,
)
from kafkasource.kafka.protocol.schema import Fields

log = logging.getLogger("kafkasource.client")

_TOPIC = 2  # the type of a resource that has settings
_SET, _DELETE = 0, 1
_REQUEST_TIMED_OUT = 7  # the request was taken, and is being done
_DYNAMIC_TOPIC, _DEFAULT = 1, 5  # where a setting's value comes from; between them: the brokers


class Setting(NamedTuple):
    """One setting of a topic. `value` None: sensitive, or not set."""

    name: str
    value: str | None
    source: str  # "topic", "broker" or "default"


class Topics:
    """Questions about topics to any broker, and changes by the controller."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._metadata = caller.metadata

    def describe(
        self, topics: Iterable[str], *, propagation_ms: int = PROPAGATION_MS, asked: Counter[int] | None = None
    ) -> dict[str, TopicMetadata | None]:
        """Ask the cluster now for these topics. None: no such topic, even after `propagation_ms` of asking again.

        `asked`: a caller that doubts an answer passes the same counter again, so that another node is asked. Raises
        AuthorizationFailed and other fatal errors of a topic.
        """
        names = [*dict.fromkeys(topics)]
        patience = self._caller.now_ms() + propagation_ms
        what = f"metadata of {few(names)}" if names else "the list of brokers"
        return self._caller.retrying(what, lambda left: self._describe(names, patience, left), asked=asked)

    def _describe(self, names: Sequence[str], patience_ms: float, left_ms: float) -> dict[str, TopicMetadata | None]:
        self._caller.asked_in_vain(self._caller.ask_metadata([*names], left_ms).node_id)  # if it is asked again
        errors = {name: self._metadata.topic_errors[name] for name in names if name in self._metadata.topic_errors}
        late = self._caller.now_ms() >= patience_ms
        for name, code in errors.items():
            error = self._caller.refusal(METADATA, topic_error(code, f"topic {name!r}"))
            if not (late and error.row.no_such_topic):
                raise error
        return {name: None if name in errors else self._metadata.topic(name) for name in names}

    def list(
        self, *, asked: Counter[int] | None = None, wanted: Callable[[str], bool] | None = None
    ) -> Sequence[TopicMetadata]:
        """Ask the cluster now for all topics that the ACLs let us see, internal ones (flagged) included.

        A topic for which a broker reports an error is not gone: it comes as it was known before. One that was not known
        is left out with a warning, as in Java's clients; but of a name that is `wanted` the error is retried, or
        raised. `asked`: see `describe`.
        """

        def attempt(left_ms: float) -> Sequence[TopicMetadata]:
            pending = self._caller.ask_metadata(None, left_ms)
            self._caller.asked_in_vain(pending.node_id)  # if it is asked again
            body = pending.result()
            unknown = {}
            found = []
            for row in body["topics"]:
                topic = self._metadata.topic(row["name"])
                if topic is not None:
                    found.append(topic)
                elif row["error_code"] and not row_of(row["error_code"]).no_such_topic:
                    unknown[row["name"]] = row["error_code"]
                    if wanted is not None and not row.get("is_internal") and wanted(row["name"]):
                        error = error_for(row["error_code"], f"topic {row['name']!r} in the list of all topics")
                        raise self._caller.refusal(METADATA, error)
            _warn_of_left_out(unknown)
            return found

        return self._caller.retrying("metadata of all topics", attempt, asked=asked)

    # Changes.

    def create(
        self,
        names: Iterable[str],
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create topics that are alike, then wait until every partition has a leader. -1: the broker's default.
        `validate_only`: only ask whether the brokers would (from 0.10.2 on).

        Raises a topic's errors, as TopicAlreadyExists; those named before it may have been created.
        """
        wanted = [*names]
        settings = [{"name": name, "value": value} for name, value in (configs or {}).items()]

        def body(left: Sequence[str], _: int) -> Fields:
            rows = [
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": replication_factor,
                    "assignments": [],
                    "configs": settings,
                }
                for name in left
            ]
            return {"topics": rows, **({"validate_only": True} if validate_only else {})}

        self._ask_controller(CREATE_TOPICS, body, wanted, "topics", done_already=TopicAlreadyExists.CODE)
        if not validate_only:
            self._await_leaders(dict.fromkeys(wanted, partitions))

    def add_partitions(self, totals: Mapping[str, int]) -> None:
        """Let topics have this many partitions in all, then wait until all have a leader."""

        def body(left: Sequence[str], _: int) -> Fields:
            return {"topics": [{"name": name, "count": totals[name], "assignments": None} for name in left]}

        self._ask_controller(CREATE_PARTITIONS, body, [*totals], "results", done_already=InvalidPartitions.CODE)
        self._await_leaders(totals)

    def delete(self, names: Iterable[str]) -> None:
        """Delete, then wait some seconds at most for the brokers to know. Raises UnknownTopicOrPartition and others."""
        wanted = [*names]

        def body(left: Sequence[str], version: int) -> Fields:
            return {"topics": [{"name": name} for name in left]} if version >= 6 else {"topic_names": left}

        self._ask_controller(DELETE_TOPICS, body, wanted, "responses", done_already=UnknownTopicOrPartition.CODE)
        with self._caller.lock:
            self._metadata.forget(wanted)
        patience = self._caller.now_ms() + PROPAGATION_MS

        def attempt(left_ms: float) -> None:
            described = self._describe(wanted, 0, left_ms)
            if any(described.values()) and self._caller.now_ms() < patience:
                raise error_for(LeaderNotAvailable.CODE, "a deleted topic is still known")
            self._metadata.forget(wanted)

        self._caller.retrying(f"the end of {few(wanted)}", attempt)

    def _await_leaders(self, totals: Mapping[str, int]) -> None:
        """Wait until each topic has its number of partitions, and all partitions have leaders."""

        def attempt(left_ms: float) -> None:
            described = self._describe([*totals], float("inf"), left_ms)
            for name, total in totals.items():
                topic = described[name]
                if topic is None or len(topic.partitions) < total:
                    raise error_for(UnknownTopicOrPartition.CODE, f"topic {name!r}")
                for partition in topic.partitions.values():
                    if partition.leader_id is None:
                        raise error_for(LeaderNotAvailable.CODE, f"{name}-{partition.partition}")

        self._caller.retrying(f"leaders of {few(totals)}", attempt)

    def _ask_controller(
        self,
        api: Api,
        body: Callable[[Sequence[str], int], Fields],
        names: Sequence[str],
        rows: str,
        *,
        done_already: int,
    ) -> None:
        """Send a request to the controller, again for the names with a retriable error, while nothing else is wrong.

        `body` gives the request in a version, for the names that are not done.

        The error `done_already` means that the request took effect where it may have been our own: an answer was
        lost, or it said that this is done, or that it goes on while the controller waits no longer.
        """
        left = list(names)
        ours: set[str] = set()  # may be done by an earlier attempt
        moved = False

        def attempt(left_ms: float) -> None:
            nonlocal moved
            timeout_ms = self._caller.timeout_ms(left_ms)
            node_id = self._controller(left_ms, ask=moved)

            def timed(version: int) -> Fields:
                # The broker's own wait ends before the request does, so that we hear how it went.
                return {**body(left, version), "timeout_ms": int(timeout_ms * 0.9)}

            try:
                answer = self._caller.call(node_id, api, timed, timeout_ms=timeout_ms)
            except (ConnectionLost, RequestTimeout):
                ours.update(left)
                raise
            if others := {row["name"] for row in answer[rows]} - {*left}:
                raise ProtocolError(f"{api.name} {few(left)}: the answer speaks of {few(others)}")
            refused = {
                row["name"]: self._refusal(api, row)
                for row in answer[rows]
                if row["error_code"] and not (row["error_code"] == done_already and row["name"] in ours)
            }
            ours.update(row["name"] for row in answer[rows] if row["error_code"] == _REQUEST_TIMED_OUT)
            left[:] = refused
            if refused:
                error = min(refused.values(), key=_may_pass)  # the first that is for good, if any
                moved = isinstance(error, NotController)
                if moved:
                    self._caller.asked_in_vain(node_id)  # nor may it know who is
                raise error

        self._caller.retrying(f"{api.name} {few(names)}", attempt, propagation_ms=0)  # the controller knows all topics

    def _refusal(self, api: Api, row: Fields) -> BrokerError:
        return self._caller.refusal(api, error_for(row["error_code"], f"{api.name} {row['name']!r}{message_in(row)}"))

    def _controller(self, left_ms: float, *, ask: bool) -> int:
        """The controller's node id; any node where the cluster names none (brokers before 0.10 do not). `ask`: the
        known node is not the controller any more."""
        if ask or self._metadata.controller_id is None:
            self._caller.ask_metadata([], left_ms)
        controller = self._metadata.controller_id
        return self._caller.any_node(left_ms) if controller is None else controller

    # Settings.

    def settings(self, topics: Iterable[str]) -> dict[str, Sequence[Setting]]:
        """All settings of topics, defaults included, by name. Raises a topic's errors."""
        found, refused = self.settings_or_refusals(topics)
        for error in refused.values():
            raise error
        return found

    def settings_or_refusals(
        self, topics: Iterable[str], *, propagation_ms: int = PROPAGATION_MS
    ) -> tuple[dict[str, Sequence[Setting]], dict[str, BrokerError]]:
        """The same, and the topics whose settings this user may not see, or that do not exist, even after
        `propagation_ms` of asking again. Raises other errors."""
        names = [*dict.fromkeys(topics)]
        resources = [{"resource_type": _TOPIC, "resource_name": name, "configuration_keys": None} for name in names]
        if not resources:
            return {}, {}
        patience_ms = self._caller.now_ms() + propagation_ms

        def attempt(
            left_ms: float,
        ) -> tuple[dict[str, Sequence[Setting]], dict[str, BrokerError]]:
            pending = self._caller.send_any(DESCRIBE_CONFIGS, {"resources": resources}, left_ms)
            self._caller.wait(pending)
            late = self._caller.now_ms() >= patience_ms
            found: dict[str, Sequence[Setting]] = {}
            refused: dict[str, BrokerError] = {}
            for row in pending.result()["results"]:
                name = row["resource_name"]
                try:
                    with self._caller.reading(DESCRIBE_CONFIGS):
                        checked(row, DESCRIBE_CONFIGS.name)
                except (AuthorizationFailed, UnknownTopicOrPartition) as error:
                    if isinstance(error, UnknownTopicOrPartition) and not late:
                        raise
                    refused[name] = error
                else:
                    found[name] = sorted(map(_setting, row["configs"]), key=lambda each: each.name)
            unnamed = [name for name in names if name not in found and name not in refused]
            if unnamed:
                raise ProtocolError(f"{DESCRIBE_CONFIGS.name}: no answer for {few(unnamed)}")
            return found, refused

        return self._caller.retrying(DESCRIBE_CONFIGS.name, attempt)

    def change_settings(self, topic: str, changes: Mapping[str, str | None], *, validate_only: bool = False) -> None:
        """Change single settings, the others stay; None: back to the brokers' default. Raises InvalidConfig.
        `validate_only`: only ask whether the brokers would."""
        api = INCREMENTAL_ALTER_CONFIGS
        configs: Sequence[Fields] = [
            {"name": name, "config_operation": _DELETE if value is None else _SET, "value": value}
            for name, value in changes.items()
        ]
        if not self._caller.supports(api) and self._caller.supports(ALTER_CONFIGS):
            api, configs = ALTER_CONFIGS, self._changed(topic, changes)
        resources = [{"resource_type": _TOPIC, "resource_name": topic, "configs": configs}]
        self._caller.call_any(api, {"resources": resources, "validate_only": validate_only})

    def _changed(self, topic: str, changes: Mapping[str, str | None]) -> Sequence[Fields]:
        """All settings that the topic has of its own, with these changes: AlterConfigs puts others back to the default.

        A change that another client makes meanwhile is lost. Raises KafkaSourceError for a value that nobody shows.
        """
        own = {each.name: each.value for each in self.settings([topic])[topic] if each.source == "topic"}
        hidden = [name for name, value in own.items() if value is None and name not in changes]
        if hidden:
            raise KafkaSourceError(
                f"the brokers can only replace all settings of topic {topic!r} at once, and do not show the value of "
                f"{few(hidden)}: give it, too"
            )
        return [{"name": name, "value": value} for name, value in {**own, **changes}.items() if value is not None]


def _may_pass(refusal: BrokerError) -> bool:
    """Whether the controller may give another answer."""
    return refusal.retriable and not isinstance(refusal, UnknownTopicOrPartition)


def _warn_of_left_out(codes: Mapping[str, int]) -> None:
    """Warn of the topics with these error codes."""
    if codes:
        reasons = ", ".join(sorted({error_for(code).name for code in codes.values()}))
        names = few(sorted(codes))
        log.warning("topics left out of the list, as a broker reports an error for them (%s): %s", reasons, names)


def _setting(row: Fields) -> Setting:
    source = row.get("config_source", -1)
    if source < 0:  # version 0
        where = "default" if row.get("is_default") else "topic"
    else:
        where = "topic" if source == _DYNAMIC_TOPIC else "default" if source == _DEFAULT else "broker"
    return Setting(row["name"], row["value"], where)
