"""A real Apache Kafka, and a schema registry, for the demo, tests and users' own tests: no docker, only Java and the
Ivy inside pyspark."""

from kafkasource.broker.cluster import Broker
from kafkasource.broker.errors import BrokerNotOurs, BrokerStartFailed, RegistryStartFailed
from kafkasource.broker.jvm.jars import JarsNotResolved, cache_dir, jvm_connector_jars, kafka_jars, resolve_jars
from kafkasource.broker.registry.registry import Registry
from kafkasource.broker.releases import DEFAULT_VERSION
from kafkasource.broker.security.acls import Acl
from kafkasource.broker.security.settings import Kerberos, Listener, Security

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
    "jvm_connector_jars",
    "kafka_jars",
    "resolve_jars",
]
