"""Bytes damaged on the way and on the broker's disk: fetched again once, never skipped."""

import pytest
from confluent_topic import Topic
from proxy import Proxy

from kafkasource.errors import CorruptRecordBatch
from kafkasource.testing.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture(scope="module")
def proxy():
    with Proxy() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def broker(proxy):
    """Of our own, since it is hurt; clients reach it through the proxy only."""
    with Broker(use_existing=False, advertised_ports=[proxy.address[1]]) as broker:
        proxy.upstream = ("127.0.0.1", broker.ports[0])
        yield broker


def rows(reader, tasks):
    return [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


def test_a_bit_flipped_on_the_way_is_fetched_again_on_a_new_connection(proxy, broker):
    topic = Topic(broker.bootstrap_servers)
    topic.write([{"value": b"%07d" % n * 20} for n in range(2000)])
    reader = topic.reader()
    tasks = reader.partitions()
    connections, harmed = proxy.connections, proxy.harmed
    proxy.flip(at=50_000)  # of the next answer, which is the fetch's
    read = rows(reader, tasks)
    assert proxy.harmed == harmed + 1
    assert proxy.connections > connections
    assert [r["offset"] for r in read] == list(range(2000))
    assert [r["value"] for r in read] == [b"%07d" % n * 20 for n in range(2000)]


def test_a_connection_cut_within_a_batch_repeats_and_loses_nothing(proxy, broker):
    topic = Topic(broker.bootstrap_servers)
    topic.write([{"value": b"%07d" % n * 20} for n in range(2000)])
    reader = topic.reader()
    tasks = reader.partitions()
    proxy.cut(after=50_000)
    assert [r["offset"] for r in rows(reader, tasks)] == list(range(2000))


def test_a_bit_flipped_on_disk_is_an_error_that_tells_where(broker):
    topic = Topic(broker.bootstrap_servers)
    topic.write([{"value": b"good"}])
    topic.write([{"value": b"b" * 100}])  # a batch of its own: another producer
    (log,) = broker.folder.rglob(f"{topic.name}-0/00000000000000000000.log")
    data = bytearray(log.read_bytes())
    data[-20] ^= 1
    with log.open("r+b") as file:  # in place: the broker has the file open
        file.write(data)
    with pytest.raises(CorruptRecordBatch, match=rf"{topic.name}.*offset 1"):
        topic.rows()
