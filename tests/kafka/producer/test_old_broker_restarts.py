"""Old brokers forget: one is killed under the sink and comes back; one loses a producer with its records."""

from __future__ import annotations

import plain_producer
import pyarrow as pa
import pytest

from kafkasource import options
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import DELETE_RECORDS
from kafkasource.source.spark.batch import BatchReader
from kafkasource.testing.broker import Broker
from kafkasource.types import TopicPartition
from kafkasource.writer import Writer

pytestmark = [pytest.mark.broker, pytest.mark.slow]

TOPIC, PARTITIONS = "killed", 3
APPENDS, ROWS = 60, 100


def test_every_record_is_there_after_a_kill_and_each_partition_keeps_its_order():
    """Twice at most: a batch whose answer died with the broker is sent again, and 0.9 does not know copies."""
    with Broker(version="0.9.0.1", use_existing=False, properties={"num.partitions": PARTITIONS}) as broker:
        servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        producer = plain_producer.producer(broker.bootstrap_servers, **{"kafka.batch.size": "2000"})
        try:
            with producer.delivery() as delivery:
                for turn in range(APPENDS):
                    values = [b"%d" % (turn * ROWS + number) for number in range(ROWS)]
                    plain_producer.append(producer, delivery, TOPIC, values, turn % PARTITIONS)
                    if turn == APPENDS // 2:
                        broker.kill()
                        broker.restart()
        finally:
            producer.close()
        assert delivery.records == APPENDS * ROWS
        reader = BatchReader(options.parse({**servers, "subscribe": TOPIC}, "source"))
        logs = {number: [] for number in range(PARTITIONS)}
        for task in reader.partitions():
            for arrow in reader.read(task):
                for number, value in zip(arrow["partition"].to_pylist(), arrow["value"].to_pylist(), strict=True):
                    logs[number].append(int(value))
    for number, log in logs.items():
        expected = [n for n in range(APPENDS * ROWS) if n // ROWS % PARTITIONS == number]
        assert list(dict.fromkeys(log)) == expected


@pytest.mark.extended
def test_a_producer_that_was_forgotten_with_all_of_its_records_goes_on():
    """The same happens after retention has emptied the partition between two batches."""
    with Broker(version="0.11.0.3", use_existing=False) as broker:
        servers = broker.bootstrap_servers
        with (
            Cluster(ClientConfig.of(servers)) as cluster,
            Writer({"kafka.bootstrap.servers": servers, "topic": TOPIC}) as writer,
        ):
            cluster.topics.create([TOPIC], partitions=1, replication_factor=1)
            writer.write(pa.table({"value": ["before"] * 5}))
            writer.flush()
            (node,) = cluster.caller.metadata.nodes()
            topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 5}]}]
            cluster.caller.call(node.node_id, DELETE_RECORDS, {"topics": topics, "timeout_ms": 5000})
            writer.write(pa.table({"value": ["after"] * 5}))
            assert writer.flush()[TopicPartition(TOPIC, 0)].first_offset == 5
