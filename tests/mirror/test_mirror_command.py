"""`pykafka mirror` as people run it: a process with a Spark of its own, that goes on until it is ended."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka import ClientConfig, Cluster, TopicPartition
from kafkasource.mirror.offset_map import OffsetMapTopic, translate
from kafkasource.reader import Reader
from kafkasource.testing.broker import Broker
from kafkasource.writer import Writer

ROOT = Path(__file__).parent.parent.parent
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow, pytest.mark.extended]

PROPERTIES = """
clusters = A, B
A.bootstrap.servers = {a}
B.bootstrap.servers = {b}
A->B.enabled = true
A->B.topics = {prefix}.*
B.exactly.once.source.support = {exactly_once}
refresh.topics.interval.seconds = 1
sync.topic.configs.interval.seconds = 1
emit.heartbeats.enabled = false
B->A.enabled = false
A->B.groups = .*
"""


@pytest.fixture(scope="module")
def target():
    with Broker(use_existing=False) as broker:
        yield broker.bootstrap_servers


def write(servers, topic, values):
    with Writer({"kafka.bootstrap.servers": servers, "topic": topic}) as writer:
        writer.write(pa.table({"key": values, "value": values}))


def values(servers, topic):
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    with Reader(options) as reader:
        return sorted(bytes(value.as_py()).decode() for batch in reader for value in batch.column("value"))


def soon(condition, seconds=240):
    """Asks again until it holds; what another process does is waited for."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if condition():
                return True
        except KafkaSourceError:  # a topic that is not there yet
            pass
        time.sleep(0.2)
    return condition()


class Mirror:
    def __init__(self, file, checkpoint, *arguments):
        command = [
            sys.executable,
            "-m",
            "kafkasource",
            "mirror",
            str(file),
            "--checkpoint",
            str(checkpoint),
            *arguments,
        ]
        self.log = file.parent / "mirror.log"
        self._log = self.log.open("ab")
        self.process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, start_new_session=True, env=dict(os.environ)
        )

    def end(self, number=signal.SIGTERM):
        """How it ended."""
        self.process.send_signal(number)
        try:
            return self.process.wait(240)
        finally:
            self.tidy()

    def tidy(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._log.close()


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_a_mirror_follows_its_source_and_goes_on_after_it_was_ended(
    kafka_broker, kafka_topic, target, tmp_path, exactly_once
):
    source = kafka_broker.bootstrap_servers
    topic = kafka_topic(partitions=2, prefix=f"mirrored-{exactly_once}")
    file = tmp_path / "mm2.properties"
    file.write_text(PROPERTIES.format(a=source, b=target, prefix=f"mirrored-{exactly_once}", exactly_once=exactly_once))
    write(source, topic, [f"first{number}" for number in range(500)])
    mirror = Mirror(file, tmp_path / "checkpoint")
    try:
        assert soon(lambda: len(values(target, f"A.{topic}")) == 500), mirror.log.read_text()
        # A topic that comes, partitions that come, a setting that changes: while it runs.
        new = kafka_topic(prefix=f"mirrored-{exactly_once}-new")
        write(source, new, ["n1", "n2"])
        with Cluster(ClientConfig.of(source)) as admin:
            admin.topics.add_partitions({topic: 3})
            admin.topics.change_settings(topic, {"retention.ms": "7200000"})
        write(source, topic, [f"second{number}" for number in range(500)])
        assert soon(lambda: len(values(target, f"A.{topic}")) == 1000), mirror.log.read_text()
        assert soon(lambda: values(target, f"A.{new}") == ["n1", "n2"]), mirror.log.read_text()
        with Cluster(ClientConfig.of(target)) as admin:

            def retention():
                found = admin.topics.settings([f"A.{topic}"])[f"A.{topic}"]
                return {each.name: each.value for each in found}["retention.ms"]

            assert soon(lambda: retention() == "7200000")
        assert mirror.end() == 0, mirror.log.read_text()
    finally:
        mirror.tidy()
    told = mirror.log.read_text()
    assert "A->B.groups: group offsets are not carried along" in told
    assert "/kafkasource/" not in told  # a traceback of ours: pyspark has some of its own when it ends

    write(source, topic, [f"third{number}" for number in range(500)])
    again = Mirror(file, tmp_path / "checkpoint", "--once")
    try:
        assert again.process.wait(300) == 0, again.log.read_text()
        assert "all records that existed at the start are copied" in again.log.read_text()
    finally:
        again.tidy()
    assert values(target, f"A.{topic}") == values(source, topic)
    assert len(values(source, topic)) == 1500
    assert_translated(target, records(source, topic), records(target, f"A.{topic}"))


def test_the_example_runs_by_spark_submit_and_tells_its_metrics(kafka_broker, kafka_topic, target, tmp_path):
    source = kafka_broker.bootstrap_servers
    topic = kafka_topic(partitions=2, prefix="submitted")
    write(source, topic, [f"v{number}" for number in range(300)])
    file = tmp_path / "mirror.toml"
    file.write_text(
        f'''
        checkpoint = "{tmp_path}/checkpoint"
        metrics = "0"
        provenance = true
        [clusters.A]
        kafka.bootstrap.servers = "{source}"
        [clusters.B]
        kafka.bootstrap.servers = "{target}"
        [[flows]]
        from = "A"
        to = "B"
        topics = "submitted.*"
        '''
    )
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]"]
    command += [str(ROOT / "examples/mirror.py"), str(file), "--once"]
    environment = {**os.environ, "SPARK_CONF_DIR": str(ROOT / "spark-conf"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pykafka: metrics at http://127.0.0.1:" in done.stdout + done.stderr  # spark-submit joins them
    with Reader({"kafka.bootstrap.servers": target, "subscribe": topic, "includeHeaders": "true"}) as reader:
        rows = [row for batch in reader for row in batch.to_pylist()]
    assert len(rows) == 300
    with Cluster(ClientConfig.of(source)) as admin:
        source_id = admin.brokers().cluster_id
    for row in rows:
        headers = {each["key"]: each["value"].decode() for each in row["headers"]}
        assert headers == {
            "mirror.origin": f"{source_id}/{topic}",
            "mirror.record": f"{topic}/{row['partition']}/{row['offset']}",
        }


def records(servers, topic):
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    with Reader(options) as reader:
        return [row for batch in reader for row in batch.to_pylist()]


def assert_translated(target, originals, mirrored):
    """The map leads each reader to the very record, or to some before it."""
    with OffsetMapTopic(ClientConfig.of(target), "mirror-offsets.A.internal") as offset_map:
        known = offset_map.read()
    at = {(row["partition"], row["value"]): row["offset"] for row in mirrored}
    for row in originals:
        found = translate(known, TopicPartition(row["topic"], row["partition"]), row["offset"])
        lies = at[row["partition"], row["value"]]
        first_not_below = min(
            offset for (partition, _), offset in at.items() if offset >= found.offset and partition == row["partition"]
        )
        assert first_not_below == lies if found.exact else lies - 20 < first_not_below <= lies
