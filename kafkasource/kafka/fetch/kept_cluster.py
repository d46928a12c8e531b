"""Reads the rows of a task from the cluster that its process keeps, even if the cluster was set up again since.

A worker outlives many tasks. Its cluster knows the id of the cluster from an earlier query, and ends where another one
answers at the same addresses. A plan that was made since is of the new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kafkasource.errors import ClusterMismatch
from kafkasource.kafka.cluster.cache import shared_cluster
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.fetch.config import FetchSettings
from kafkasource.kafka.fetch.task import fetch
from kafkasource.types import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa


def fetch_kept(
    config: ClientConfig, ranges: Sequence[OffsetRange], settings: FetchSettings
) -> Iterator[pa.RecordBatch]:
    """Fetch as `fetch` does. If the kept cluster ends before any row, start again on a new cluster that has the planned
    topics. Raises ClusterMismatch if it has not."""
    cluster = shared_cluster(config)
    was_kept = cluster.metadata.cluster_id is not None
    rows = fetch(cluster, ranges, settings)
    try:
        first = next(rows, None)
    except ClusterMismatch:
        cluster = shared_cluster(config)
        if not was_kept or not _has_planned(cluster, ranges):
            raise
        rows, first = fetch(cluster, ranges, settings), None
    if first is not None:
        yield first
        first = None  # not held beside what comes next
    yield from rows


def _has_planned(cluster: Cluster, ranges: Sequence[OffsetRange]) -> bool:
    """Brokers before 2.8 have no ids to know the topics by."""
    cluster.topics.describe({one.topic_partition.topic for one in ranges}, propagation_ms=0)
    return all(
        one.topic_id is not None and cluster.metadata.topic_id(one.topic_partition.topic) == one.topic_id
        for one in ranges
    )
