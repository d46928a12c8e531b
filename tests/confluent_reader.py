"""What confluent-kafka reads of a topic."""

import uuid

from confluent_kafka import Consumer, TopicPartition


def messages_of(bootstrap_servers, topic, partitions=(0,), isolation="read_committed"):
    """The messages of these partitions, up to the ends that a reader of this isolation sees. Those of one partition are
    in the order of their offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found, ended = [], set()
    while len(ended) < len(partitions):
        message = consumer.poll(30)
        assert message is not None, "the reader heard nothing"
        if message.error():
            ended.add(message.partition())
        else:
            found.append(message)
    consumer.close()
    return found


def values_of(bootstrap_servers, topic, partitions=(0,), isolation="read_committed"):
    """Values by partition, in the order of offsets."""
    found = {partition: [] for partition in partitions}
    for message in messages_of(bootstrap_servers, topic, partitions, isolation):
        found[message.partition()].append(message.value())
    return found
