"""Three brokers of Kafka 4.3.1 in three racks that tests of a whole run share, and may hurt: starting them costs more
processor time than most of these tests.

All files that use them run in one process (run_rules.py).
"""

import time

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.testing.broker import Broker

RACKS = ["a", "b", "c"]  # of the nodes 1, 2, 3
PROPERTIES = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "log.cleaner.backoff.ms": 100,  # for compaction to begin at once
}
HEALING_S = 60


def not_started() -> Broker:
    return Broker("4.3.1", nodes=3, racks=RACKS, properties=PROPERTIES, use_existing=False)


def heal(brokers: Broker) -> None:
    """Start what a test has killed, and wait until every replica is in sync again."""
    for node in (1, 2, 3):
        if node not in brokers.running:
            brokers.restart(node)
    deadline = time.monotonic() + HEALING_S
    with Cluster(ClientConfig.of(brokers.bootstrap_servers)) as cluster:
        while behind := [
            (topic.name, partition.partition)
            for topic in cluster.topics.list()
            for partition in topic.partitions.values()
            if len(partition.in_sync_replicas) < len(partition.replicas)
        ]:
            assert time.monotonic() < deadline, f"replicas of {behind} are out of sync after {HEALING_S} s"
            time.sleep(0.05)
