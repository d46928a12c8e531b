"""One broker process: starts it under its supervisor, kills it, and reads its output. No cluster logic."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kafkasource.testing.broker import supervisor

TERMINATE_TIMEOUT_S = supervisor.GRACE_S + 10
KILL_TIMEOUT_S = 30.0  # the kernel frees half a gigabyte first, on a laden machine
_STOPPED, _ENDED = frozenset("T"), frozenset("ZX")  # letters of proc(5)


class NodeProcess:
    """A running JVM and its supervisor, which share a process group that the supervisor leads.

    Both hold the writing end of a pipe. Its end of file shows that both are gone: after the supervisor's exit alone, a
    killed JVM could still hold its port and the lock on its data when we start the next one. Owned by the process that
    made it: a forked child sees the object but must not end what its parent runs.
    """

    def __init__(self, command: Sequence[str], log: Path, remove_after_crash: Path | None) -> None:
        """`remove_after_crash` is deleted by the supervisor when this process ends without stopping the node."""
        reading, self._pipe = os.pipe()  # the writing end is close-on-exec: no other child keeps it open
        self._life, living = os.pipe()
        # -I -S: no environment, no site-packages; the supervisor must start wherever Python does.
        script = [sys.executable, "-I", "-S", supervisor.__file__, str(os.getpid()), str(remove_after_crash or "")]
        try:
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    [*script, *command],
                    stdin=reading,
                    stdout=output,
                    stderr=output,
                    cwd=log.parent,
                    pass_fds=[living],
                    start_new_session=True,  # Ctrl-C reaches us and not Kafka: we stop it in order
                )
        except BaseException:
            self._close_pipes()
            raise
        finally:
            os.close(reading)
            os.close(living)

    @property
    def pid(self) -> int:
        """The pid of the supervisor. SIGTERM to it stops the broker cleanly. Its process group has both processes."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        """End the node as `kill -9` or a power cut does: it flushes nothing and tells no other node.

        Waits for its end.
        """
        if not self._gone(0):  # a member is left, so the group's id cannot belong to anybody else by now
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._gone(KILL_TIMEOUT_S)
        # A process that ends closes its files one after the other, and its sockets after the pipe.
        self._await(_ENDED)
        self._close_pipes()

    def send_signal(self, which: signal.Signals) -> None:
        """Send a signal to the node and its supervisor. SIGSTOP returns when both have stopped, where /proc shows that
        (Linux)."""
        if not self._gone(0):
            os.killpg(self._process.pid, which)
            if which == signal.SIGSTOP:
                self._await(_STOPPED)

    def _await(self, states: frozenset[str]) -> None:
        """Wait until all threads are in one of these states: each stops or ends when it is scheduled, which is late on
        a busy machine."""
        deadline = time.monotonic() + KILL_TIMEOUT_S
        while set(_states(self._process.pid)) - states and time.monotonic() < deadline:
            time.sleep(0.002)

    def terminate(self) -> None:
        """Stop the node cleanly: it hands over leaderships and flushes logs. Kill it if that takes longer than 20 s."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._gone(TERMINATE_TIMEOUT_S)
        self.kill()

    def let_go(self) -> None:
        """Let the node outlive this process. Only `pid` leads back to it."""
        os.write(self._pipe, b"d")
        self._close_pipes()
        self._process.returncode = 0  # Popen would warn that it was left running, which is what was asked for

    def _gone(self, timeout_s: float) -> bool:
        """Whether both processes have ended, within this time. Nothing is ever written, so readable is end of file."""
        if self._life < 0:
            return True
        return bool(select.select([self._life], [], [], timeout_s)[0])

    def _close_pipes(self) -> None:
        for pipe in (self._pipe, self._life):
            if pipe >= 0:
                os.close(pipe)
        self._pipe = self._life = -1


def _states(group: int) -> Iterator[str]:
    """One letter for each thread of a group's processes, as in proc(5). None where there is no /proc.

    A process's own letter is that of its first thread, which may have ended before the others.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone by now
            _state, its_group = _state_and_group(process / "stat")
            if its_group == group:
                for thread in (process / "task").iterdir():
                    with contextlib.suppress(OSError):
                        yield _state_and_group(thread / "stat")[0]


def _state_and_group(stat: Path) -> tuple[str, int]:
    state, _parent, group, *_ = stat.read_text().rpartition(")")[2].split()
    return state, int(group)


def tail(log: Path, lines: int = 30) -> str:
    """The last lines of a log that matter."""
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        return ""
    return telling(text, lines)


def telling(text: str, lines: int = 30) -> str:
    """The last lines of what a JVM printed, without what SLF4J says on every start and where in Java it happened."""
    noise = ("SLF4J:", "\tat ", "\t... ")
    return "\n".join([line for line in text.splitlines() if not line.startswith(noise)][-lines:])
