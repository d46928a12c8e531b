"""Four clusters on this machine: a source, whose own counters say what was read from it, and three targets.

Bytes are what the source's broker counts for a topic (`BrokerTopicMetrics`, `BytesOutPerSec`), asked by Kafka's own
JmxTool: no client is believed, and no proxy stands in anybody's way.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.offsets import EARLIEST, LATEST
from kafkasource.kafka.config import ClientConfig
from kafkasource.testing.broker import DEFAULT_VERSION, Broker
from kafkasource.testing.broker.jvm.home import find_java
from kafkasource.testing.broker.jvm.jars import cache_dir, kafka_jars, resolve_jars
from kafkasource.testing.broker.properties import free_ports
from kafkasource.types import TopicPartition
from kafkasource.writer import Writer
from lab.benchmarks.lab import prepare_environment

SOURCE, TARGETS = "source", ("east", "west", "south")
PARTITIONS, KEYS = 8, 5000
VALUE_BYTES = 100
PER_BATCH = 8192
JMX_TOOL = "org.apache.kafka.tools.JmxTool"


class MirrorLab:
    """A `with` block: all four run, `folder` is for whatever a contestant leaves; all of it is gone afterwards."""

    def __init__(self) -> None:
        self.brokers = {name: Broker(heap_mb=512, use_existing=False) for name in (SOURCE, *TARGETS)}
        self._jmx_port = free_ports(1)[0]
        self._stack = ExitStack()
        self._clusters: dict[str, Cluster] = {}

    def __enter__(self) -> MirrorLab:
        prepare_environment()
        with self._stack as stack:
            made = tempfile.TemporaryDirectory(prefix="kafkasource-mirror-", ignore_cleanup_errors=True)
            self.folder = Path(stack.enter_context(made))
            for name, broker in self.brokers.items():
                with _jmx(self._jmx_port) if name == SOURCE else ExitStack():
                    stack.enter_context(broker)
                config = ClientConfig.of(broker.bootstrap_servers, client_id="kafkasource-benchmarks")
                self._clusters[name] = stack.enter_context(Cluster(config))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def servers(self) -> Mapping[str, str]:
        """`bootstrap.servers` of each cluster by its name."""
        return {name: broker.bootstrap_servers for name, broker in self.brokers.items()}

    def create(self, name: str, topic: str) -> None:
        self._clusters[name].topics.create([topic], partitions=PARTITIONS, replication_factor=1)

    def clear(self, keep: str) -> None:
        """Drop every topic but the source's `keep`: MirrorMaker has offsets in its own, and would go on after them."""
        for name, cluster in self._clusters.items():
            if left := [
                one.name for one in cluster.topics.list() if not one.internal and (name, one.name) != (SOURCE, keep)
            ]:
                cluster.topics.delete(left)

    @contextmanager
    def filled(self, records: int) -> Iterator[str]:
        """A topic of the source with these records, by this connector's writer; dropped afterwards."""
        topic = f"mirror-{uuid.uuid4().hex[:8]}"
        self.create(SOURCE, topic)
        try:
            with Writer({"kafka.bootstrap.servers": self.servers[SOURCE], "topic": topic}) as writer:
                for first in range(0, records, PER_BATCH):
                    writer.write(batch_of(range(first, min(records, first + PER_BATCH))))
            yield topic
        finally:
            self.clear(keep="")

    def offsets(self, name: str, topic: str, which: int = LATEST) -> dict[int, int]:
        """Where the log of each partition ends, or begins; nothing where there is no such topic yet."""
        partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        known = self._clusters[name].topics.describe([topic], propagation_ms=0)[topic]
        if known is None or len(known.topic_partitions) < PARTITIONS:
            return {}
        listed = self._clusters[name].offsets.list(dict.fromkeys(partitions, which))
        return {tp.partition: one.offset or 0 for tp, one in listed.items()}

    def stored(self, name: str, topic: str) -> int:
        """Records of a topic that is neither compacted nor transactional: offsets have no holes."""
        ends = self.offsets(name, topic)
        return sum(ends.values()) - sum(self.offsets(name, topic, EARLIEST).values()) if ends else 0

    def log_bytes(self, name: str, topic: str) -> int:
        """Of all its segments, as they lie on the disk: what reading it once must carry."""
        folder = self.brokers[name].folder
        return sum(log.stat().st_size for log in Path(folder).glob(f"node-*/{topic}-*/*.log"))

    def bytes_out(self, topic: str) -> int:
        """What the source's broker has sent of this topic to its readers."""
        bean = f"kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic={topic}"
        url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{self._jmx_port}/jmxrmi"
        tools = resolve_jars(
            f"org.apache.kafka:kafka-tools:{DEFAULT_VERSION}!", dest=cache_dir() / f"kafka-tools-{DEFAULT_VERSION}"
        )
        jars = os.pathsep.join([*map(str, tools), f"{kafka_jars(DEFAULT_VERSION)}/*"])
        command = [str(find_java()), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", jars, JMX_TOOL]
        command += ["--jmx-url", url, "--object-name", bean, "--attributes", "Count", "--one-time"]
        command += ["--report-format", "properties"]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
        found = [line.rpartition("=")[2] for line in done.stdout.splitlines() if ":Count=" in line]
        if not found:
            if "No matched attributes" in done.stdout + done.stderr:
                return 0  # nobody has read it yet
            raise RuntimeError(f"JmxTool: {(done.stderr or done.stdout).strip()[-300:]}")
        return int(float(found[0]))


def batch_of(numbers: range) -> pa.RecordBatch:
    """Each value begins with its number, so that a key's values tell their order."""
    keys = pa.array([b"%07d" % (number % KEYS) for number in numbers], pa.binary())
    text = b'{"id":%012d,"user":"%016x","session":"%016x"}'
    values = [(text % (n, n * 2654435761 % 2**64, n * 40503 % 2**61)).ljust(VALUE_BYTES) for n in numbers]
    return pa.record_batch([keys, pa.array(values, pa.binary())], names=["key", "value"])


def number_of(value: bytes) -> int:
    """Which record of the topic this is, from its value."""
    return int(value[6:18])


@contextmanager
def _jmx(port: int) -> Iterator[None]:
    """A JVM that starts in this block answers JmxTool at this port."""
    told = "-Dcom.sun.management.jmxremote.authenticate=false -Dcom.sun.management.jmxremote.ssl=false"
    host = "-Djava.rmi.server.hostname=127.0.0.1 -Dcom.sun.management.jmxremote.host=127.0.0.1"
    before = os.environ.get("JAVA_TOOL_OPTIONS")
    own = f"{told} {host} -Dcom.sun.management.jmxremote.port={port} -Dcom.sun.management.jmxremote.rmi.port={port}"
    os.environ["JAVA_TOOL_OPTIONS"] = f"{before or ''} {own}".strip()
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_TOOL_OPTIONS"]
        else:
            os.environ["JAVA_TOOL_OPTIONS"] = before
