"""What confluent-kafka reads of a topic."""

import uuid

from confluent_kafka import Consumer, TopicPartition


def messages_of(bootstrap_servers, topic, partitions=(0,), isolation="read_committed", *, settled=False):
    """The messages of these partitions, up to the ends that a reader of this isolation sees. Those of one partition are
    in the order of their offsets.

    `settled`: up to the ends of the logs, for tests that wrote in transactions. A broker says that a transaction has
    ended before its markers are in the partitions, and until then the end that a reader sees is in front of it.
    """
    ends = ends_of(bootstrap_servers, topic, partitions) if settled else dict.fromkeys(partitions, 0)
    consumer = Consumer(settings(bootstrap_servers) | {"enable.partition.eof": True, "isolation.level": isolation})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found, ended = [], set()
    while len(ended) < len(partitions):
        message = consumer.poll(30)
        assert message is not None, "the reader heard nothing, or a transaction does not end"
        if not message.error():
            found.append(message)
            continue
        if message.offset() >= ends[message.partition()]:
            ended.add(message.partition())
    consumer.close()
    return found


def ends_of(bootstrap_servers, topic, partitions):
    """The ends of the logs, with what open transactions hold.

    ListOffsets, unlike Fetch, waits until a leader that was just elected knows what is committed (KIP-207).
    """
    consumer = Consumer(settings(bootstrap_servers) | {"isolation.level": "read_uncommitted"})
    ends = {each: consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=30)[1] for each in partitions}
    consumer.close()
    return ends


def settings(bootstrap_servers):
    return {"bootstrap.servers": bootstrap_servers, "group.id": uuid.uuid4().hex, "enable.auto.commit": False}


def values_of(bootstrap_servers, topic, partitions=(0,), isolation="read_committed", *, settled=False):
    """Values by partition, in the order of offsets."""
    found = {partition: [] for partition in partitions}
    for message in messages_of(bootstrap_servers, topic, partitions, isolation, settled=settled):
        found[message.partition()].append(message.value())
    return found
