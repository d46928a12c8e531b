"""The one schema registry that `pykafka registry start` leaves running: `registry.json` in the cache folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass

from kafkasource.errors import KafkaSourceError
from kafkasource.testing.broker.left_running import LeftRunning, end, is_ours
from kafkasource.testing.broker.registry.app import VERSION
from kafkasource.testing.broker.registry.registry import Registry

USUAL_PORT = 8081  # of schema registries, in Confluent's documentation and in ours


@dataclass(frozen=True)
class DetachedRegistry:
    url: str
    version: str
    pid: int  # of its supervisor
    folder: str
    bootstrap_servers: str | None = None  # of the Kafka that keeps its schemas; None: they are in memory

    def __post_init__(self) -> None:
        int(self.pid)  # ValueError for a file that is not ours

    @classmethod
    def of(cls, registry: Registry) -> DetachedRegistry:
        return cls(registry.url, VERSION, registry.pid, str(registry.folder), registry.kept_in)

    @property
    def running(self) -> bool:
        return is_ours(self.pid, self.folder)

    @property
    def title(self) -> str:
        return f"Apicurio {self.version}"

    @property
    def address(self) -> str:
        return self.url

    @property
    def data(self) -> str:
        if self.bootstrap_servers is None:
            return "its schemas are forgotten"
        return f"its schemas stay in the Kafka at {self.bootstrap_servers}"

    def end(self) -> None:
        end([self.pid], self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


_LEFT = LeftRunning("registry", DetachedRegistry)
status, stop = _LEFT.status, _LEFT.stop


def start(
    port: int | None = None, bootstrap_servers: str | None = None, starting: Callable[[], None] = lambda: None
) -> tuple[DetachedRegistry, bool]:
    """The running registry, and whether it ran already (then the arguments do not count). Waits until it is ready.

    `starting` is called before it starts one.
    """
    registry = Registry(port, preferred_port=USUAL_PORT, bootstrap_servers=bootstrap_servers)
    if registry.existing:
        raise KafkaSourceError(
            f"SCHEMA_REGISTRY_URL={registry.url} names an existing registry: unset it to start a registry here"
        )

    return _LEFT.start(registry, DetachedRegistry.of, lambda running: None, starting)
