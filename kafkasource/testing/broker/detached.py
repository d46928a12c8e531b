"""The one broker that `pykafka broker start` leaves running. A state file in the cache folder finds it again.

    <cache>/broker.lock    held while the broker is started or stopped: of two starts, the second finds a broker
    <cache>/broker.json    the state below; written when the broker is ready, renamed into place

A pid in the file may belong to another process by now (after a reboot). It is ours only if its command line names the
broker's folder. We send signals to no other process.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kafkasource.errors import KafkaSourceError
from kafkasource.testing.broker.cluster import Broker
from kafkasource.testing.broker.jvm.jars import cache_dir, locked
from kafkasource.testing.broker.node import TERMINATE_TIMEOUT_S
from kafkasource.testing.broker.releases import DEFAULT_VERSION
from kafkasource.testing.broker.security.settings import Security

USUAL_PORT = 9092  # of Kafka, in its own documentation and in ours; the nodes after the first take the next ones


@dataclass(frozen=True)
class Detached:
    """All facts that are needed to find the broker, show it, and end it."""

    bootstrap_servers: str
    version: str
    pids: tuple[int, ...]  # of the nodes' supervisors
    folder: str
    keeps_data: bool  # --data: the folder stays when the broker is stopped
    zookeeper_pid: int | None = None  # before KRaft; ended when the nodes are
    client_properties: str | None = None  # with security: a file that says how clients connect

    @property
    def running(self) -> bool:
        """Whether every node runs, and their ZooKeeper."""
        return all(is_ours(pid, self.folder) for pid in self.pids + self.zookeeper_pids)

    @property
    def zookeeper_pids(self) -> tuple[int, ...]:
        return () if self.zookeeper_pid is None else (self.zookeeper_pid,)


def start(
    version: str | None = None,
    nodes: int | None = None,
    ports: Sequence[int] | None = None,
    properties: Mapping[str, object] | None = None,
    data: str | None = None,
    security: Security | None = None,
    starting: Callable[[], None] = lambda: None,
) -> tuple[Detached, bool]:
    """The running broker, and whether it ran already. Waits until ready. `starting` is called before it starts one.

    None: any will do; a new one then has one node of DEFAULT_VERSION. Raises KafkaSourceError where the one that runs
    is not as asked for.
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
    with locked(cache_dir() / "broker.lock"):
        before = status()
        if before is not None and before.running:
            _require_same(before, version, nodes, ports, data, security)
            return before, True
        if before is not None:
            _end(before)  # some of its nodes may be left
        starting()
        with broker:
            state = Detached(
                bootstrap_servers=broker.bootstrap_servers,
                version=broker.version,
                pids=tuple(broker.pids),
                folder=str(broker.folder),
                keeps_data=data is not None,
                zookeeper_pid=broker.zookeeper_pid,
                client_properties=str(broker.secured.client_properties_file) if security else None,
            )
            _write(state)
            broker.let_go()
        return state, False


def _require_same(
    running: Detached,
    version: str | None,
    nodes: int | None,
    ports: Sequence[int] | None,
    data: str | None,
    security: Security | None,
) -> None:
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
            f"Kafka {running.version} is already running at {running.bootstrap_servers}, not as {options} asks for: end"
            " it with `pykafka broker stop`, or leave the option out"
        )


def stop() -> Detached | None:
    """End the broker (in order when its data is kept, else at once); None when there was none."""
    with locked(cache_dir() / "broker.lock"):
        state = status()
        if state is not None:
            _end(state)
        return state


def status() -> Detached | None:
    """The broker that was started and not stopped; `running` says whether it still runs.

    None for an unreadable file.
    """
    try:
        fields = json.loads(_state_file().read_text())
        return Detached(**{**fields, "pids": tuple(map(int, fields["pids"]))})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _end(state: Detached) -> None:
    for pids in (state.pids, state.zookeeper_pids):
        ours = [pid for pid in pids if is_ours(pid, state.folder)]
        if state.keeps_data:
            for pid in ours:
                send_signal(os.kill, pid, signal.SIGTERM)
            await_end(ours, state.folder, TERMINATE_TIMEOUT_S)
        for pid in ours:
            if is_ours(pid, state.folder):
                send_signal(os.killpg, pid, signal.SIGKILL)  # the supervisor leads the group of its JVM
        await_end(ours, state.folder, TERMINATE_TIMEOUT_S)
    if not state.keeps_data:
        shutil.rmtree(state.folder, ignore_errors=True)
    _state_file().unlink(missing_ok=True)


def await_end(pids: Sequence[int], folder: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while any(is_ours(pid, folder) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)  # they are no children of ours to wait for


def send_signal(send: Callable[[int, int], None], pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        send(pid, number)


def is_ours(pid: int, folder: str) -> bool:
    """Whether a process runs under this pid that was started for this folder; a zombie has no command line any more."""
    proc = Path("/proc", str(pid), "cmdline")
    if Path("/proc/self").exists():
        try:
            command = proc.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return False
    else:  # macOS
        asked = ["ps", "-o", "command=", "-p", str(pid)]
        command = subprocess.run(asked, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    return any(f"{folder}/{name}" in command for name in ("node-", "zookeeper.properties", "registry"))


def _state_file() -> Path:
    return cache_dir() / "broker.json"


def _write(state: Detached) -> None:
    partial = _state_file().with_suffix(".json.new")
    partial.write_text(json.dumps(asdict(state), indent=1) + "\n")
    partial.replace(_state_file())
