"""A server that `pykafka ... start` leaves running: its state file in the cache folder, and its processes.

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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from kafkasource.testing.broker.jvm.jars import cache_dir, locked
from kafkasource.testing.broker.node import TERMINATE_TIMEOUT_S

State = TypeVar("State")


@dataclass(frozen=True)
class StateFile(Generic[State]):
    """The file of one kind of server. `state`: a dataclass, whose constructor checks what the file holds."""

    name: str
    state: type[State]

    @property
    def _file(self) -> Path:
        return cache_dir() / f"{self.name}.json"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        with locked(cache_dir() / f"{self.name}.lock"):
            yield

    def read(self) -> State | None:
        """The server that was started and not stopped. None also for an unreadable file."""
        try:
            return self.state(**json.loads(self._file.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def write(self, state: Any) -> None:
        partial = self._file.with_suffix(".json.new")
        partial.write_text(json.dumps(asdict(state), indent=1) + "\n")
        partial.replace(self._file)

    def remove(self) -> None:
        self._file.unlink(missing_ok=True)


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
