"""The one broker that `pykafka broker start` leaves running: `broker.json` and `broker.lock` in the cache folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafkasource.errors import KafkaSourceError
from kafkasource.testing.broker.cluster import Broker
from kafkasource.testing.broker.left_running import LeftRunning, end, is_ours
from kafkasource.testing.broker.releases import DEFAULT_VERSION
from kafkasource.testing.broker.security.settings import Security

USUAL_PORT = 9092  # of Kafka, in its own documentation and in ours; the nodes after the first take the next ones


@dataclass(frozen=True)
class DetachedBroker:
    bootstrap_servers: str
    version: str
    pids: tuple[int, ...]  # of the nodes' supervisors
    folder: str
    keeps_data: bool  # --data: the folder stays when the broker is stopped
    zookeeper_pid: int | None = None  # before KRaft; ended when the nodes are
    client_properties: str | None = None  # with security: a file that says how clients connect

    def __post_init__(self) -> None:
        object.__setattr__(self, "pids", tuple(map(int, self.pids)))  # JSON has a list

    @classmethod
    def of(cls, broker: Broker) -> DetachedBroker:
        return cls(
            bootstrap_servers=broker.bootstrap_servers,
            version=broker.version,
            pids=tuple(broker.pids),
            folder=str(broker.folder),
            keeps_data=broker.keeps_data,
            zookeeper_pid=broker.zookeeper_pid,
            client_properties=str(broker.secured.client_properties_file) if broker.is_secured else None,
        )

    @property
    def running(self) -> bool:
        """Whether every node runs, and their ZooKeeper."""
        return all(is_ours(pid, self.folder) for pid in (*self.pids, *self._zookeeper_pids))

    @property
    def title(self) -> str:
        return f"Kafka {self.version}"

    @property
    def address(self) -> str:
        return self.bootstrap_servers

    @property
    def data(self) -> str:
        """The fate of the data at the end, for people."""
        return f"its data stays in {self.folder}" if self.keeps_data else "its data is removed"

    def end(self) -> None:
        """End it: in order when its data is kept, else at once."""
        for pids in (self.pids, self._zookeeper_pids):
            end(pids, self.folder, in_order=self.keeps_data)
        if not self.keeps_data:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _zookeeper_pids(self) -> tuple[int, ...]:
        return () if self.zookeeper_pid is None else (self.zookeeper_pid,)


_LEFT = LeftRunning("broker", DetachedBroker)
status, stop = _LEFT.status, _LEFT.stop


def start(
    version: str | None = None,
    nodes: int | None = None,
    ports: Sequence[int] | None = None,
    properties: Mapping[str, object] | None = None,
    data: str | None = None,
    security: Security | None = None,
    starting: Callable[[], None] = lambda: None,
) -> tuple[DetachedBroker, bool]:
    """The running broker, and whether it ran already. Waits until it is ready. Calls `starting` before it starts one.

    An argument of None accepts every running broker; a new broker has one node of DEFAULT_VERSION. Raises
    KafkaSourceError if the running broker differs from the arguments.
    """
    usual = range(USUAL_PORT, USUAL_PORT + (nodes or 1))
    broker = Broker(
        version or DEFAULT_VERSION, nodes or 1, ports, properties, data, preferred_ports=usual, security=security
    )
    if broker.existing:
        raise KafkaSourceError(
            f"KAFKA_BOOTSTRAP_SERVERS={broker.bootstrap_servers} names an existing cluster: "
            "unset it to start a broker here"
        )

    def require_same(running: DetachedBroker) -> None:
        used = [int(address.rpartition(":")[2]) for address in running.bootstrap_servers.split(",")]
        differs = {
            "--kafka-version": version not in (None, running.version),
            "--nodes": nodes not in (None, len(running.pids)),
            "--port": ports is not None and list(ports) != used,
            "--data": data is not None and Path(data).absolute() != Path(running.folder),
            "--security": security is not None and running.client_properties is None,
        }
        options = " and ".join(name for name, other in differs.items() if other)
        if options:
            raise KafkaSourceError(
                f"Kafka {running.version} is already running at {running.bootstrap_servers}, not as {options} asks "
                "for: end it with `pykafka broker stop`, or leave the option out"
            )

    return _LEFT.start(broker, DetachedBroker.of, require_same, starting)
