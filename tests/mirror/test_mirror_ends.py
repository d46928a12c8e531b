"""How a running `pykafka mirror` ends, in mid of a first copy: by Ctrl-C at a real terminal, by signals."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Assigned
from confluent_reader import values_of

from kafkasource.kafka import ClientConfig, Cluster
from kafkasource.testing.broker import Broker
from kafkasource.writer import Writer

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]

RECORDS = 60_000
PATIENCE_S = 280  # for Spark to start, copy and end, on however slow a machine; each test may take 900
CTRL_C = b"\x03"

# Small requests, one at a time: the first micro-batch lasts long enough to be interrupted in its midst.
FILE = """
checkpoint = "{checkpoint}"
[clusters.A]
kafka.bootstrap.servers = "{source}"
[clusters.B]
kafka.bootstrap.servers = "{target}"
kafka.batch.size = 2048
kafka.max.in.flight.requests.per.connection = 1
[[flows]]
from = "A"
to = "B"
topics = "{topic}"
"""


@pytest.fixture(scope="module")
def target():
    with Broker(use_existing=False) as broker:
        yield broker


@pytest.fixture
def topic(kafka_broker, kafka_topic):
    name = kafka_topic(prefix="copied")
    write(kafka_broker.bootstrap_servers, name, RECORDS)
    return name


def write(servers, topic, count):
    with Writer({"kafka.bootstrap.servers": servers, "topic": topic}) as writer:
        writer.write(pa.table({"value": [b"%050d" % number for number in range(count)]}))


class Terminal:
    """`pykafka mirror` as the foreground job of a terminal of its own."""

    def __init__(self, kafka_broker, target, topic, folder, *arguments, ignoring=()):
        file = folder / "mirror.toml"
        checkpoint = folder / "checkpoint"
        self.commits = checkpoint / "A" / "1" / "commits"
        servers = {"source": kafka_broker.bootstrap_servers, "target": target.bootstrap_servers}
        file.write_text(FILE.format(checkpoint=checkpoint, topic=topic, **servers))
        self.log = folder / "mirror.log"
        self._keyboard, screen = pty.openpty()

        def at_the_terminal():
            fcntl.ioctl(screen, termios.TIOCSCTTY, 0)
            for number in ignoring:
                signal.signal(number, signal.SIG_IGN)

        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kafkasource", "mirror", str(file), *arguments],
                stdin=screen,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=at_the_terminal,
                env={**os.environ, "SPARK_CONF_DIR": str(folder)},
            )
        os.close(screen)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._keyboard)

    def press(self, key):
        os.write(self._keyboard, key)

    def said(self):
        return self.log.read_text()

    def soon(self, condition, seconds=90):
        """What other processes do is waited for, and looked at again."""
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < end, self.said()
            assert self.process.poll() is None, self.said()
            time.sleep(0.01)
        return found

    def in_mid_of_the_first_batch(self, target, topic):
        """Waits until the target has some of the records; then it is paused, and not all are acknowledged."""
        with Cluster(ClientConfig.of(target.bootstrap_servers)) as admin:
            self.soon(lambda: topic in {found.name for found in admin.topics.list()})
        self.soon(lambda: count(target, topic))
        target.pause()
        assert not list(self.commits.glob("0")), "the first micro-batch was done already"


def count(broker, topic):
    """How many records the log holds, by librdkafka."""
    with closing(Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})) as consumer:
        low, high = consumer.get_watermark_offsets(Assigned(topic, 0), timeout=30)
        return high - low


def values(broker, topic):
    """All of them, read by librdkafka."""
    return values_of(broker.bootstrap_servers, topic, settled=True)[0]


def ctrl_c(mirror):
    mirror.press(CTRL_C)


def to_the_group(number):
    """As `timeout` and a shell without job control do."""
    return lambda mirror: os.killpg(mirror.process.pid, number)


@pytest.mark.parametrize(
    ("interrupt", "ignoring"),
    [
        pytest.param(ctrl_c, (), id="ctrl-c", marks=pytest.mark.extended),
        pytest.param(to_the_group(signal.SIGTERM), (), id="sigterm", marks=pytest.mark.extended),
        # As a background job of a script is started.
        pytest.param(
            to_the_group(signal.SIGINT), (signal.SIGINT,), id="sigint-ignored-before", marks=pytest.mark.extended
        ),
    ],
)
def test_the_first_signal_in_mid_of_a_first_copy_lets_it_be_committed_and_nothing_is_written_twice(
    kafka_broker, target, topic, tmp_path, interrupt, ignoring
):
    with Terminal(kafka_broker, target, topic, tmp_path, ignoring=ignoring) as mirror:
        mirror.in_mid_of_the_first_batch(target, topic)
        try:
            interrupt(mirror)
            mirror.soon(lambda: "a second Ctrl-C or SIGTERM ends at once" in mirror.said())
        finally:
            target.resume()
        assert mirror.process.wait(PATIENCE_S) == 0, mirror.said()
        assert mirror.said().startswith("pykafka: mirroring A->B\n"), "lines of Spark's launcher come first"
        assert " ERROR " not in mirror.said()
        assert "/kafkasource/" not in mirror.said()  # a traceback of ours: pyspark has some of its own when it ends
    write(kafka_broker.bootstrap_servers, topic, 10)
    with Terminal(kafka_broker, target, topic, tmp_path, "--once") as again:
        assert again.process.wait(PATIENCE_S) == 0, again.said()
    assert count(target, topic) == RECORDS + 10
    assert values(target, topic) == values(kafka_broker, topic)


def test_what_spark_says_when_it_cannot_start_is_shown_before_our_error(tmp_path):
    file = tmp_path / "mirror.toml"
    file.write_text(
        FILE.format(checkpoint=tmp_path / "checkpoint", topic="t", source="127.0.0.1:1", target="127.0.0.1:2")
    )
    done = subprocess.run(
        [sys.executable, "-m", "kafkasource", "mirror", str(file)],
        capture_output=True,
        text=True,
        env={**os.environ, "JAVA_HOME": str(tmp_path), "SPARK_CONF_DIR": str(tmp_path)},
        timeout=PATIENCE_S,
    )
    assert done.returncode != 0
    assert f"{tmp_path}/bin/java: No such file or directory" in done.stderr.splitlines()[0]
    assert done.stderr.splitlines()[-1].startswith("pykafka: Spark did not start: [JAVA_GATEWAY_EXITED]")


@pytest.mark.extended
def test_the_second_signal_ends_it_at_once_though_the_target_answers_nothing(kafka_broker, target, topic, tmp_path):
    with Terminal(kafka_broker, target, topic, tmp_path, "--once") as mirror:
        mirror.in_mid_of_the_first_batch(target, topic)
        try:
            jvm = children(mirror.process.pid)
            mirror.press(CTRL_C)
            mirror.soon(lambda: "a second Ctrl-C or SIGTERM ends at once" in mirror.said())
            mirror.press(CTRL_C)
            assert mirror.process.wait(PATIENCE_S) == 128 + signal.SIGINT
            assert "the next run does again what was not committed" in mirror.said()
            gone(jvm)
        finally:
            target.resume()


def children(pid):
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert found
    return [int(each) for each in found]


def gone(pids):
    """Waits until none of them runs any more."""
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end, f"{pids} still run"
        time.sleep(0.1)
