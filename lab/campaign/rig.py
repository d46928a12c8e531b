"""Three brokers, each behind a proxy that harms bytes: clients and brokers reach a broker through its proxy only."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, TypeVar

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from proxy_frames import FrameProxy

from kafkasource.testing.broker import Broker
from kafkasource.testing.broker.properties import free_ports
from kafkasource.testing.broker.security.settings import Security

VERSIONS = ("3.9.2", "4.3.1")
HEAP_MB = 320
B = TypeVar("B", bound="Brokers")


class AnyProxy(AbstractContextManager[Any], Protocol):
    """Stands before a broker. It is told where the broker listens before it is entered."""

    upstream: tuple[str, int] | None

    @property
    def address(self) -> tuple[str, int]: ...


class Brokers:
    """Three brokers, each behind one of `proxies`."""

    def __init__(
        self,
        version: str,
        proxies: Sequence[AnyProxy],
        properties: Mapping[str, object] = MappingProxyType({}),
        security: Security | None = None,
    ) -> None:
        """With `security` the proxies are before its listener, and `servers` leads to that of the nodes themselves."""
        self.proxies = proxies
        ports = free_ports(3)
        for proxy, port in zip(self.proxies, ports, strict=True):
            proxy.upstream = ("127.0.0.1", port)
        self.broker = Broker(
            version=version,
            nodes=3,
            ports=ports,
            advertised_ports=[proxy.address[1] for proxy in self.proxies],
            use_existing=False,
            heap_mb=HEAP_MB,
            properties=properties,
            security=security,
        )
        self._secured = security is not None
        self._versions = [version] * len(ports)
        self.whole = threading.Lock()  # whoever holds it changes the brokers, or needs them unchanged
        self._ends = ExitStack()

    def __enter__(self: B) -> B:
        with ExitStack() as ends:
            for proxy in self.proxies:
                ends.enter_context(proxy)
            ends.enter_context(self.broker)
            self._ends = ends.pop_all()
        self.admin = AdminClient({"bootstrap.servers": self.servers, "socket.timeout.ms": 10000, "log_level": 0})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.__exit__(kind, error, trace)  # after Ctrl-C nobody waits for brokers that flush their logs

    @property
    def servers(self) -> str:
        return self.broker.secured.bootstrap_servers("PLAINTEXT") if self._secured else self.broker.bootstrap_servers

    def login(self) -> dict[str, str]:
        """Options of a client that comes to the listener with `security`. Empty without it."""
        found = self.broker.client_properties() if self._secured else {}
        return {f"kafka.{name}": text for name, text in found.items()}

    def create(self, topics: dict[str, int]) -> None:
        for made in self.admin.create_topics([NewTopic(name, count, 3) for name, count in topics.items()]).values():
            made.result(60)

    def partitions(self, topic: str) -> int:
        """0: the brokers do not know it yet."""
        found = self.admin.list_topics(topic, timeout=30).topics[topic]
        return 0 if found.error else len(found.partitions)

    def add_partition(self, topic: str) -> int:
        """How many it has then."""
        count = self.partitions(topic) + 1
        self.admin.create_partitions([NewPartitions(topic, count)])[topic].result(30)
        return count

    def upgrade(self, node: int) -> bool:
        """To the newest version, in order. False: it has that."""
        if self._versions[node - 1] == VERSIONS[-1]:
            return False
        self._versions[node - 1] = VERSIONS[-1]
        self.broker.restart(node, VERSIONS[-1])
        return True


class Rig(Brokers):
    """The brokers of a campaign, whose proxies harm all that goes to and from a node."""

    def __init__(self, version: str) -> None:
        self.frame_proxies = [FrameProxy() for _ in range(3)]
        super().__init__(version, self.frame_proxies)

    def heal(self) -> None:
        """The network works again."""
        for proxy in self.frame_proxies:
            proxy.reset_all()
            proxy.blackhole = proxy.refuse = False
            proxy.delay_s, proxy.bytes_per_s, proxy.from_broker_bytes_per_s = 0.0, None, None
            proxy.reset_all()
