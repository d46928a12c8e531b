"""The configuration of a node: server.properties as a pure function of the cluster's shape and its ports."""

from __future__ import annotations

import random
import socket
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"

# Below the ports that Linux (32768-60999) and macOS (49152-65535) hand to outgoing connections: a client's connection
# cannot take a port while its broker is being restarted.
PORTS = range(20000, 32000)

# Kafka's default deletes records whose timestamps are a week old, even if they were written a moment ago. It looks
# every five minutes, so a test that writes old timestamps would lose its records only now and then.
RETENTION_HOURS = 1_000_000


@dataclass(frozen=True)
class NodePorts:
    client: int  # where clients connect: the first secured listener, else the PLAINTEXT one
    controller: int  # of the KRaft controller; before KRaft the first node's is ZooKeeper's
    advertised: int  # what Metadata says: `client`, or a proxy's port in front of it
    plaintext: int | None = None  # with security: where the nodes themselves and readiness probes connect
    further: tuple[int, ...] = ()  # ports of the secured listeners after the first

    @property
    def unsecured(self) -> int:
        """The port of the PLAINTEXT listener."""
        return self.client if self.plaintext is None else self.plaintext


def server_properties(
    node_id: int, ports: Sequence[NodePorts], data: Path, extra: Mapping[str, object]
) -> dict[str, str]:
    """A node (numbered from 1) of a cluster where each is broker and controller; `extra` has the last word."""
    own, replicas = ports[node_id - 1], min(len(ports), 3)
    in_sync = max(1, replicas - 1)
    properties: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": node_id,
        "controller.quorum.voters": ",".join(f"{n}@{HOST}:{node.controller}" for n, node in enumerate(ports, start=1)),
        "listeners": f"PLAINTEXT://{HOST}:{own.client},CONTROLLER://{HOST}:{own.controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{own.advertised}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": data,
        # Kafka's default of 3 would keep the coordinators from ever coming up on a single node.
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.num.partitions": 4,  # default 50: creating them takes most of the first commit's time
        "transaction.state.log.num.partitions": 4,
        "group.initial.rebalance.delay.ms": 0,  # groups in milliseconds instead of 3 s
        # A killed broker counts as alive for this long (default 9 s): nobody takes over its partitions, and it cannot
        # register again. Shorter would fence brokers on a machine that stalls.
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        "num.partitions": 4,
        "log.retention.hours": RETENTION_HOURS,
        "message.max.bytes": 10 * 1024 * 1024,
    }
    return {name: str(value) for name, value in (properties | dict(extra)).items()}


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read: it may hold passwords."""
    path.touch(mode=0o600)
    path.chmod(0o600)  # the file may be an older one
    path.write_text(text)


def render(properties: Mapping[str, str]) -> str:
    """The text of a properties file for Java, in ISO-8859-1. Line ends, backslashes and spaces stay inside the
    value."""
    return "".join(f"{name}={_escape(value)}\n" for name, value in properties.items())


def _escape(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    units = memoryview(escaped.encode("utf-16-le")).cast("H")
    ascii_only = "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in units)
    return f"\\{ascii_only}" if ascii_only.startswith(" ") else ascii_only


def kafka_uuid() -> str:
    """A new id as Kafka writes them, URL-safe base64 without `=`; never with a leading `-`, which its tools take for an
    option (Kafka's own `Uuid.randomUuid` draws again too)."""
    while (text := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def node_ports(
    nodes: int, wanted: Sequence[int] | None, advertised: Sequence[int] | None, secured: int
) -> list[NodePorts]:
    """Ports for each node: `wanted` ones for clients, free ones for the rest. `secured`: how many such listeners."""
    taken = {*(wanted or ()), *(advertised or ())}
    ports_of_node = 2 + secured  # clients', the controller's; with security PLAINTEXT and the listeners after the first
    spare = [port for port in free_ports(ports_of_node * nodes + len(taken)) if port not in taken]
    clients = list(wanted or spare[:nodes])
    rest = [spare[nodes + n :: nodes] for n in range(nodes)]
    return [
        NodePorts(client, own[0], shown, own[1] if secured else None, tuple(own[2 : 1 + secured]))
        for client, shown, own in zip(clients, advertised or clients, rest, strict=True)
    ]


def free_ports(count: int) -> list[int]:
    """Free ports of HOST. Another process may take one before the broker does; the caller then tries again."""
    ports: set[int] = set()
    while len(ports) < count:
        if is_free(port := random.choice(PORTS)):
            ports.add(port)
    return list(ports)


def is_free(port: int) -> bool:
    """Whether a broker could listen there: one in TIME_WAIT after the last run is free, one with a listener is not."""
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((HOST, port))
        except OSError:
            return False
        return True
