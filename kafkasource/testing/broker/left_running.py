"""The one server of a kind that `pykafka ... start` leaves running: its state file in the cache folder, its processes.

    <cache>/NAME.lock    held while the server is started or stopped: of two starts, the second finds a server
    <cache>/NAME.json    the state; written when the server is ready, renamed into place

A pid in the file may belong to another process by now (after a reboot). It is ours only if its command line names the
server's folder. We send signals to no other process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from kafkasource.testing.broker.jvm.jars import cache_dir, locked
from kafkasource.testing.broker.node import TERMINATE_TIMEOUT_S


class ServerState(Protocol):
    """The facts that find a server, show it and end it: a dataclass, whose constructor checks what the file holds."""

    @property
    def running(self) -> bool: ...

    def end(self) -> None:
        """End its processes, and remove its files unless they are kept."""


State = TypeVar("State", bound=ServerState)


@dataclass(frozen=True)
class LeftRunning(Generic[State]):
    """`name`: of the files."""

    name: str
    state: type[State]

    def status(self) -> State | None:
        """The server that was started and not stopped. None also for an unreadable file."""
        try:
            return self.state(**json.loads(self._file.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def start(
        self,
        server: Any,
        state_of: Callable[[Any], State],
        require_same: Callable[[State], None],
        starting: Callable[[], None],
    ) -> tuple[State, bool]:
        """The running server, and whether it ran already; else starts `server`, a Broker or Registry, after a call of
        `starting`."""
        with self._locked():
            before = self.status()
            if before is not None and before.running:
                require_same(before)
                return before, True
            if before is not None:
                self._end(before)  # some of its processes may be left
            starting()
            with server:
                state: Any = state_of(server)
                partial = self._file.with_suffix(".json.new")
                partial.write_text(json.dumps(asdict(state), indent=1) + "\n")
                partial.replace(self._file)
                server.let_go()
            return state, False

    def stop(self) -> State | None:
        """End the server; None when there was none."""
        with self._locked():
            state = self.status()
            if state is not None:
                self._end(state)
            return state

    def _end(self, state: State) -> None:
        state.end()
        self._file.unlink(missing_ok=True)

    @property
    def _file(self) -> Path:
        return cache_dir() / f"{self.name}.json"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with locked(cache_dir() / f"{self.name}.lock"):
            yield


def end(pids: Sequence[int], folder: str, in_order: bool = False) -> None:
    """End the supervisors among these pids, and their JVMs. `in_order`: let them end by themselves first."""
    ours = [pid for pid in pids if is_ours(pid, folder)]
    if in_order:
        for pid in ours:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        _await_end(ours, folder)
    for pid in ours:
        if is_ours(pid, folder):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)  # the supervisor leads the group of its JVM
    _await_end(ours, folder)


def _await_end(pids: Sequence[int], folder: str) -> None:
    deadline = time.monotonic() + TERMINATE_TIMEOUT_S
    while any(is_ours(pid, folder) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)  # we are not their parent, so we cannot wait for them


def is_ours(pid: int, folder: str) -> bool:
    """Whether a process runs under this pid that was started for this folder. A zombie has no command line any more."""
    if Path("/proc/self").exists():
        try:
            command = Path("/proc", str(pid), "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return False
    else:  # macOS
        asked = ["ps", "-o", "command=", "-p", str(pid)]
        command = subprocess.run(asked, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    return any(f"{folder}/{name}" in command for name in ("node-", "zookeeper.properties", "registry"))
