"""Tiered storage (KIP-405): a topic whose records are in remote storage alone. The storage is Kafka's own for tests."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.reader import Reader
from kafkasource.testing.broker import Broker, cache_dir, resolve_jars
from kafkasource.types import TopicPartition
from kafkasource.writer import Writer

pytestmark = [pytest.mark.broker, pytest.mark.extended]

VERSION = "4.3.1"  # the newest whose jar with the storage for tests is published
EARLIEST, LATEST, EARLIEST_LOCAL, LATEST_TIERED = -2, -1, -4, -5  # of ListOffsets
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "retention.ms": "-1",
    "local.retention.ms": "1000",
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "100",
}
RECORDS = 5_000


@pytest.fixture
def broker(tmp_path):
    jars = [f"org.apache.kafka:{name}:{VERSION}:test!" for name in ("kafka-storage", "kafka-clients")]
    folder = cache_dir() / f"kafka-storage-test-{VERSION}"
    resolve_jars(*jars, dest=folder)
    properties = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": f"{folder}/*",
        "rsm.config.dir": tmp_path,
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
    }
    with Broker(version=VERSION, properties=properties, use_existing=False) as broker:
        yield broker


def test_records_that_only_remote_storage_has_are_read(broker):
    tp, options = TopicPartition("t", 0), {"kafka.bootstrap.servers": broker.bootstrap_servers}
    with Cluster(ClientConfig.of(broker.bootstrap_servers)) as cluster:
        cluster.topics.create(["t"], partitions=1, replication_factor=1, configs=TIERED)
        values = [b"%06d" % number + b"x" * 1000 for number in range(RECORDS)]
        with Writer({**options, "topic": "t"}) as writer:
            for first in range(0, RECORDS, 1000):
                writer.write(pa.table({"value": values[first : first + 1000]}))
                writer.flush()

        def offset_at(place):
            return cluster.offsets.list({tp: place})[tp].offset

        deadline = time.monotonic() + 60
        while offset_at(EARLIEST_LOCAL) < RECORDS:  # the broker still has records itself
            assert time.monotonic() < deadline
        assert (offset_at(EARLIEST), offset_at(LATEST_TIERED), offset_at(LATEST)) == (0, RECORDS - 1, RECORDS)
    with Reader({**options, "subscribe": "t"}) as reader:
        read = pa.Table.from_batches(reader)
    assert read["value"].to_pylist() == values
    assert read["offset"].to_pylist() == [*range(RECORDS)]
