"""The topic whose records are removed while they are read: what removes them, and what the reader said of it."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from lab.campaign.checker import Passed
from lab.campaign.faults import Fault
from lab.campaign.harms.lane import NotPossible
from lab.campaign.queries import Names
from lab.campaign.rig import Brokers
from lab.campaign.storm.readers_app import SAID_LOST
from lab.campaign.storm.writers_app import PASSING_PARTITIONS

TOLD = "what passing gave"
KEPT = 20  # newest records, at most, that a removal leaves
CALL_S = 20.0
_RANGE = re.compile(r"in offset \[(\d+), (\d+)\) for topic partition (\S+)-(\d+)")


class Removals:
    def __init__(self, brokers: Brokers, names: Names) -> None:
        self._brokers, self._topic = brokers, names.passing
        self.below: dict[int, int] = {}  # by partition: the log start offset that was asked for last

    def remove(self, fault: Fault) -> None:
        """All but the newest records of one partition, as retention does. Raises KafkaException."""
        partition, kept = fault.node % PASSING_PARTITIONS, int(fault.draw * KEPT)
        start, end = self._ends(partition)
        if end - kept <= start:
            raise NotPossible(f"the log is [{start}, {end})")
        self.below[partition] = max(end - kept, self.below.get(partition, 0))
        at = TopicPartition(self._topic, partition, end - kept)
        # A new client: leaders that it knew may have moved.
        admin = AdminClient({"bootstrap.servers": self._brokers.servers, "log_level": 0})
        admin.delete_records([at], request_timeout=CALL_S)[at].result(CALL_S)

    def _ends(self, partition: int) -> tuple[int, int]:
        consumer = Consumer({"bootstrap.servers": self._brokers.servers, "group.id": "removals", "log_level": 0})
        try:
            found: tuple[int, int] = consumer.get_watermark_offsets(
                TopicPartition(self._topic, partition), timeout=CALL_S
            )
            return found
        finally:
            consumer.close()

    def passed(self, folder: Path) -> Passed:
        return Passed(self._topic, TOLD, said_lost((folder / SAID_LOST).read_text(), self._topic), self.below)


def said_lost(text: str, topic: str) -> dict[int, list[tuple[int, int]]]:
    """The offsets that warnings name, by partition."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for start, end, named, partition in _RANGE.findall(text):
        if named == topic:
            found[int(partition)].append((int(start), int(end)))
    return dict(found)
