"""What several suites need. `kafka_broker` and `kafka_topic` come from `kafkasource.testing.fixtures`, as they do for
users."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import chromium
import class_archive
import jvm_connector
import pytest
from fake_broker import close_clients
from java_programs import SHORT_LIVED_JVM
from run_rules import (  # noqa: F401 (hooks of pytest)
    folder_of_this_run,
    give_signals_back,
    pytest_collection_modifyitems,
    pytest_make_collect_report,
    pytest_runtest_makereport,
    pytest_terminal_summary,
    pytest_xdist_make_scheduler,
)
from secured_brokers import secured
from three_brokers import heal, not_started

import kafkasource
from lab.campaign import crash_points

give_signals_back()

ROOT = Path(__file__).parent.parent

# Spark starts its workers with the Python named here, else with whatever python3 the PATH has.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


@pytest.fixture(scope="session", autouse=True)
def _jvms_live_for_seconds():
    """The JVMs of brokers and of Spark drivers, in this process or in one that a test starts. A driver has a
    folder for temporary files. Spark's Python daemon makes its unix socket there, and nobody removes it.

    The folder's path is short, as that of a unix socket must be (107 bytes).
    """
    with (
        folder_of_this_run("spark-jvm") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        spark, kafka = map(class_archive.using, (class_archive.SPARK, class_archive.KAFKA))
        patch.setenv("SPARK_SUBMIT_OPTS", f"{SHORT_LIVED_JVM} {spark} -Djava.io.tmpdir={folder}")
        patch.setenv("SPARK_LAUNCHER_OPTS", SHORT_LIVED_JVM)
        patch.setenv("KAFKA_JVM_PERFORMANCE_OPTS", f"{SHORT_LIVED_JVM} {kafka}")
        yield


@pytest.fixture(autouse=True)
def _clients_of_fake_networks_end_with_their_test():
    yield
    close_clients()


def spark_session(folder: Path, jars: list[Path] | None = None):
    """A local session of two cores that keeps all its files in `folder`."""
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[2]")
        .appName("kafkasource tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
    )
    if jars:
        builder = builder.config("spark.jars", ",".join(map(str, jars)))
    return builder.getOrCreate()


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    command = chromium.installed()
    if command is None:
        pytest.skip("no Chromium (apt-get install chromium): the page is not looked at")
    with chromium.Chromium(command, tmp_path_factory.mktemp("chromium")) as one:
        yield one


@pytest.fixture(scope="session")
def secured_broker():
    """A Kafka 4.3.1 with every way to secure a listener: see secured_brokers.py."""
    with secured("4.3.1") as broker:
        yield broker


@pytest.fixture(scope="session")
def secured_broker_3_9():
    with secured("3.9.2") as broker:
        yield broker


@pytest.fixture(
    scope="session",
    params=["secured_broker", pytest.param("secured_broker_3_9", marks=pytest.mark.extended)],
    ids=["4.3.1", "3.9.2"],
)
def each_secured_broker(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def _three_brokers():
    with not_started() as brokers:
        yield brokers


@pytest.fixture
def three_brokers(_three_brokers):
    """Three brokers that a test may hurt: whole when it begins. See three_brokers.py."""
    yield _three_brokers
    heal(_three_brokers)


@pytest.fixture(scope="session")
def _crash_file(tmp_path_factory):
    return tmp_path_factory.mktemp("crash") / "crash"


@pytest.fixture(scope="session")
def spark(request, tmp_path_factory, _crash_file):
    """One Spark for the whole run. The JVM connector is on its class path if a test of the run needs it."""
    jars = None
    if any(item.get_closest_marker("jvm_connector") for item in request.session.items):
        jars = jvm_connector.jars()
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in crash_points.environment(_crash_file).items():  # the JVM hands them to all Python processes
            monkeypatch.setenv(name, value)
        session = spark_session(folder, jars)
    yield session
    session.stop()


@pytest.fixture
def crash_file(spark, _crash_file):
    """The file that names the point at which one of Spark's Python processes is to kill itself."""
    yield _crash_file
    _crash_file.unlink(missing_ok=True)  # else a test that fails before its crash lets the next one have it


@pytest.fixture(scope="session")
def pykafka(spark, kafka_broker):
    """Spark with the format registered, and short ways to read and write on the test cluster."""
    kafkasource.register(spark)
    return Pykafka(spark, kafka_broker.bootstrap_servers)


class Pykafka:
    def __init__(self, spark, bootstrap_servers):
        self.spark = spark
        self.bootstrap_servers = bootstrap_servers

    def reading(self, topic, *, stream=False, **options):
        reader = self.spark.readStream if stream else self.spark.read
        options = {"subscribe": topic, **options} if topic else options
        return reader.format("pykafka").option("kafka.bootstrap.servers", self.bootstrap_servers).options(**options)

    def read(self, topic, **options):
        return self.reading(topic, **options).load()

    def write(self, frame, topic=None, **options):
        options = {"topic": topic, **options} if topic else options
        frame.write.format("pykafka").option("kafka.bootstrap.servers", self.bootstrap_servers).options(**options).mode(
            "append"
        ).save()

    def values(self, topic, **options):
        """The values of a topic as texts, sorted."""
        return sorted(bytes(row.value).decode() for row in self.read(topic, **options).select("value").collect())
