"""A real Apache Kafka for the demo, tests and users' own tests: no docker, only Java and the Ivy inside pyspark."""

from kafkasource.broker.cluster import DEFAULT_VERSION, Broker, BrokerNotOurs, BrokerStartFailed
from kafkasource.broker.jars import JarsNotResolved, cache_dir, jvm_connector_jars, kafka_jars, resolve_jars

__all__ = [
    "DEFAULT_VERSION",
    "Broker",
    "BrokerNotOurs",
    "BrokerStartFailed",
    "JarsNotResolved",
    "cache_dir",
    "jvm_connector_jars",
    "kafka_jars",
    "resolve_jars",
]
