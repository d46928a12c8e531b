"""Spark's JVM connector as the oracle: the same topic, the same rows."""

from __future__ import annotations

import uuid

import pytest
from chispa import assert_df_equality

from kafkasource.client.cluster import Cluster
from kafkasource.client.config import ClientConfig

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.peers]


@pytest.fixture(scope="module")
def written_by_both(pykafka, kafka_broker):
    """A topic with rows from both sinks: keys and values null, empty and not; headers; three partitions."""
    cluster = Cluster(ClientConfig.of(kafka_broker.bootstrap_servers))
    topic = f"rows-of-both-connectors-{uuid.uuid4().hex[:8]}"
    cluster.create_topics([topic], partitions=3, replication_factor=1)
    schema = "key binary, value binary, headers array<struct<key:string,value:binary>>"
    rows = [
        (None, b"no key", None),
        (b"", b"", [("h", b"1"), ("h", None), ("", b"")]),
        (b"k", None, []),
        *[(f"key-{i}".encode(), f"value-{i}".encode() * (i % 7), None) for i in range(300)],
    ]
    frame = pykafka.spark.createDataFrame(rows, schema)
    for name in ("kafka", "pykafka"):
        frame.write.format(name).option("kafka.bootstrap.servers", pykafka.bootstrap_servers).option(
            "topic", topic
        ).mode("append").save()
    yield topic
    cluster.delete_topics([topic])
    cluster.close()


@pytest.mark.parametrize("headers", ["false", "true"])
def test_our_batch_rows_are_the_jvm_connectors(pykafka, written_by_both, headers):
    ours = pykafka.read(written_by_both, includeHeaders=headers)
    theirs = (
        pykafka.spark.read.format("kafka")
        .option("kafka.bootstrap.servers", pykafka.bootstrap_servers)
        .option("subscribe", written_by_both)
        .option("includeHeaders", headers)
        .load()
    )
    assert theirs.count() == 606
    assert_df_equality(ours, theirs, ignore_row_order=True)


def test_our_sink_chooses_the_partitions_that_the_jvm_connector_chooses(pykafka, written_by_both):
    """Each keyed row was written by both sinks: its key must be in one partition only."""
    placed = pykafka.read(written_by_both).where("length(key) > 0").select("key", "partition").collect()
    partitions = {}
    for row in placed:
        partitions.setdefault(bytes(row.key), set()).add(row.partition)
    assert len(partitions) == 301
    assert {len(found) for found in partitions.values()} == {1}
