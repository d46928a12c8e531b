"""The one schema registry that `pykafka registry start` leaves running: `registry.json` in the cache folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass

from kafkasource.errors import KafkaSourceError
from kafkasource.testing.broker.left_running import StateFile, end, is_ours
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

    @property
    def running(self) -> bool:
        return is_ours(self.pid, self.folder)


_STATE = StateFile("registry", DetachedRegistry)


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
    with _STATE.locked():
        before = status()
        if before is not None and before.running:
            return before, True
        if before is not None:
            _end(before)
        starting()
        with registry:
            state = DetachedRegistry(registry.url, VERSION, registry.pid, str(registry.folder), bootstrap_servers)
            _STATE.write(state)
            registry.let_go()
        return state, False


def stop() -> DetachedRegistry | None:
    """End the registry; None when there was none."""
    with _STATE.locked():
        state = status()
        if state is not None:
            _end(state)
        return state


def status() -> DetachedRegistry | None:
    """The registry that was started and not stopped; `running` says whether it still runs."""
    return _STATE.read()


def _end(state: DetachedRegistry) -> None:
    end([state.pid], state.folder)
    shutil.rmtree(state.folder, ignore_errors=True)
    _STATE.remove()
