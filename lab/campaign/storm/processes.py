"""The processes of a storm: queries, writers, readers, and members of a group. Each is started again when it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from types import MappingProxyType

from lab.campaign import clock, crash_points, login
from lab.campaign.members import Members
from lab.campaign.processes import Programs
from lab.campaign.queries import MEMBERS, POLICIES, SINKS, Names
from lab.campaign.storm.checkpoint import Checkpoint
from lab.campaign.storm.query_app import DISCARDED
from lab.campaign.storm.readers_app import REMADE
from lab.campaign.whole_files import write_whole

WRITERS, READERS = "writers", "readers"
QUERIES = (*SINKS, *POLICIES)
LEAVES_S = 150.0  # for clients to end the lives that they have begun; the longest call of theirs takes 120 s


class StormProcesses:
    def __init__(
        self,
        servers: str,
        names: Names,
        folder: Path,
        seed: int,
        bugs: Sequence[str],
        with_login: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`with_login`: options of our clients, where the brokers want one."""
        self._servers, self._names, self._folder, self._seed = servers, names, folder, seed
        self.crash_file = folder / "crash"
        (folder / "local").mkdir()
        (folder / REMADE).mkdir()
        self.discarded, self._clock = folder / "discarded", folder / "clock"
        more = {
            crash_points.ENVIRONMENT: str(self.crash_file),
            clock.ENVIRONMENT: str(self._clock),
            DISCARDED: str(self.discarded),
            login.ENVIRONMENT: json.dumps(dict(with_login)),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
        }
        self._programs = Programs(folder, bugs, more)
        self._incarnations = count()
        self._lock = threading.Lock()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._leaving: set[str] = set()  # that do not start again
        self.failures: list[str] = []  # of clients that ended with an error that is not Kafka's
        self.members = Members(folder, self._start_member)

    def start(self) -> None:
        self.start_application()
        for name in (WRITERS, READERS):
            self._start(name)
        self.members.start()

    def _start_member(self, name: str, kind: str, file: Path) -> subprocess.Popen[bytes]:
        where = self._servers, self._names.source, self._names.group(MEMBERS)
        return self._programs.start(name, "lab.campaign.member_app", kind, *where, str(file))

    def _start(self, name: str) -> None:
        if name in self._leaving:
            return
        arguments = [self._servers, self._names.stem, str(self._folder), str(self._seed)]
        if name == WRITERS:
            arguments.append(str(next(self._incarnations)))
        if name in QUERIES:
            arguments = [name, self._servers, self._names.stem, str(self._folder)]
        module = "query_app" if name in QUERIES else f"{name}_app"
        self._running[name] = self._programs.start(name, f"lab.campaign.storm.{module}", *arguments)

    # The application: what stands for Spark.

    def start_application(self) -> None:
        with self._lock:
            self._leaving -= {*QUERIES}
            for query in QUERIES:
                self._start(query)

    def kill_application(self) -> None:
        """Until `start_application` no query starts again."""
        with self._lock:
            self._leaving |= {*QUERIES}
            queries = [self._running.pop(name) for name in QUERIES if name in self._running]
            for process in queries:
                process.kill()
            for process in queries:
                process.wait()

    def kill_a_python_process(self, draw: float) -> str | None:
        """A query, or the writers or readers."""
        with self._lock:
            names = sorted(self._running)
            name = names[int(draw * len(names))]
            self._running[name].kill()
            self._running[name].wait()
            self._start(name)
            return name

    def hang_a_python_process(self, draw: float, lasts_s: float) -> bool:
        """A query, or the writers or readers."""
        with self._lock:
            names = sorted(self._running)
            process = self._running[names[int(draw * len(names))]]
            process.send_signal(signal.SIGSTOP)
        time.sleep(lasts_s)
        process.send_signal(signal.SIGCONT)
        return True

    def roll_back(self, draw: float, planned: bool) -> bool:
        """The checkpoint of a query, which is killed and started again. False: none has a batch that is done, and none
        after it that is planned."""
        first = int(draw * len(QUERIES))
        with self._lock:
            for name in (*QUERIES[first:], *QUERIES[:first]):
                if name in self._running and Checkpoint(self._folder / "checkpoints" / name).may_roll_back():
                    self._running[name].kill()
                    self._running[name].wait()
                    rolled_back = Checkpoint(self._folder / "checkpoints" / name).roll_back(planned)
                    self._start(name)
                    if rolled_back:
                        return True
        return False

    def jump(self, seconds: float, lasts_s: float) -> None:
        """The clocks of queries, writers and readers are wrong for a while."""
        self._clock.write_text(str(seconds))
        time.sleep(lasts_s)
        self._clock.write_text("0")

    def crash_at(self, point: str) -> None:
        """The next process that comes to the point dies, and removes the file."""
        write_whole(self.crash_file, point)

    def keep_running(self) -> bool:
        with self._lock:
            ended = {name: process.returncode for name, process in self._running.items() if process.poll() is not None}
            self.failures += [f"{name} ended with exit code {code}" for name, code in ended.items() if code > 0]
            for name in ended:
                self._start(name)
            return bool(ended)

    def end_writers(self) -> None:
        """Let the writers end their lives; in time, or it is a failure."""
        with self._lock:
            self._leaving.add(WRITERS)
            writers = self._running.pop(WRITERS)
        writers.terminate()
        try:
            if writers.wait(LEAVES_S):
                self.failures.append(f"{WRITERS} ended with exit code {writers.returncode}")
        except subprocess.TimeoutExpired:
            self.failures.append(f"{WRITERS} did not end within {LEAVES_S:g} s")
            writers.kill()
            writers.wait()

    def end(self) -> None:
        with self._lock:
            for process in self._running.values():
                process.kill()
                process.wait()
        self.members.end()
