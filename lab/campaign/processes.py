"""The processes of a campaign: the Spark application with all that descends from it, the follower, members."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import class_archive
from descendants import descendants
from java_programs import SHORT_LIVED_JVM
from spark_processes import linked_spark_home

from lab.campaign import crash_points
from lab.campaign.members import Members
from lab.campaign.planted import ENVIRONMENT as PLANTED
from lab.campaign.queries import MEMBERS, Names
from lab.campaign.spark_app import EXECUTOR_JAVA
from lab.campaign.whole_files import write_whole

ROOT = Path(__file__).parents[2]
GONE_S = 20.0
STOPS_S = 60.0  # for an application that was asked to stop
# What the command of a process of Spark's has, and of no other.
PYTHON, EXECUTOR, DRIVER = b"\0-m\0pyspark.", b"CoarseGrainedExecutorBackend", b"org.apache.spark.deploy.SparkSubmit"
JAVA = f"{SHORT_LIVED_JVM} -Xmx900m -Djava.io.tmpdir="


class Programs:
    """Starts the Python programs of a campaign, with their output in `folder`, and with planted `bugs`."""

    def __init__(self, folder: Path, bugs: Sequence[str], more: Mapping[str, str] = MappingProxyType({})) -> None:
        self._folder = folder
        (folder / "tmp").mkdir()
        self._environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(crash_points.AT_START), str(ROOT)]),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": f"{folder}/tmp",
            PLANTED: ",".join(bugs),
            **more,
        }

    def start(self, name: str, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,  # `ending.end_with_starter`
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=self._folder,
                start_new_session=True,
            )


class Processes:
    def __init__(self, servers: str, stem: str, topic: str, folder: Path, bugs: Sequence[str], master: str) -> None:
        self._folder, self._servers, self._stem, self._topic, self._master = folder, servers, stem, topic, master
        self.crash_file = folder / "crash"
        self.followed = folder / "followed"
        self._programs = Programs(
            folder,
            bugs,
            {
                "SPARK_SUBMIT_OPTS": f"{JAVA}{folder}/tmp {class_archive.using(class_archive.SPARK)}",
                "SPARK_LAUNCHER_OPTS": f"{JAVA}{folder}/tmp",
                EXECUTOR_JAVA: f"{SHORT_LIVED_JVM} -Djava.io.tmpdir={folder}/tmp",  # one that is killed leaves files
                crash_points.ENVIRONMENT: str(self.crash_file),
                "SPARK_HOME": str(linked_spark_home(folder / "spark-home")),
            },
        )
        self._application: subprocess.Popen[bytes] | None = None
        self._follower: subprocess.Popen[bytes] | None = None
        self.members = Members(folder, self._start_member)

    def start(self) -> None:
        self.start_application()
        self._follower = self._programs.start(
            "follow", "lab.campaign.follow_app", self._servers, self._topic, str(self.followed)
        )
        self.members.start()

    def _start_member(self, name: str, kind: str, file: Path) -> subprocess.Popen[bytes]:
        names = Names(self._stem)
        where = self._servers, names.source, names.group(MEMBERS)
        return self._programs.start(name, "lab.campaign.member_app", kind, *where, str(file))

    def start_application(self) -> None:
        self._application = self._programs.start(
            "spark", "lab.campaign.spark_app", self._servers, self._stem, str(self._folder), self._master
        )

    def stop_application(self) -> None:
        """As an operator does. What has not ended in time is killed."""
        if self._application is not None:
            self._application.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._application.wait(STOPS_S)
        self.kill_application()

    def kill_application(self) -> None:
        """It and all that descends from it, at once, as a power cut does. Returns when all of them are gone."""
        if self._application is None:
            return
        pids = [self._application.pid, *descendants(self._application.pid)]
        for pid in pids:
            _send(pid, signal.SIGKILL)
        self._application.wait()
        deadline = time.monotonic() + GONE_S
        while any(Path(f"/proc/{pid}").exists() and not _is_dead(pid) for pid in pids[1:]):
            if time.monotonic() > deadline:
                raise TimeoutError(f"killed processes live on: {pids}")
            time.sleep(0.02)

    def kill_a_python_process(self, draw: float) -> str | None:
        """One of Spark's; what it was. None: there is none."""
        found = self.send(PYTHON, draw, signal.SIGKILL)
        return found and found[1].split(b"\0-m\0")[1].split(b"\0")[0].decode()

    def hang_a_python_process(self, draw: float, lasts_s: float) -> bool:
        return self.hang(PYTHON, draw, lasts_s)

    def send(self, kind: bytes, draw: float, number: signal.Signals) -> tuple[int, bytes] | None:
        """Send it to a process of the application: its pid and command. None: it has none of this kind."""
        if self._application is None:
            return None
        found = {pid: text for pid, text in descendants(self._application.pid).items() if kind in text}
        if not found:
            return None
        pid = sorted(found)[int(draw * len(found))]
        _send(pid, number)
        return pid, found[pid]

    def hang(self, kind: bytes, draw: float, lasts_s: float) -> bool:
        """A process of the application stands still. False: it has none of this kind."""
        found = self.send(kind, draw, signal.SIGSTOP)
        if found is None:
            return False
        time.sleep(lasts_s)
        _send(found[0], signal.SIGCONT)
        return True

    def keep_running(self) -> bool:
        """Start the application again if it has ended by itself. False: it ran."""
        if self._application is None or self._application.poll() is None:
            return False
        self.start_application()
        return True

    def crash_at(self, point: str) -> None:
        """The next process that comes to the point dies, and removes the file."""
        write_whole(self.crash_file, point)

    def end(self) -> None:
        self.kill_application()
        self.members.end()
        if self._follower is not None:
            self._follower.kill()
            self._follower.wait()


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_dead(pid: int) -> bool:
    """A zombie, whose parent has not asked for its end; or gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
