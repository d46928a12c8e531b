"""Kafka before KRaft: a ZooKeeper beside the brokers, run from the same jars, and the configuration of both.

    <folder>/zookeeper.properties, zookeeper.log, zookeeper/    its configuration, what it printed, its data
    <folder>/log4j.properties                                   of both: warnings to stdout, which is their log file

A broker registers in ZooKeeper. The registration outlives a killed broker by the session's timeout, and ZooKeeper
refuses a broker that starts again sooner. ZooKeeper stops last, because a stopping broker waits for it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafkasource.testing.broker.errors import BrokerStartFailed
from kafkasource.testing.broker.jvm.command_lines import Jvm
from kafkasource.testing.broker.node import NodeProcess, tail, telling
from kafkasource.testing.broker.properties import HOST, RETENTION_HOURS, NodePorts, render
from kafkasource.testing.broker.security.settings import SCRAM, Security

MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
HEAP_MB = 64
SESSION_TIMEOUT_MS = 3000  # as long as KRaft's broker.session.timeout.ms here
_POLL_S = 0.05
_TICK_MS = 1000  # a session lasts 2 ticks at least

LOG4J = """\
log4j.rootLogger=WARN, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def zookeeper_properties(port: int, data: Path) -> dict[str, str]:
    return {
        "dataDir": str(data),
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "maxClientCnxns": "0",  # no limit
        "tickTime": str(_TICK_MS),
        "4lw.commands.whitelist": "srvr,dump",  # from 3.5 on ZooKeeper refuses dump otherwise
        "admin.enableServer": "false",  # it would take port 8080
    }


def legacy_server_properties(
    release: tuple[int, ...],
    node_id: int,
    ports: Sequence[NodePorts],
    zookeeper_port: int,
    data: Path,
    extra: Mapping[str, object],
) -> dict[str, str]:
    """A node (numbered from 1) of a cluster of Kafka `release`, 0.8 to 3.2; `extra` has the last word."""
    own, replicas = ports[node_id - 1], min(len(ports), 3)
    in_sync = max(1, replicas - 1)
    largest = 10 * 1024 * 1024
    properties: dict[str, object] = {
        "broker.id": node_id,
        "log.dirs": data,
        "zookeeper.connect": f"{HOST}:{zookeeper_port}",
        "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": 4,
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "num.partitions": 4,  # for topics that brokers create when a client asks for them: no API creates topics
        "delete.topic.enable": "true",
        "message.max.bytes": largest,
        "replica.fetch.max.bytes": largest + 1024,  # a smaller one would stop replication at a large message
        "log.retention.hours": RETENTION_HOURS,
        "log.cleaner.enable": "false",  # it takes 128 MiB at the start
    }
    if release < (0, 9):
        properties |= {
            "port": own.client,
            "host.name": HOST,
            "advertised.host.name": HOST,
            "advertised.port": own.advertised,
        }
    else:
        properties |= {
            "listeners": f"PLAINTEXT://{HOST}:{own.client}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{own.advertised}",
        }
    if release >= (0, 11):
        properties |= {
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "transaction.state.log.num.partitions": 4,
            "group.initial.rebalance.delay.ms": 0,
        }
    return {name: str(value) for name, value in (properties | dict(extra)).items()}


class ZooKeeper:
    """The ZooKeeper of one cluster: its process, and the brokers that are registered in it."""

    def __init__(self, process: NodeProcess, port: int, log: Path) -> None:
        self._process, self.port, self._log = process, port, log

    @classmethod
    def start(cls, jvm: Jvm, port: int, remove_after_crash: Path | None) -> ZooKeeper:
        """Start one in the cluster's folder; `await_ready` waits for it."""
        (jvm.folder / "log4j.properties").write_text(LOG4J)
        properties, log = jvm.folder / "zookeeper.properties", jvm.folder / "zookeeper.log"
        properties.write_text(render(zookeeper_properties(port, jvm.folder / "zookeeper")))
        process = NodeProcess(jvm.command(MAIN_CLASS, str(properties), heap_mb=HEAP_MB), log, remove_after_crash)
        return cls(process, port, log)

    @property
    def pid(self) -> int:
        """The pid of its supervisor."""
        return self._process.pid

    def await_ready(self, timeout_s: float) -> str | None:
        """Wait until it serves; otherwise what it said before it ended or the time was up."""
        deadline = time.monotonic() + timeout_s
        while not self._serves():
            if self._process.exit_code is not None or time.monotonic() > deadline:
                return tail(self._log) or "it logged nothing"
            time.sleep(_POLL_S)
        return None

    def add_scram_users(self, jvm: Jvm, security: Security, timeout_s: float) -> None:
        """Write the credentials of SCRAM into ZooKeeper by Kafka's own tool, before the brokers start."""
        for user, password in security.users.items():
            credentials = [f"{name}=[password={password}]" for name in SCRAM if name in security.mechanisms]
            if not credentials:
                return
            place = ("--zookeeper", f"{HOST}:{self.port}", "--entity-type", "users", "--entity-name", user)
            change = ("--alter", "--add-config", ",".join(credentials))
            done = jvm.run("kafka.admin.ConfigCommand", *place, *change, timeout_s=timeout_s)
            if done.returncode != 0:
                raise BrokerStartFailed(f"cannot add the SCRAM user {user!r}: {telling(done.stdout + done.stderr)}")

    def _serves(self) -> bool:
        """Whether ZooKeeper has loaded its data (`ruok` has an answer earlier)."""
        try:
            return ask(self.port, "srvr").startswith("Zookeeper version")
        except OSError:
            return False

    def registered(self, node_id: int) -> bool:
        """Whether this broker is registered. `dump` lists the registrations of all sessions."""
        return f"/brokers/ids/{node_id}" in ask(self.port, "dump").split()

    def await_free(self, node_id: int, timeout_s: float) -> bool:
        """Wait until the registration of a broker that is gone has ended; False: not in time."""
        deadline = time.monotonic() + timeout_s
        while self.registered(node_id):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def end(self, in_order: bool) -> None:
        """End it. Its brokers must have ended."""
        if in_order:
            self._process.terminate()
        else:
            self._process.kill()

    def let_go(self) -> None:
        self._process.let_go()


def ask(port: int, word: str, timeout_s: float = 5.0) -> str:
    """The answer to one of ZooKeeper's four-letter words; OSError when it does not listen."""
    with socket.create_connection((HOST, port), timeout_s) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(word.encode())
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer.decode(errors="replace")
