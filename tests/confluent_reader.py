"""What confluent-kafka reads of a topic."""

import uuid

from confluent_kafka import Consumer, TopicPartition


def values_of(bootstrap_servers, topic, partitions=(0,), isolation="read_committed"):
    """Values by partition, in the order of offsets, up to the ends that a reader of this isolation sees."""
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
    found, ended = {partition: [] for partition in partitions}, set()
    while len(ended) < len(found):
        message = consumer.poll(30)
        assert message is not None, "the reader heard nothing"
        if message.error():
            ended.add(message.partition())
        else:
            found[message.partition()].append(message.value())
    consumer.close()
    return found
