"""The cluster: the way to its bootstrap servers, each broker at each of its addresses, and the user's permissions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

from kafkasource.errors import BootstrapFailed, ConnectFailed, KafkaSourceError
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.visit import API_VERSIONS, AddressCheck
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.metadata import metadata_body
from kafkasource.kafka.network.pending import address_of
from kafkasource.kafka.protocol.apis import FETCH, METADATA
from kafkasource.kafka.security.quoting import printable
from kafkasource.options.spelling import many
from kafkasource.tools.cli.arguments import client_config, reach
from kafkasource.tools.cli.doctor.addresses import ANSWER_MS, LOCAL, REMEDIES, of_address, visits
from kafkasource.tools.cli.doctor.finding import FAILED, OK, WARNING, Finding
from kafkasource.tools.cli.doctor.permissions import permission_findings
from kafkasource.tools.cli.doctor.user import user_findings
from kafkasource.types import Node

# The newest version of Fetch that a release serves: how old a broker is, seen from outside.
_FETCH_VERSIONS = (
    (17, "3.9 or newer"),
    (16, "3.7 or 3.8"),
    (15, "3.5 or 3.6"),
    (13, "3.1 to 3.4"),
    (12, "2.7 to 3.0"),
    (11, "2.3 to 2.6"),
    (10, "2.1 or 2.2"),
    (8, "2.0"),
    (7, "1.1"),
    (4, "0.11 or 1.0"),
    (2, "0.10"),
    (1, "0.9"),
    (0, "0.8"),
)


def cluster_findings(arguments: argparse.Namespace, servers: str) -> Iterator[Finding]:
    try:
        config = client_config(arguments)
    except KafkaSourceError as error:
        yield Finding(FAILED, "cluster", str(error), "correct the option")
        return
    usable = True
    for finding in user_findings(config):
        usable = usable and finding.level != FAILED
        yield finding
    if not usable:  # no connection can be made with what the options name
        return
    seen: dict[tuple[str, int], list[AddressCheck]] = {}
    yield from _bootstrap(config, seen)
    if not _any_reached(seen):
        return
    try:
        reach(config)
    except BootstrapFailed as error:
        yield from _not_kafka(error, seen)
        return
    except KafkaSourceError as error:
        yield Finding(FAILED, "cluster", str(error), REMEDIES[API_VERSIONS])
        return
    with Cluster(config) as cluster:
        known = cluster.brokers()
        name = printable(known.cluster_id or "without an id")
        yield Finding(OK, "cluster", f"{name}, {many(len(known.nodes), 'broker')}, by {servers}")
        local = {host for host, _ in config.bootstrap_servers} <= LOCAL
        for node in known.nodes:
            what, place = f"broker {node.node_id}", (node.host, node.port)
            yield _broker(cluster, node, local)
            host_visits = seen.get(place) or visits(config, *place)
            for visit in host_visits:
                yield from of_address(what, visit, alone=not any(other.error is None for other in host_visits))
        yield from permission_findings(cluster, arguments.topics, arguments.groups, arguments.exactly_once)


def _bootstrap(config: ClientConfig, seen: dict[tuple[str, int], list[AddressCheck]]) -> Iterator[Finding]:
    """Problems with the bootstrap servers; the brokers' own addresses follow later. Keeps its visits in `seen`."""
    for place in config.bootstrap_servers:
        seen[place] = visits(config, *place)
    reached = _any_reached(seen)
    for host_visits in seen.values():
        alone = not any(visit.error is None for visit in host_visits)
        for visit in host_visits:
            for finding in of_address("bootstrap", visit, alone):
                if finding.level == OK:
                    continue
                # The job runs if another server answers.
                level = WARNING if reached else finding.level
                yield Finding(level, finding.what, finding.found, finding.remedy)


def _not_kafka(error: BootstrapFailed, seen: dict[tuple[str, int], list[AddressCheck]]) -> Iterator[Finding]:
    """Findings for servers that do not speak Kafka. Without TLS and SASL a visit ends after TCP."""
    reasons = dict(error.attempts)
    for place, host_visits in seen.items():
        reason = reasons.get(address_of(*place), "no answer")
        for visit in host_visits:
            if visit.error is None:
                behind_tcp = replace(visit, stage=API_VERSIONS, error=ConnectFailed(reason))
                yield from of_address("bootstrap", behind_tcp, alone=True)


def _any_reached(seen: dict[tuple[str, int], list[AddressCheck]]) -> bool:
    return any(visit.error is None for host_visits in seen.values() for visit in host_visits)


def _broker(cluster: Cluster, node: Node, local: bool) -> Finding:
    """Check a broker at the address that it advertises, to which all clients must connect."""
    what, where = f"broker {node.node_id}", f"{node.host}:{node.port}"
    remedy = f"the broker advertises {where} (advertised.listeners): it must be an address that clients can reach"
    try:
        cluster.caller.call(node.node_id, METADATA, metadata_body([]), timeout_ms=ANSWER_MS)
        served = cluster.caller.served(FETCH, node.node_id)
    except KafkaSourceError as error:
        return Finding(FAILED, what, str(error), remedy)
    release = next(text for least, text in _FETCH_VERSIONS if served is None or served[1] >= least)
    shown = f"{where}, Kafka {release}" + (f", rack {printable(node.rack)}" if node.rack else "")
    if node.host in LOCAL and not local:
        return Finding(WARNING, what, f"{shown}: only clients on its own machine reach that", remedy)
    return Finding(OK, what, shown)
