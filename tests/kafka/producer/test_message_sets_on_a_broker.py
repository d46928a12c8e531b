"""Message sets v0 and v1 on Kafka 0.10.2 and 3.9. The brokers of v0 are in tests/spark/test_every_broker.py."""

from __future__ import annotations

import uuid

import plain_producer
import pyarrow as pa
import pytest
from confluent_reader import messages_of

from kafkasource import options
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.producer import sender
from kafkasource.kafka.producer.partitioner import Partitioner
from kafkasource.kafka.producer.rows import Rows
from kafkasource.source.spark.batch import BatchReader
from kafkasource.testing.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.peers]

CODECS = ["none", "gzip", "snappy", "lz4"]
COUNT, TIME = 300, 1_700_000_000_000


@pytest.fixture(scope="module", params=["0.10.2.2", "3.9.2"])
def cluster(request):
    with (
        Broker(version=request.param, use_existing=False) as broker,
        Cluster(ClientConfig.of(broker.bootstrap_servers)) as one,
    ):
        yield broker.bootstrap_servers, one


def consumed(servers, topic, count):
    found = []
    for one in messages_of(servers, topic, settled=True):
        kind, millis = one.timestamp()
        found.append((one.offset(), one.key(), one.value(), millis if kind else -1))  # 0: it has none
    assert len(found) == count
    return found


def read_by_us(servers, topic, **given):
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic} | given
    reader = BatchReader(options.parse(given, "source"))
    found = []
    for task in reader.partitions():
        for arrow in reader.read(task):
            times = [us // 1000 for us in arrow["timestamp"].cast(pa.int64()).to_pylist()]
            found += zip(*(arrow[name].to_pylist() for name in ("offset", "key", "value")), times, strict=True)
    return found


@pytest.mark.parametrize("version", [0, 1, 2, None])
def test_a_broker_stores_the_message_sets_of_each_codec(cluster, monkeypatch, version):
    """None: in the version that is negotiated."""
    if version is not None:
        monkeypatch.setattr(sender, "_LAST_VERSION_BY_NAME", version)
    keeps_times = version not in (0, 1)
    servers, asked = cluster
    topic = f"sets-{uuid.uuid4().hex[:8]}"
    asked.topics.create([topic], replication_factor=1)  # 0.10 has no default for it
    expected = []
    for codec in CODECS:
        keys = [None if i % 5 == 0 else b"%d" % i for i in range(COUNT)]
        values = [None if i % 7 == 0 else codec.encode() + b" %d" % i * 50 for i in range(COUNT)]
        times = [TIME + i for i in range(COUNT)] if keeps_times else None
        producer = plain_producer.producer(servers, **{"kafka.compression.type": codec})
        try:
            with producer.delivery() as delivery:
                columns = pa.array(keys, pa.binary()), pa.array(values, pa.binary())
                stamps = None if times is None else pa.array(times, pa.int64())
                rows = Rows(topic, COUNT, *columns, None, None, stamps)
                producer.append(rows, Partitioner(producer.config.batch_bytes), delivery)
        finally:
            producer.close()
        assert delivery.records == COUNT
        expected += zip(keys, values, times or [-1] * COUNT, strict=True)
    found = consumed(servers, topic, len(expected))
    assert [row[0] for row in found] == list(range(len(expected)))
    assert [(row[1], row[2]) for row in found] == [row[:2] for row in expected]
    assert read_by_us(servers, topic) == found
    if keeps_times:
        assert [row[3] for row in found] == [row[2] for row in expected]
        late = read_by_us(servers, topic, startingTimestamp=str(TIME + 100))
        assert late == found[100:]  # by ListOffsets, which looks for the first such record
