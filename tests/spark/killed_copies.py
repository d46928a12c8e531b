"""An application that copies a topic and is killed again and again. Another client reads its copies.

The application runs in processes of its own (exactly_once_app.py). Here its input is written, it is told where the next
of its processes is to kill itself (`lab.campaign.crash_points`) or is killed from outside, and in the end
confluent-kafka reads the copies at read_committed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic
from descendants import descendants
from java_programs import SHORT_LIVED_JVM
from spark_processes import linked_spark_home

from lab.campaign import crash_points
from lab.campaign.whole_files import write_whole

INSTALL = "from lab.campaign.crash_points import install\n\ninstall()\n"
APP = Path(__file__).with_name("exactly_once_app.py")
ROOT = APP.parent.parent.parent
PATIENCE_S = 120.0  # for what must happen on however slow a machine
STARTS_AND_WORKS_S = 400.0  # after a restart executors start first: beside three more brokers 120 s did not do
IN_PARTITIONS, OUT_PARTITIONS = 4, 3
# C1 only: these JVMs live for seconds. What they leave when killed goes with the folder.
JAVA = f"{SHORT_LIVED_JVM} -Djava.io.tmpdir="


class Application:
    """Its processes, its input, and its copies by name. `queries`: the sink's options of each copy."""

    def __init__(self, bootstrap_servers, queries, *, master="local[2,3]", modules=None):
        """`modules`: text of Python modules that all of its processes can import, by name."""
        stem = uuid.uuid4().hex[:10]
        self.source = f"in-{stem}"
        self.written = [0] * IN_PARTITIONS
        self.copies = {name: Copy(bootstrap_servers, f"{name}-{stem}") for name in queries}
        topics = [NewTopic(self.source, IN_PARTITIONS, -1)]
        topics += [NewTopic(copy.topic, OUT_PARTITIONS, -1) for copy in self.copies.values()]
        admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        for made in admin.create_topics(topics).values():
            made.result(60)
        # Idempotent: else the first row, when its broker has not heard of the new topic, comes behind the next ones.
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap_servers, "linger.ms": 0, "enable.idempotence": True, "log_level": 0}
        )
        self.folder = Path(tempfile.mkdtemp(prefix="copies-"))  # a short path: unix sockets are made in it
        for name, text in {"sitecustomize": "", **(modules or {})}.items():
            (self.folder / f"{name}.py").write_text(INSTALL + text if name == "sitecustomize" else text)
        (self.folder / "tmp").mkdir()
        sinks = [json.dumps({"topic": self.copies[name].topic, **options}) for name, options in queries.items()]
        self._command = [sys.executable, str(APP), bootstrap_servers, self.source, str(self.folder), master, *sinks]
        self._crash_file = self.folder / "crash"
        self._environment = os.environ | {
            crash_points.ENVIRONMENT: str(self._crash_file),
            "PYTHONPATH": os.pathsep.join([str(self.folder), str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "SPARK_HOME": str(linked_spark_home(self.folder / "spark")),
            "JAVA_TOOL_OPTIONS": f"{JAVA}{self.folder}/tmp",
            "TMPDIR": f"{self.folder}/tmp",
        }
        self._output = (self.folder / "output").open("ab")
        self._left = set()  # processes of applications that were killed
        self.kills = defaultdict(list)  # by what was killed: the seconds that each took
        self.start()

    def start(self):
        self._app = subprocess.Popen(
            self._command,
            stdout=self._output,
            stderr=self._output,
            env=self._environment,
            cwd=self.folder,
            start_new_session=True,
        )

    def write(self, count):
        """Rows to every input partition: the key is the partition, the value counts up."""
        for partition in range(IN_PARTITIONS):
            for number in range(self.written[partition], self.written[partition] + count):
                self._producer.produce(self.source, str(number).encode(), str(partition).encode(), partition)
            self.written[partition] += count
        assert self._producer.flush(60) == 0

    # What kills.

    def kill(self):
        """The application whole, as a power cut does it; its Python workers may live on for a moment."""
        self._left |= set(descendants(self._app.pid))
        os.killpg(self._app.pid, signal.SIGKILL)
        self._app.wait()

    def kill_one(self, random, moment_s):
        """At that moment one of its processes: an executor, a Python process of Spark's; never the driver's JVM."""
        time.sleep(moment_s)
        mortal = [pid for pid, command in descendants(self._app.pid).items() if _is_of_an_executor(command)]
        if mortal:
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.choice(sorted(mortal)), signal.SIGKILL)

    def crash(self, point):
        """Let a process of it die at a point, and wait until it has."""
        write_whole(self._crash_file, point)
        deadline = time.monotonic() + STARTS_AND_WORKS_S
        while self._crash_file.exists():
            self.write(10)
            assert time.monotonic() < deadline, f"nothing died at {point!r}"
            assert self._app.poll() is None, "the application has ended by itself"
            for _ in range(30):
                if self._crash_file.exists():
                    time.sleep(0.01)

    def run_under_kills(self, count):
        """At each point in turn a process, and one or the application whole at a point or at no particular moment."""
        random = Random(count)
        for number in range(count):
            started, (turn, kind) = time.monotonic(), divmod(number, 10)
            if kind < 8:
                what = "process at a point"
                self.crash(crash_points.POINTS[(number - 2 * turn) % len(crash_points.POINTS)])
            elif kind == 8:
                what = "process at random"
                self.goes_on()
                self.kill_one(random, random.uniform(0, 1))
            elif turn % 2 == 0:
                what = "application at a point"  # Spark's abort has no time to run
                self.crash(crash_points.POINTS[(3 + turn // 2) % len(crash_points.POINTS)])
                self.restart()
            else:
                what = "application at random"
                self.goes_on()
                time.sleep(random.uniform(0, 1))
                self.restart()
            self.kills[what].append(time.monotonic() - started)

    def restart(self):
        self.kill()
        self.start()

    def goes_on(self):
        """Wait until it copies."""
        deadline = time.monotonic() + STARTS_AND_WORKS_S
        for copy in self.copies.values():
            copy.read(0)
        before = [len(copy.rows) for copy in self.copies.values()]
        while any(len(copy.rows) == count for copy, count in zip(self.copies.values(), before, strict=True)):
            assert time.monotonic() < deadline, "nothing is copied any more"
            self.write(10)
            for copy in self.copies.values():
                copy.read(0.1)
        self.write(100)

    # The outcome.

    def finish(self):
        """Write a last time, wait until all copies have that or it never comes, read the rest, tell what it was."""
        self.write(100)
        seen, deadline = 0, time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and not all(copy.has_last(self.written) for copy in self.copies.values()):
            for copy in self.copies.values():
                copy.read(0.1)
            now = sum(len(copy.rows) for copy in self.copies.values())
            if now > seen:  # on a busy machine the last kills leave hundreds of micro-batches to do
                seen, deadline = now, time.monotonic() + PATIENCE_S
        for copy in self.copies.values():
            copy.read_to_the_end()
        if seconds := [each for kind in self.kills.values() for each in kind]:
            print(f"\n{len(seconds)} kills, {sum(seconds) / len(seconds):.1f} s each: ", end="")
            print(*(f"{len(each)} {what} {sum(each) / len(each):.1f} s" for what, each in self.kills.items()), sep=", ")
        for name, copy in self.copies.items():
            lost, doubled = copy.lost_and_doubled(self.written)
            print(f"{name}: {sum(self.written)} records, {lost} lost, {doubled} doubled")

    def lost_and_doubled(self, name):
        return self.copies[name].lost_and_doubled(self.written)

    def lines_of(self, file):
        path = self.folder / file
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def starts(self, topic):
        """The starts of the query that writes to the topic, in any of its processes."""
        return [start for start in self.lines_of("starts") if start["topic"] == topic]

    def close(self):
        if self._app.poll() is None:
            self.kill()
        deadline = time.monotonic() + 10
        while left := {pid for pid in self._left if _is_ours(pid, self.folder)}:
            if time.monotonic() > deadline:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        self._output.close()
        print((self.folder / "output").read_text()[-4000:])
        for copy in self.copies.values():
            copy.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Copy:
    """The records of a topic that a reader at read_committed has seen."""

    def __init__(self, bootstrap_servers, topic):
        self.topic = topic
        self.rows = Counter()  # (key, value)
        self.order = defaultdict(list)  # by key: values in the order seen; a key has one partition
        self.offsets = defaultdict(list)  # by partition
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": topic,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        self._assigned = False
        self._at_end = set()

    def read(self, seconds):
        if not self._assigned:
            self._consumer.assign([confluent_kafka.TopicPartition(self.topic, p, 0) for p in range(OUT_PARTITIONS)])
            self._assigned = True
        for message in self._consumer.consume(1000, seconds):
            if message.error():
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                self._at_end.add(message.partition())
            else:
                key, value = int(message.key()), int(message.value())
                self.rows[key, value] += 1
                self.order[key].append(value)
                self.offsets[message.partition()].append(message.offset())

    def has_last(self, written):
        """A batch is written when the ones before it are done: with these rows, all that will come is there."""
        return all((key, count - 1) in self.rows for key, count in enumerate(written))

    def read_to_the_end(self):
        """Read the committed rest, after the last write."""
        where = self._consumer.position([confluent_kafka.TopicPartition(self.topic, p) for p in range(OUT_PARTITIONS)])
        self._consumer.assign([each if each.offset >= 0 else _from_start(each) for each in where])
        self._at_end, deadline = set(), time.monotonic() + PATIENCE_S
        while len(self._at_end) < OUT_PARTITIONS:
            assert time.monotonic() < deadline, "the topic cannot be read to its end"
            self.read(0.2)

    def lost_and_doubled(self, written):
        wanted = {(key, value) for key, count in enumerate(written) for value in range(count)}
        assert set(self.rows) <= wanted, "rows that nobody wrote"
        return len(wanted) - len(self.rows), sum(self.rows.values()) - len(self.rows)

    def close(self):
        self._consumer.close()


def _from_start(partition):
    return confluent_kafka.TopicPartition(partition.topic, partition.partition, 0)


def _is_of_an_executor(command):
    return b"CoarseGrainedExecutorBackend" in command or b"\0-m\0pyspark." in command


def _is_ours(pid, folder):
    """Does the process still live that was an application's? Ids are used again."""
    try:
        return str(folder).encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
