"""A real Apache Kafka, and a schema registry, for the demo, tests and users' own tests: no docker, only Java and the
Ivy inside pyspark."""

from kafkasource.testing.broker.cluster import Broker
from kafkasource.testing.broker.errors import BrokerNotOurs, BrokerStartFailed, RegistryStartFailed
from kafkasource.testing.broker.jvm.jars import JarsNotResolved, cache_dir, kafka_jars, resolve_jars
from kafkasource.testing.broker.registry.registry import Registry
from kafkasource.testing.broker.releases import DEFAULT_VERSION
from kafkasource.testing.broker.security.acls import Acl
from kafkasource.testing.broker.security.settings import Kerberos, Listener, Security

__all__ = [
    "DEFAULT_VERSION",
    "Acl",
    "Broker",
    "BrokerNotOurs",
    "BrokerStartFailed",
    "JarsNotResolved",
    "Kerberos",
    "Listener",
    "Registry",
    "RegistryStartFailed",
    "Security",
    "cache_dir",
    "kafka_jars",
    "resolve_jars",
]
