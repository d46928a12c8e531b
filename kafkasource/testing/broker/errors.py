"""Errors of brokers and registries that we start."""

from __future__ import annotations

from kafkasource.errors import KafkaSourceError


class BrokerStartFailed(KafkaSourceError):
    """Kafka did not come up; the text ends with the last lines it printed."""


class RegistryStartFailed(KafkaSourceError):
    """The schema registry did not come up; the text ends with the last lines it printed."""


class BrokerNotOurs(KafkaSourceError):
    """Asked to kill or restart a node of the existing cluster that KAFKA_BOOTSTRAP_SERVERS names."""
