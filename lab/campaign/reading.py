"""What librdkafka reads: topics at read_committed, their last stable offsets, what groups have committed."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaException, TopicPartition

from lab.campaign.checker import Record

_CONSUMER = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "log_level": 0,
}
CALL_S = 20.0


def _consumer(servers: str, group: str) -> Consumer:
    return Consumer({**_CONSUMER, "bootstrap.servers": servers, "group.id": group})


class LogReader:
    """Reads a topic from its beginning, and its partitions that are added; `records` in the order of each partition."""

    def __init__(self, servers: str, topic: str) -> None:
        self.topic = topic
        self.records: list[Record] = []
        self.values: set[bytes] = set()
        self._consumer = _consumer(servers, f"campaign-{topic}")
        self._assigned: set[int] = set()

    def look(self, wait_s: float = 0.2) -> int:
        """Read what there is now; how many records came."""
        found = self._consumer.list_topics(self.topic, timeout=CALL_S).topics[self.topic]
        if found.error is None and (new := set(found.partitions) - self._assigned):
            self._consumer.incremental_assign([TopicPartition(self.topic, partition, 0) for partition in sorted(new)])
            self._assigned |= new
        before = len(self.records)
        while messages := self._consumer.consume(5000, wait_s):
            came = [message for message in messages if not message.error()]
            self.records += [
                Record(each.partition(), each.offset(), each.key(), each.value(), tuple(each.headers() or ()))
                for each in came
            ]
            self.values.update(each.value() for each in came)
            if not came:
                break
        return len(self.records) - before

    def close(self) -> None:
        self._consumer.close()


def stable_ends(servers: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """Up to where a reader at read_committed gets now. Raises KafkaException."""
    consumer = _consumer(servers, "campaign-ends")
    try:
        consumer.list_topics(topic, timeout=CALL_S)
        return {
            partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=CALL_S)[1]
            for partition in partitions
        }
    finally:
        consumer.close()


def committed(servers: str, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """What the group has committed; partitions without a commit are left out. Raises KafkaException."""
    consumer = _consumer(servers, group)
    try:
        found = consumer.committed([TopicPartition(topic, partition) for partition in partitions], timeout=CALL_S)
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
        return {each.partition: each.offset for each in found if each.offset >= 0}
    finally:
        consumer.close()
