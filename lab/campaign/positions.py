"""Where a reader that was killed or gave up goes on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from lab.campaign.checker import Record


def after(records: Iterable[Record]) -> dict[int, int]:
    """The next offset of each partition, by what was read of it in order."""
    return {record.partition: record.offset + 1 for record in records}


def starting_offsets(servers: str, topic: str, positions: Mapping[int, int]) -> str:
    """The option's text: a partition without a position begins at its beginning. Asks a broker."""
    if not positions:
        return "earliest"
    with Cluster(ClientConfig.of(servers)) as cluster:
        known = cluster.topics.describe([topic])[topic]
    partitions = positions if known is None else known.partitions
    return json.dumps({topic: {str(partition): positions.get(partition, -2) for partition in partitions}})
