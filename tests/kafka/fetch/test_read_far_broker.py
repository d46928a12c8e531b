"""A real broker that is 20 ms away: rows exact, in few large fetches, and in time where the line is thin."""

import contextlib

import pyarrow as pa
import pytest
from confluent_topic import Topic
from fetch_rig import fetch_settings
from proxy import Proxy, ThroughProxy

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.fetch.partition import ClusterPartition
from kafkasource.kafka.fetch.task import fetch
from kafkasource.types import OffsetRange, TopicPartition

pytestmark = pytest.mark.broker


@contextlib.contextmanager
def far_away(kafka_broker, **given):
    host, port = kafka_broker.bootstrap_servers.split(",")[0].rsplit(":", 1)
    config = ClientConfig.of(kafka_broker.bootstrap_servers, **given)
    with (
        Proxy((host, int(port)), delay_ms=10) as proxy,
        Cluster(config, connector=ThroughProxy(config, proxy)) as cluster,
    ):
        yield proxy, cluster


@pytest.fixture
def far(kafka_broker):
    with far_away(kafka_broker) as (_, cluster):
        yield cluster


def test_a_broker_that_is_far_is_read_exactly_in_large_fetches(kafka_broker, far, monkeypatch):
    topic, count = Topic(kafka_broker.bootstrap_servers), 20_000
    topic.write([{"value": b"%09d" % n * 11} for n in range(count)], batch_size=16_384)
    sizes = []
    send = ClusterPartition.send
    monkeypatch.setattr(
        ClusterPartition, "send", lambda self, offset, size: (sizes.append(size), send(self, offset, size))[1]
    )
    settings = fetch_settings(max_partition_bytes=50_000, read_ahead=8)
    ranges = [OffsetRange(TopicPartition(topic.name, 0), 3, count)]
    rows = pa.Table.from_batches(list(fetch(far, ranges, settings)))
    assert rows.column("offset").to_pylist() == list(range(3, count))
    assert rows.column("value").to_pylist() == [b"%09d" % n * 11 for n in range(3, count)]
    assert sizes[0] == 50_000
    assert 50_000 < max(sizes) <= 8 * 50_000


def test_many_small_ranges_are_fetched_side_by_side_and_read_in_order(kafka_broker, far):
    topic = Topic(kafka_broker.bootstrap_servers, partitions=20)
    topic.write([{"value": b"%d" % n, "partition": n % 20} for n in range(400)])
    ranges = [OffsetRange(TopicPartition(topic.name, partition), partition % 3, 20) for partition in range(20)]
    rows = pa.Table.from_batches(list(fetch(far, ranges, fetch_settings())))
    expected = [b"%d" % (offset * 20 + p) for p in range(20) for offset in range(p % 3, 20)]
    assert rows.column("value").to_pylist() == expected


def test_fetches_over_a_thin_line_come_within_their_requests_time(kafka_broker):
    """A MB each second; grown as the way is long, a fetch of 4 MiB would take longer than its request may."""
    topic, count = Topic(kafka_broker.bootstrap_servers), 5_000
    topic.write([{"value": b"%09d" % n * 111} for n in range(count)], batch_size=16_384)
    settings = fetch_settings(max_partition_bytes=256_000, read_ahead=16)
    ranges = [OffsetRange(TopicPartition(topic.name, 0), 0, count)]
    with far_away(kafka_broker, request_timeout_ms=2_000) as (proxy, cluster):
        proxy.from_broker_bytes_per_s = 1e6
        rows = pa.Table.from_batches(list(fetch(cluster, ranges, settings)))
        assert rows.column("offset").to_pylist() == list(range(count))
        assert proxy.connections == 1  # no fetch was given up
