"""Where it is measured: a broker of its own, topics, and a Spark session with all contestants in it.

Everything is on one machine: broker, Spark and the clients share its cores, as they do in every row.
"""

from __future__ import annotations

import os
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.testing.broker import Broker, Security, cache_dir, resolve_jars
from lab.benchmarks.records import Records
from lab.jvm_connector import jvm_connector_jars

ROOT = Path(__file__).parents[2]
SPARK_CONF = ROOT / "spark-conf" / "spark-defaults.conf"


class Lab:
    """A `with` block: the broker runs, `spark` starts when first asked for; all of it is gone afterwards."""

    def __init__(self, security: Security | None = None) -> None:
        """`security`: further listeners of the broker; it has PLAINTEXT anyway."""
        self._broker = Broker(heap_mb=1024, properties={"log.segment.delete.delay.ms": 1000}, security=security)
        self._secured = security is not None
        self._spark: Any = None
        self.way_in: Mapping[str, str] = {}  # options of Spark's contestants, where they do not take PLAINTEXT

    def __enter__(self) -> Lab:
        prepare_environment()
        self._temporary = tempfile.TemporaryDirectory(prefix="kafkasource-bench-", ignore_cleanup_errors=True)
        self.folder = Path(self._temporary.name)
        self._broker.start()
        self._cluster = Cluster(ClientConfig.of(self.servers, client_id="kafkasource-benchmarks"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_spark()
        self._cluster.close()
        self._broker.stop()
        self._temporary.cleanup()

    @contextmanager
    def beside(self, security: Security) -> Iterator[Lab]:
        """The same Spark session with another broker, which runs for the block."""
        other = Lab(security)
        other._spark, other.folder = self.spark, self.folder
        with other._broker:
            other._cluster = Cluster(ClientConfig.of(other.servers, client_id="kafkasource-benchmarks"))
            with other._cluster:
                yield other

    @property
    def servers(self) -> str:
        """Of PLAINTEXT."""
        broker = self._broker
        return broker.secured.bootstrap_servers("PLAINTEXT") if self._secured else broker.bootstrap_servers

    @property
    def reach(self) -> dict[str, str]:
        """The options of Spark's contestants that reach the broker."""
        return {"kafka.bootstrap.servers": self.servers, **self.way_in}

    @property
    def broker(self) -> Broker:
        return self._broker

    @property
    def spark(self) -> Any:
        """One session of two cores for all contestants, with the settings of spark-conf/."""
        if self._spark is None:
            self._spark = start_spark(self.folder)
        return self._spark

    def stop_spark(self) -> None:
        """Before a session in another process, which would compete with this one for memory."""
        if self._spark is not None:
            self._spark.stop()
            self._spark = None

    def new_topic(self, partitions: int = 4, **configs: str) -> str:
        name = f"bench-{uuid.uuid4().hex[:12]}"
        self._cluster.topics.create([name], partitions=partitions, replication_factor=1, configs=configs)
        return name

    def size_mb(self, topic: str) -> float:
        """Ask the leaders how large the topic is on disk."""
        found = self._cluster.topics.describe([topic])[topic]
        assert found is not None
        return sum(self._cluster.log_sizes(found.topic_partitions).sizes.values()) / 1e6

    def drop(self, topic: str) -> None:
        self._cluster.topics.delete([topic])

    @contextmanager
    def topic_of(self, records: Records, **configs: str) -> Iterator[str]:
        """A topic that holds these records, written by this connector's sink; dropped afterwards."""
        topic = self.new_topic(records.partitions, **configs)
        try:
            self.fill(topic, records.frame(self.spark), records.codec)
            yield topic
        finally:
            self.drop(topic)

    def fill(self, topic: str, frame: Any, codec: str = "none") -> None:
        options = {"kafka.compression.type": codec, "kafka.max.request.size": str(4 << 20)}
        save(frame, "pykafka", {"kafka.bootstrap.servers": self.servers, "topic": topic, **options})


def prepare_environment() -> None:
    """For this process and those it starts: the same Python everywhere, and this tree to import from."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process compiles what it imports
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))


def spark_conf() -> dict[str, str]:
    """The settings that this project recommends."""
    lines = (line.strip() for line in SPARK_CONF.read_text().splitlines())
    return dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))


def start_spark(folder: Path, master: str = "local[2]", settings: Mapping[str, str] | None = None) -> Any:
    """A session with every contestant's format. `settings` instead of spark-conf/'s, where given."""
    from lab.benchmarks.ready_arrow import ReadyArrow
    from lab.benchmarks.wire_ceiling import WireCeiling

    own = {
        "spark.jars": ",".join([*map(str, jvm_connector_jars()), *format_jars()]),
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
    }
    spark = start_with_ours(folder, master, {**(spark_conf() if settings is None else settings), **own})
    spark.dataSource.register(ReadyArrow)
    spark.dataSource.register(WireCeiling)
    return spark


def format_jars() -> list[str]:
    """Of from_avro and from_protobuf, which pyspark has not."""
    named = os.environ.get("KAFKASOURCE_SPARK_PROTOBUF_JARS", "")  # with a comma between them
    avro = resolve_jars("org.apache.spark:spark-avro_2.13:4.2.0!", dest=cache_dir() / "spark-avro-4.2.0")
    return [*map(str, avro), *filter(None, named.split(","))]


def start_with_ours(folder: Path, master: str, settings: Mapping[str, str]) -> Any:
    """A session that keeps its files in `folder`, with our format alone: on any release of Spark."""
    from pyspark.sql import SparkSession

    import kafkasource

    builder = SparkSession.builder.master(master).appName("kafkasource benchmarks")
    own = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    for name, value in {**settings, **own}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    kafkasource.register(spark)
    return spark


def load(spark: Any, format_name: str, options: Mapping[str, str]) -> Any:
    return spark.read.format(format_name).options(**options).load()


def to_noop(frame: Any) -> None:
    """All columns of all rows, to Spark's sink that keeps nothing."""
    frame.write.format("noop").mode("overwrite").save()


def save(frame: Any, format_name: str, options: Mapping[str, str]) -> None:
    frame.write.format(format_name).options(**options).mode("append").save()
