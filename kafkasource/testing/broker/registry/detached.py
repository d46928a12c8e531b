"""The one schema registry that `pykafka registry start` leaves running. A state file in the cache finds it again.

<cache>/registry.lock    held while it is started or stopped: of two starts, the second finds a registry
<cache>/registry.json    the state below; written when it is ready, renamed into place
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from kafkasource.errors import KafkaSourceError
from kafkasource.testing.broker.detached import await_end, is_ours, send_signal
from kafkasource.testing.broker.jvm.jars import cache_dir, locked
from kafkasource.testing.broker.node import TERMINATE_TIMEOUT_S
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

    @property
    def running(self) -> bool:
        return is_ours(self.pid, self.folder)


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
    with locked(cache_dir() / "registry.lock"):
        before = status()
        if before is not None and before.running:
            return before, True
        if before is not None:
            _end(before)
        starting()
        with registry:
            state = DetachedRegistry(registry.url, VERSION, registry.pid, str(registry.folder), bootstrap_servers)
            _write(state)
            registry.let_go()
        return state, False


def stop() -> DetachedRegistry | None:
    """End the registry; None when there was none."""
    with locked(cache_dir() / "registry.lock"):
        state = status()
        if state is not None:
            _end(state)
        return state


def status() -> DetachedRegistry | None:
    """The registry that was started and not stopped; `running` says whether it still runs.

    None for an unreadable file.
    """
    try:
        fields = json.loads(_state_file().read_text())
        return DetachedRegistry(**{**fields, "pid": int(fields["pid"])})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _end(state: DetachedRegistry) -> None:
    if state.running:
        send_signal(os.killpg, state.pid, signal.SIGKILL)  # the supervisor leads the group of its JVM
        await_end([state.pid], state.folder, TERMINATE_TIMEOUT_S)
    shutil.rmtree(state.folder, ignore_errors=True)
    _state_file().unlink(missing_ok=True)


def _state_file() -> Path:
    return cache_dir() / "registry.json"


def _write(state: DetachedRegistry) -> None:
    partial = _state_file().with_suffix(".json.new")
    partial.write_text(json.dumps(asdict(state), indent=1) + "\n")
    partial.replace(_state_file())
