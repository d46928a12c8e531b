"""What confluent-kafka reads of a topic."""

import time
import uuid
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

AWAY = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)  # nodes, for a while: librdkafka goes on by itself


def messages_of(bootstrap_servers, topic, partitions=(0,), isolation="read_committed", *, settled=False):
    """The messages of these partitions, up to the ends that a reader of this isolation sees. Those of one partition are
    in the order of their offsets.

    `settled`: up to the ends of the logs, for tests that wrote in transactions. A broker says that a transaction has
    ended before its markers are in the partitions, and until then the end that a reader sees is in front of it.
    """
    ends = ends_of(bootstrap_servers, topic, partitions) if settled else dict.fromkeys(partitions, 0)
    found, ended = [], set()
    chosen = {"enable.partition.eof": True, "isolation.level": isolation}
    with closing(Consumer(settings(bootstrap_servers) | chosen)) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        while len(ended) < len(partitions):
            message = consumer.poll(30)
            assert message is not None, "the reader heard nothing, or a transaction does not end"
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                if message.offset() >= ends[message.partition()]:
                    ended.add(message.partition())
            elif error.code() not in AWAY:
                raise KafkaException(error)
    return found


def ends_of(bootstrap_servers, topic, partitions):
    """The ends of the logs, with what open transactions hold.

    A leader that was just elected first learns what is committed. Until then ListOffsets, unlike Fetch, names no end
    (KIP-207).
    """
    with closing(Consumer(settings(bootstrap_servers) | {"isolation.level": "read_uncommitted"})) as consumer:
        return {partition: _end_of(consumer, TopicPartition(topic, partition)) for partition in partitions}


def _end_of(consumer, partition):
    """librdkafka hands on what passes by itself: a leader not ready yet, or not one any more; a node that is away."""
    by_s = time.monotonic() + 60
    while True:
        try:
            return consumer.get_watermark_offsets(partition, timeout=30)[1]
        except KafkaException:
            if time.monotonic() > by_s:
                raise


def settings(bootstrap_servers):
    """`bootstrap_servers`: those, or all settings with which a client connects."""
    own_group = {"group.id": uuid.uuid4().hex, "enable.auto.commit": False}
    reached = {"bootstrap.servers": bootstrap_servers} if isinstance(bootstrap_servers, str) else bootstrap_servers
    return {**reached, "check.crcs": True, **own_group}


def values_of(bootstrap_servers, topic, partitions=(0,), isolation="read_committed", *, settled=False):
    """Values by partition, in the order of offsets."""
    found = {partition: [] for partition in partitions}
    for message in messages_of(bootstrap_servers, topic, partitions, isolation, settled=settled):
        found[message.partition()].append(message.value())
    return found


def cluster_id_of(servers: str) -> str:
    """Kafka's id of the cluster."""
    admin = AdminClient({"bootstrap.servers": servers})  # its futures need it alive
    return admin.describe_cluster().result(30).cluster_id
