"""Quotas of a real broker (KIP-219): it mutes the connection, and answers a fetch at once, with nothing in it."""

import os
import subprocess

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_reader import values_of

from kafkasource.reader import Reader
from kafkasource.testing.broker import Broker
from kafkasource.testing.broker.jvm.home import find_java
from kafkasource.testing.broker.jvm.jars import cache_dir, kafka_jars, resolve_jars
from kafkasource.testing.broker.releases import DEFAULT_VERSION
from kafkasource.writer import Writer

pytestmark = [pytest.mark.broker, pytest.mark.extended]

TOOL = "kafka.admin.ConfigCommand"  # what `kafka-configs.sh` runs
BYTES, RECORDS, RATE = 100_000, 60, 500_000  # 6 MB: some twelve seconds of the quota


@pytest.fixture(scope="module", params=["3.9.2", "4.3.1"])
def servers(request):
    with Broker(version=request.param, properties={"quota.window.num": 4}, use_existing=False) as broker:
        tools = resolve_jars(
            f"org.apache.kafka:kafka-tools:{DEFAULT_VERSION}!", dest=cache_dir() / f"kafka-tools-{DEFAULT_VERSION}"
        )
        jars = [*map(str, tools), str(kafka_jars(DEFAULT_VERSION) / "*")]
        tool = [find_java(), "-Xmx256m", "-cp", os.pathsep.join(jars), TOOL]
        quota = f"consumer_byte_rate={RATE},producer_byte_rate={RATE}"
        where = ["--bootstrap-server", broker.bootstrap_servers, "--entity-type", "clients", "--entity-name", "slow"]
        done = subprocess.run(
            [*tool, *where, "--alter", "--add-config", quota], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        yield broker.bootstrap_servers


def values():
    return [b"%03d" % number + os.urandom(BYTES) for number in range(RECORDS)]


def was_throttled(caplog):
    return "a quota is exceeded" in caplog.text


def test_a_read_over_its_quota_waits_and_gives_every_record_once(servers, caplog):
    caplog.set_level("DEBUG", "kafkasource")
    expected = values()
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})  # which keeps the order
    for value in expected:
        producer.produce("read", value, partition=0)
    assert producer.flush(60) == 0
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": "read",
        "kafka.client.id": "slow",
        "kafka.max.partition.fetch.bytes": "300000",
    }
    with Reader(options) as reader:
        found = [value for batch in reader for value in batch.column("value").to_pylist()]
    assert found == expected
    assert was_throttled(caplog)


def test_a_write_over_its_quota_waits_and_stores_every_record_once(servers, caplog):
    caplog.set_level("DEBUG", "kafkasource")
    expected = values()
    options = {
        "kafka.bootstrap.servers": servers,
        "topic": "written",
        "createTopic": "partitions=1,replication=1",
        "kafka.client.id": "slow",
        "kafka.batch.size": "200000",
    }
    with Writer(options) as writer:
        for value in expected:
            writer.write(pa.table({"value": pa.array([value], pa.binary())}))
    assert values_of(servers, "written", [0])[0] == expected
    assert was_throttled(caplog)
