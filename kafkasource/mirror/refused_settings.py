"""Creates and changes topics of one target without the settings that the target refuses.

Kafka 4 no longer knows `message.format.version`, a cluster without tiered storage refuses `remote.storage.enable`, an
older release does not know later settings. A broker refuses a topic for one such setting, and does not say which one in
a form to rely on. So this module tries the settings one by one (`validate_only`) and leaves out those that are refused,
with one warning for each. The topic gets the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from kafkasource.errors import BrokerError, InvalidConfig, UnsupportedApiVersion
from kafkasource.kafka.cluster.topics import Topics

log = logging.getLogger("kafkasource.mirror")

_Value = TypeVar("_Value", str, str | None)


class WillingTopics:
    """One flow's topics at its target. For one thread at a time."""

    def __init__(self, flow: str, target: str, topics: Topics) -> None:
        self._flow, self._target = flow, target
        self._topics = topics
        self._anywhere: dict[tuple[str, str | None], BrokerError] = {}  # (setting, value) that no topic may have
        self._warned: set[tuple[str, str, str | None]] = set()  # (topic, setting, value)

    def create(self, topic: str, partitions: int, replication_factor: int, settings: Mapping[str, str]) -> None:
        """Raises TopicAlreadyExists, and errors that are not about settings."""

        def attempt(configs: Mapping[str, str], *, validate_only: bool = False) -> None:
            self._topics.create(
                [topic],
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
                validate_only=validate_only,
            )

        def refused(configs: Mapping[str, str]) -> BrokerError | None:
            try:
                attempt(configs, validate_only=True)
            except InvalidConfig as error:
                return error
            return None

        wanted = self._without_known(topic, settings)
        try:
            attempt(wanted)
            return
        except InvalidConfig:
            if not wanted:
                raise
        taken, alone = self._taken(topic, wanted, refused)
        self._anywhere.update({(name, wanted[name]): error for name, error in alone.items() if name not in taken})
        attempt(taken)

    def change(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Set them. None: back to the brokers' default. Settings that were refused are tried again only beside others:
        some are valid only together."""

        def refused(changes: Mapping[str, str | None]) -> BrokerError | None:
            try:
                self._topics.change_settings(topic, changes, validate_only=True)
            except InvalidConfig as error:
                return error
            return None

        wanted = self._without_known(topic, changes)
        if all((topic, name, value) in self._warned for name, value in wanted.items()):
            return
        try:
            if refused(wanted) is not None:
                wanted, _ = self._taken(topic, wanted, refused)
            if wanted:
                self._topics.change_settings(topic, wanted)
        except UnsupportedApiVersion:
            log.warning(
                "flow %s: the brokers cannot change settings, so topic %s at %s stays without %s",
                self._flow,
                topic,
                self._target,
                ", ".join(f"{name}={value}" for name, value in wanted.items()),
            )

    def _taken(
        self, topic: str, wanted: Mapping[str, _Value], refused: Callable[[Mapping[str, _Value]], BrokerError | None]
    ) -> tuple[dict[str, _Value], dict[str, BrokerError]]:
        """Divide `wanted` into settings that the target takes together and settings that it refuses. Warns of the
        latter."""
        alone = {name: error for name, value in wanted.items() if (error := refused({name: value})) is not None}
        taken: dict[str, _Value] = {}
        for name in sorted(wanted, key=alone.__contains__):  # some are valid only together
            tried = {**taken, name: wanted[name]}
            error = refused(tried)
            if error is None:
                taken = tried
            else:
                self._left_out(topic, name, wanted[name], error)
        return taken, alone

    def _without_known(self, topic: str, settings: Mapping[str, _Value]) -> dict[str, _Value]:
        for name, value in settings.items():
            error = self._anywhere.get((name, value))
            if error is not None:
                self._left_out(topic, name, value, error)
        return {name: value for name, value in settings.items() if (name, value) not in self._anywhere}

    def _left_out(self, topic: str, name: str, value: str | None, error: BrokerError) -> None:
        if (topic, name, value) in self._warned:
            return
        self._warned.add((topic, name, value))
        log.warning(
            "flow %s: cluster %s refuses the setting %s=%s of topic %s; the mirror continues without this setting: %s",
            self._flow,
            self._target,
            name,
            value,
            topic,
            error,
        )
