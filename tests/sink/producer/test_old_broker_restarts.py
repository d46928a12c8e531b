"""A broker from before idempotence is killed under the sink, and comes back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafkasource import options
from kafkasource.broker import Broker
from kafkasource.sink.columns import Rows
from kafkasource.sink.partitioner import Partitioner
from kafkasource.sink.producer.config import ProducerConfig
from kafkasource.sink.producer.producer import Producer
from kafkasource.source.spark.batch import BatchReader

pytestmark = [pytest.mark.broker, pytest.mark.slow]

TOPIC, PARTITIONS = "killed", 3
APPENDS, ROWS = 60, 100


def numbers_of(first):
    return pa.array([b"%d" % (first + i) for i in range(ROWS)], pa.binary())


def test_every_record_is_there_after_a_kill_and_each_partition_keeps_its_order():
    """Twice at most: a batch whose answer died with the broker is sent again, and 0.9 does not know copies."""
    with Broker(version="0.9.0.1", use_existing=False, properties={"num.partitions": PARTITIONS}) as broker:
        servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        config = ProducerConfig.from_options(options.parse({**servers, "kafka.batch.size": "2000"}, "sink"))
        producer = Producer(config)
        try:
            with producer.delivery() as delivery:
                for turn in range(APPENDS):
                    partitions = pa.array([turn % PARTITIONS] * ROWS, pa.int32())
                    rows = Rows(TOPIC, ROWS, None, numbers_of(turn * ROWS), None, partitions, None)
                    producer.append(rows, Partitioner(config.batch_bytes), delivery)
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
