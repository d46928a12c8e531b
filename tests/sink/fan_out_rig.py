"""A `FanOut` on clients that answer or stay silent, and what was written and discarded."""

import json
import threading
from contextlib import contextmanager

import pyarrow as pa
from sink_fakes import AcknowledgingClient, FakeClient

from kafkasource.formats.dead_letters.makers import topic_for_records
from kafkasource.kafka.producer.partitioner import Partitioner
from kafkasource.kafka.producer.rows import Rows
from kafkasource.kafka.records.batches import decode
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.fan_out import FanOut
from kafkasource.sink.clusters.producers import ClusterProducers
from kafkasource.types import TopicPartition

LEADERS = {TopicPartition("t", 0): 1, TopicPartition("t", 1): 1}
SMALL = {"kafka.buffer.memory": 65536, "kafka.batch.size": 1024, "kafka.linger.ms": 0}


class SilentClient(FakeClient):
    """A cluster whose line is cut: metadata are known, nothing is answered."""

    def __init__(self, leaders=LEADERS):
        super().__init__(leaders)
        self.woken = threading.Event()

    def wakeup(self):
        self.woken.set()

    def poll(self, timeout_ms):
        self.woken.wait(min(timeout_ms, 1000) / 1000)
        self.woken.clear()

    def is_back(self, leaders=LEADERS):
        """The line is there again: what is on the wire is answered, too."""
        back = AnsweringClient(leaders)
        back.sent, back.inits, back.metadata = self.sent, self.inits, self.metadata
        self.wakeup, self.poll = back.wakeup, back.poll
        self.metadata.leaders = dict(leaders)
        self.woken.set()


class AnsweringClient(AcknowledgingClient):
    def __init__(self, leaders=LEADERS):
        super().__init__(leaders)


@contextmanager
def fan_out(clients, dead_letter_topic=None, **written):
    """`clients`: {name: client, or one for each producer}; options for all, or for one as `east__maxRecordAge`."""
    clusters = {name: {"kafka.bootstrap.servers": f"{name}:1"} | SMALL for name in clients}
    for key, value in written.items():
        name, _, option = key.rpartition("__")
        for each in clusters if not name else [name]:
            clusters[each][option.replace("_", ".")] = value
    bad = {} if dead_letter_topic is None else {"badRecords": f"topic:{dead_letter_topic}"}
    found = targets.parse({"clusters": json.dumps(clusters), **bad})
    producers = {
        name: ClusterProducers(
            found.by_name[name], clients=clients[name] if isinstance(clients[name], list) else [clients[name]]
        )
        for name in clients
    }
    topics = {
        name: topic_for_records(dead_letter_topic, Partitioner(1024), f"id of {name}")
        for name in (clients if dead_letter_topic is not None else ())
    }
    try:
        yield FanOut(producers, topics, wall_clock_ms=lambda: 1_000_000), producers
    finally:
        for each in producers.values():
            each.close(0)


def rows(count, key=None, value=b"v" * 100, timestamps=None):
    keys = None if key is None else pa.array([key] * count, pa.binary())
    stamps = None if timestamps is None else pa.array(timestamps, pa.int64())
    return Rows("t", count, keys, pa.array([value] * count, pa.binary()), None, None, stamps)


def write(to, batches):
    """One task."""
    with to.delivery() as delivery:
        for batch in batches:
            to.append(batch, delivery)
    return delivery


def written(delivery, name):
    return sum(one.records for one in delivery.written(name).values())


def discarded(delivery, name):
    return sum(one.records for one in delivery.discarded(name).values())


def values(client):
    """Of all that was sent, in that order."""
    found = []
    for sent in client.sent:
        for tp, batch in sent.batches.items():
            records = decode(
                batch,
                topic=tp.topic,
                partition=tp.partition,
                start_offset=0,
                end_offset=1 << 40,
                include_headers=False,
                max_decompressed_bytes=1 << 20,
                aborted_transactions=None,
            )
            found += [value for each in records.batches for value in each.column("value").to_pylist()]
    return found
