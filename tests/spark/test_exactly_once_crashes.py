"""Every record of a topic is copied once, whatever dies at whichever point, for a second client that reads committed.

The query runs in a Spark application of its own, which starts it again when it dies; the test writes the input, says
where the next process is to kill itself, or kills the application whole, and counts at the end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from random import Random

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafkasource.broker import Broker
from kafkasource.sink.crash_points import ENVIRONMENT, POINTS

pytestmark = [pytest.mark.spark]

APP = Path(__file__).with_name("exactly_once_app.py")
PATIENCE_S = 120.0
KILLS = int(os.environ.get("KAFKASOURCE_KILLS", "10"))
IN_PARTITIONS, OUT_PARTITIONS = 4, 3


class Copy:
    """The application, its two topics, and what was written to the first."""

    def __init__(self, bootstrap_servers, directory, *, master="local[2,3]", guarantee="exactly_once", **options):
        self.bootstrap_servers = bootstrap_servers
        stem = uuid.uuid4().hex[:10]
        self.source, self.sink = f"in-{stem}", f"out-{stem}"
        admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        made = admin.create_topics([NewTopic(self.source, IN_PARTITIONS, -1), NewTopic(self.sink, OUT_PARTITIONS, -1)])
        for each in made.values():
            each.result(60)
        self.crash_file = directory / "crash"
        self.command = [sys.executable, str(APP), bootstrap_servers, self.source, self.sink]
        self.command += [str(directory / "checkpoint"), master, f"deliveryGuarantee={guarantee}"]
        self.command += [f"{name}={value}" for name, value in options.items()]
        self.output = (directory / "output").open("ab")
        self.written = 0
        self._producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap_servers})
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": stem,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(self.sink, p, 0) for p in range(OUT_PARTITIONS)])
        self.seen = Counter()
        self.order = {}  # by key: the values in the order seen
        self.start()

    def start(self):
        self.app = subprocess.Popen(
            self.command,
            stdout=self.output,
            stderr=self.output,
            env=os.environ | {ENVIRONMENT: str(self.crash_file)},
            start_new_session=True,
        )

    def kill(self):
        """The application whole: driver, executors, Python workers."""
        os.killpg(self.app.pid, signal.SIGKILL)
        self.app.wait()

    def write(self, count):
        """Rows to every input partition; a row's key is its partition."""
        for number in range(self.written, self.written + count):
            partition = number % IN_PARTITIONS
            self._producer.produce(self.source, str(number).encode(), str(partition).encode(), partition)
        self._producer.flush(60)
        self.written += count

    def crash(self, point):
        """Let a process die there, and wait until it has."""
        prepared = self.crash_file.with_suffix(".new")
        prepared.write_text(point)
        prepared.rename(self.crash_file)
        deadline = time.monotonic() + PATIENCE_S
        while self.crash_file.exists():
            self.write(40)
            assert time.monotonic() < deadline, f"nothing died at {point!r}"
            assert self.app.poll() is None, "the application has ended by itself"
            time.sleep(0.3)

    def read(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for message in self._consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                self.seen[int(message.value())] += 1
                self.order.setdefault(message.key(), []).append(int(message.value()))
            if len(self.seen) >= self.written:
                break

    def lost_and_doubled(self):
        """Read until everything is there, and a little longer."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.seen) < self.written and time.monotonic() < deadline:
            self.read(1.0)
        for _ in range(2):
            for message in self._consumer.consume(1000, 1.0):
                self.seen[int(message.value())] += 1
        lost = self.written - len(self.seen)
        doubled = sum(self.seen.values()) - len(self.seen)
        print(f"{self.written} records, {lost} lost, {doubled} doubled")
        return lost, doubled


@pytest.fixture
def copy(kafka_broker, tmp_path):
    made = []

    def make(bootstrap_servers=None, **options):
        directory = tmp_path / str(len(made))
        directory.mkdir()
        made.append(Copy(bootstrap_servers or kafka_broker.bootstrap_servers, directory, **options))
        return made[-1]

    yield make
    for each in made:
        if each.app.poll() is None:
            each.kill()
        each.output.close()
        print((each.crash_file.parent / "output").read_text()[-4000:])


def run_under_kills(running, kills):
    """At each point in turn, and the application whole in between, at no particular moment."""
    random = Random(20_261_121)
    for number in range(kills):
        if number % 5 == 4:
            running.write(400)
            time.sleep(random.uniform(0, 3))
            running.kill()
            running.start()
        else:
            running.crash(POINTS[(number - number // 5) % len(POINTS)])
    running.write(400)


def test_nothing_is_lost_or_doubled_whatever_dies(copy):
    running = copy()
    run_under_kills(running, KILLS)
    assert running.lost_and_doubled() == (0, 0)
    assert all(values == sorted(values) for values in running.order.values())  # each key's rows in their order


@pytest.mark.slow
@pytest.mark.skipif("KAFKASOURCE_KILLS" not in os.environ, reason="KAFKASOURCE_KILLS=100 asks for it")
@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_nothing_is_lost_or_doubled_on_three_brokers_with_two_executors(copy, version):
    with Broker(version=version, nodes=3, use_existing=False) as broker:
        running = copy(broker.bootstrap_servers, master="local-cluster[2,2,1024]")
        run_under_kills(running, KILLS)
        assert running.lost_and_doubled() == (0, 0)
        running.kill()  # before its brokers are gone


@pytest.mark.slow
@pytest.mark.skipif("KAFKASOURCE_KILLS" not in os.environ, reason="KAFKASOURCE_KILLS=100 asks for it")
def test_at_least_once_loses_nothing_under_kills_and_may_double(copy):
    running = copy(guarantee="at_least_once")
    for _ in range(KILLS // 5):
        running.write(400)
        time.sleep(2)
        running.kill()
        running.start()
    lost, _ = running.lost_and_doubled()
    assert lost == 0
