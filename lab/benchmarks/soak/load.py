"""What runs in a soak: two brokers, a mirror from one to the other, a query that writes exactly once, their records.

The mirror is `pykafka mirror` as its users start it, the query an application of its own: so each process belongs to
one of them, and a leak to one. The control is a third application, which reads and writes the same by Spark's JVM
connector: by what its JVM grows, Spark's grows without us. JVMs have a heap of fixed size, all of it touched at the
start: what they grow by then is memory outside of the heap, of which they keep account.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from confluent_kafka.admin import AdminClient, NewTopic

from kafkasource.testing.broker import Broker
from lab.benchmarks.lab import prepare_environment
from lab.benchmarks.processes import tree
from lab.benchmarks.soak.sampler import App
from lab.benchmarks.soak.slopes import CONTROL_APP
from lab.benchmarks.soak.traffic import Follower, Traffic

SOURCE, ONCE, CONTROL, MIRRORED = "orders", "orders-once", "orders-control", "east.orders"
PARTITIONS = 4
HEAP_MB = 512
SERVED_MB = 384  # of a broker
RETENTION = {"retention.ms": str(30 * 60_000), "segment.bytes": str(32 << 20)}
"""So a disk holds half an hour; every reader is seconds behind, and notices where it is not."""
END_S = 60.0

MIRROR = """
checkpoint = "{folder}/checkpoint"
exactly_once = true
trigger = "{seconds} seconds"
[read]
startingOffsets = "earliest"
[clusters.east]
"kafka.bootstrap.servers" = "{east}"
[clusters.west]
"kafka.bootstrap.servers" = "{west}"
[[flows]]
from = "east"
to = ["west"]
topics = ["{source}"]
topic = "${{source}}.${{topic}}"
"""


class Load:
    """A `with` block: all of it runs, and is gone afterwards, however the block ends."""

    def __init__(self, folder: Path, logs: Path, rate: int, trigger_s: float) -> None:
        """`folder`: goes when all has ended; `logs`: what the applications print stays there."""
        self._folder, self._logs, self._rate, self._trigger_s = folder, logs, rate, trigger_s
        self._brokers: dict[str, Broker] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ends = ExitStack()
        self.followers: dict[str, Follower] = {}

    def __enter__(self) -> Load:
        with ExitStack() as ends:
            prepare_environment()
            for name in ("east", "west"):
                properties = {"offsets.retention.minutes": 60, "log.retention.check.interval.ms": 60_000}
                broker = Broker(use_existing=False, heap_mb=SERVED_MB, properties=properties)
                self._brokers[name] = ends.enter_context(broker)
            east, west = (broker.bootstrap_servers for broker in self._brokers.values())
            _create(east, SOURCE, ONCE, CONTROL)
            _create(west, MIRRORED)
            self.traffic = Traffic(east, SOURCE, self._rate)
            ends.callback(self._end_processes)
            self._start_query("once", east, ONCE, "pykafka")
            self._start_query(CONTROL_APP, east, CONTROL, "kafka")
            self._start("mirror", "kafkasource", "mirror", str(self._mirror_file(east, west)))
            copies = {"once": (east, ONCE), CONTROL_APP: (east, CONTROL), "mirror": (west, MIRRORED)}
            self.followers = {name: Follower(name, *copy) for name, copy in copies.items()}
            for follower in self.followers.values():
                follower.start()
                ends.callback(follower.stop)
            self.traffic.start()
            ends.callback(self.traffic.stop)
            self._ends = ends.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.__exit__(kind, error, trace)

    @property
    def _seconds(self) -> str:
        return f"{self._trigger_s:g}"

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def _home(self, name: str) -> Path:
        home = self._folder / name
        home.mkdir(exist_ok=True)
        (home / "tmp").mkdir(exist_ok=True)
        (home / "spark-defaults.conf").write_text(f"spark.ui.enabled false\nspark.local.dir {home}/tmp\n")
        return home

    def _mirror_file(self, east: str, west: str) -> Path:
        home = self._home("mirror")
        file = home / "mirror.toml"
        text = MIRROR.format(folder=home, east=east, west=west, source=SOURCE, seconds=self._seconds)
        file.write_text(text)
        return file

    def _start_query(self, name: str, servers: str, target: str, format_name: str) -> None:
        home = str(self._home(name))
        self._start(name, "lab.benchmarks.soak.query_app", home, servers, SOURCE, target, self._seconds, format_name)

    def _start(self, name: str, module: str, *arguments: str) -> None:
        home = self._home(name)
        java = f"-Xms{HEAP_MB}m -Xmx{HEAP_MB}m -XX:+AlwaysPreTouch -XX:+UseSerialGC -Xlog:gc:file={home}/gc.log:uptime"
        java += " -XX:NativeMemoryTracking=summary"
        environment = os.environ | {
            "SPARK_SUBMIT_OPTS": f"{java} -Djava.io.tmpdir={home}/tmp",
            "SPARK_CONF_DIR": str(home),
            "TMPDIR": str(home / "tmp"),
            "KAFKASOURCE_METRICS_DIR": str(home / "metrics"),
        }
        with self._log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,  # `lab.campaign.ending.end_with_starter`
                stdout=log,
                stderr=log,
                env=environment,
                cwd=home,
                start_new_session=True,  # Ctrl-C is the soak's alone, which ends them in order
            )

    def apps(self) -> list[App]:
        """What runs now."""
        found = [
            App(name, process.pid, self._folder / name / "gc.log", self._folder / name / "metrics")
            for name, process in self._processes.items()
        ]
        return found + [App(f"broker {name}", pid) for name, broker in self._brokers.items() for pid in broker.pids]

    def totals(self) -> dict[str, float]:
        """For the sampler: records sent, written and read back so far."""
        found: dict[str, float] = {"sent": self.traffic.sent, "written": self.traffic.written}
        return found | {f"read_back_{name}": follower.counts.read for name, follower in self.followers.items()}

    def failure(self) -> str | None:
        """What ended that should not have, where something has."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                lines = self._log(name).read_text(errors="replace").splitlines()
                return f"{name} ended with code {process.returncode}; its last words: {' | '.join(lines[-5:])}"
        if self.traffic.error is not None:
            return f"writing the source failed: {self.traffic.error}"
        errors = [f"reading {name} back: {each.error}" for name, each in self.followers.items() if each.error]
        return errors[0] if errors else None

    def drain(self, within_s: float) -> None:
        """Stop the traffic, and wait until both copies have been read to its end, or the time is over."""
        self.traffic.stop()
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline and self.failure() is None:
            if all(each.counts.reached >= self.traffic.written for each in self.followers.values()):
                time.sleep(3 * self._trigger_s)  # what is written twice comes after
                return
            time.sleep(0.5)

    def _end_processes(self) -> None:
        """Each with all that descends from it: SIGTERM first, and -9 to what is left."""
        families = {pid for process in self._processes.values() for pid in tree(process.pid)}
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + END_S
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # a session of its own
            process.wait()
        for pid in families:
            with contextlib.suppress(OSError):
                if str(self._folder).encode() in Path(f"/proc/{pid}/environ").read_bytes():  # still one of ours
                    os.kill(pid, signal.SIGKILL)


def _create(servers: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for made in admin.create_topics([NewTopic(each, PARTITIONS, 1, config=RETENTION) for each in topics]).values():
        made.result(60)
