"""The ids of a mirror's clusters, asked when it starts. Origin headers name clusters by their ids."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from kafkasource import options
from kafkasource.errors import BootstrapFailed, DeadlineExceeded
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.mirror.plan import Route
from kafkasource.sink.clusters import targets

log = logging.getLogger("kafkasource.mirror")


def cluster_ids(routes: Iterable[Route]) -> dict[str, str | None]:
    """Ask all clusters at once for their ids. None for brokers before 0.10.1, which have no id. Blocks.

    Raises the error of a cluster that cannot be reached, unless it is only a target with `onSlowCluster` = discard.
    """
    clients: dict[str, Mapping[str, str]] = {}
    needed: set[str] = set()
    for route in routes:
        clients |= route.clients
        by_name = targets.parse(dict(route.write)).by_name
        needed |= {route.source, *(name for name, target in by_name.items() if target.policy != "discard")}
    with ThreadPoolExecutor(max_workers=len(clients)) as threads:
        found = {name: threads.submit(_cluster_id, name, given, name in needed) for name, given in clients.items()}
    return {name: future.result() for name, future in found.items()}


def cluster_id(client: Mapping[str, str]) -> str | None:
    """Asks for one, with these options. Raises KafkaSourceError."""
    with Cluster(ClientConfig.from_options(options.parse(dict(client), "source"))) as cluster:
        return cluster.brokers().cluster_id


def _cluster_id(name: str, client: Mapping[str, str], needed: bool) -> str | None:
    try:
        return cluster_id(client)
    except (BootstrapFailed, DeadlineExceeded) as error:
        if needed:
            raise
        log.warning(
            "cluster %s cannot be reached, so its id is not known. Until the mirror starts again, it writes records "
            "that came from there back to it: %s",
            name,
            error,
        )
        return None
