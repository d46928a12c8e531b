"""A topic as old as 0.8: segments of message sets v0 and v1, then record batches, and a broker that serves them.

Kafka's own classes wrote the segment; the broker, stopped meanwhile, finds it in its data as after an upgrade.
"""

from __future__ import annotations

import uuid

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_reader import messages_of
from record_wire import ask_kafka

from kafkasource import options
from kafkasource.source.spark.batch import BatchReader
from kafkasource.testing.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.peers]

TIME = 1_500_000_000_000
SETS = [(magic, codec) for magic in (0, 1) for codec in ("none", "gzip", "snappy", "lz4")]
PER_SET, SETS_OF_EACH, BATCHES = 50, 20, 30
OLD = len(SETS) * SETS_OF_EACH * PER_SET
COUNT = OLD + BATCHES


def segment():
    """The bytes of a log: each format and codec in turn, v0 before v1; among v1 some with log append time."""
    commands, offset = [], 0
    for magic, codec in SETS:
        for i in range(SETS_OF_EACH):
            records = [
                f"{TIME + offset + j},{'-' if j % 3 else b'key'.hex()},{'-' if j % 7 == 6 else (b'%d ' % j * 20).hex()}"
                for j in range(PER_SET)
            ]
            commands.append(["write", magic, codec, offset, TIME + offset if magic and i % 5 == 4 else -1, *records])
            offset += PER_SET
    return b"".join(bytes.fromhex(line) for line in ask_kafka(commands))


@pytest.fixture(scope="module")
def old_topic():
    """(bootstrap servers, name)."""
    name = f"old-{uuid.uuid4().hex[:10]}"
    with Broker(version="3.9.2", use_existing=False) as broker:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        new = NewTopic(name, 1, 1, config={"retention.ms": "-1"})
        admin = AdminClient(servers)
        admin.create_topics([new])[name].result(30)
        broker.terminate()
        log = broker.folder / "node-1" / f"{name}-0"
        for index in [*log.glob("*index"), *log.glob("*.snapshot")]:
            index.unlink()  # the broker makes them anew
        (log / "00000000000000000000.log").write_bytes(segment())
        broker.restart()
        producer = confluent_kafka.Producer(servers)
        for i in range(BATCHES):
            producer.produce(name, b"new %d" % i, timestamp=TIME + OLD + i, headers=[("h", b"x")])
        assert producer.flush(30) == 0
        yield broker.bootstrap_servers, name


def as_confluent_sees(servers, name):
    rows = []
    for m in messages_of(servers, name, settled=True):
        kind, millis = m.timestamp()
        kind, millis = (kind - 1, millis) if kind else (-1, -1)  # librdkafka: 0 no timestamp, 1 create, 2 log append
        rows.append((m.offset(), kind, millis, m.key(), m.value(), m.headers()))
    assert len(rows) == COUNT
    return rows


def as_we_see(servers, name, **given):
    given = {"kafka.bootstrap.servers": servers, "subscribe": name, "includeHeaders": "true"} | given
    reader = BatchReader(options.parse(given, "source"))
    rows = []
    for task in reader.partitions():
        for arrow in reader.read(task):
            columns = [arrow[column].to_pylist() for column in ("offset", "timestampType", "key", "value", "headers")]
            times = [us // 1000 for us in arrow["timestamp"].cast(pa.int64()).to_pylist()]
            for offset, kind, key, value, headers, time in zip(*columns, times, strict=True):
                pairs = [(h["key"], h["value"]) for h in headers] if headers is not None else None
                rows.append((offset, kind, time, key, value, pairs))
    return rows


def test_old_and_new_records_are_those_that_confluent_kafka_sees(old_topic):
    seen = as_confluent_sees(*old_topic)
    assert [row[0] for row in seen] == list(range(COUNT))
    assert {row[1] for row in seen} == {-1, 0, 1}
    assert as_we_see(*old_topic) == seen
    # Fetches that begin and end within wrappers, and answers that hold a part of a set.
    name = old_topic[1]
    small = {"kafka.max.partition.fetch.bytes": "3000", "startingOffsets": f'{{"{name}":{{"0":333}}}}'}
    ending = {"endingOffsets": f'{{"{name}":{{"0":{OLD + 7}}}}}'}
    assert as_we_see(*old_topic, **small, **ending) == seen[333 : OLD + 7]
    assert as_we_see(*old_topic, **{"kafka.isolation.level": "read_committed"}) == seen
