"""Two hundred topics of which 1 % of the partitions are busy, and topics that are added; records by librdkafka."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

TOPICS, PARTITIONS = 200, 50
BUSY_ONE_IN = 100
PATTERN = "wide-.*"
AT_ONCE = 20  # topics of a request: a broker makes their partitions before it answers
_CREATE_S = 600


class Topics(threading.Thread):
    """Writes a record to each busy partition every `every_s`, until `stop`. `written`: acknowledged so far."""

    def __init__(self, servers: str, every_s: float = 0.5) -> None:
        super().__init__(name="records of wide topics", daemon=True)
        self._every_s = every_s
        self._admin = AdminClient({"bootstrap.servers": servers, "socket.timeout.ms": 300_000, "log_level": 0})
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20, "log_level": 0}
        )
        self._ending = threading.Event()
        self.busy: list[tuple[str, int]] = []
        self.names: list[str] = []
        self.written = 0
        self.error: confluent_kafka.KafkaException | None = None  # with which the thread has ended

    def create(self, count: int = TOPICS, partitions: int = PARTITIONS) -> float:
        """Further topics; seconds that it took."""
        began_s = time.monotonic()
        new = [f"wide-{len(self.names) + n:04d}" for n in range(count)]
        for first in range(0, count, AT_ONCE):
            wanted = [NewTopic(name, partitions, 1) for name in new[first : first + AT_ONCE]]
            for made in self._admin.create_topics(wanted, operation_timeout=_CREATE_S).values():
                made.result(_CREATE_S)
        self._await_leaders(new, partitions)
        everywhere = [(name, partition) for name in new for partition in range(partitions)]
        self.names += new
        self.busy += everywhere[::BUSY_ONE_IN] if count > 1 else everywhere
        return time.monotonic() - began_s

    def _await_leaders(self, names: list[str], partitions: int) -> None:
        """The controller answers before brokers know the topics, and a producer gives up a topic that none knows."""
        deadline = time.monotonic() + _CREATE_S
        while True:
            known = self._admin.list_topics(timeout=_CREATE_S).topics
            if all(name in known and _leads(known[name].partitions.values(), partitions) for name in names):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"not all of {len(names)} new topics have leaders after {_CREATE_S} s")
            time.sleep(0.2)

    def run(self) -> None:
        try:
            self._write()
        except confluent_kafka.KafkaException as error:
            self.error = error

    def _write(self) -> None:
        while not self._ending.wait(self._every_s):
            for topic, partition in list(self.busy):
                self._producer.produce(topic, b"x" * 100, partition=partition, on_delivery=self._delivered)
            self._producer.poll(0)

    def _delivered(self, error: object, _message: object) -> None:
        self.written += error is None

    def stop(self) -> None:
        self._ending.set()
        self.join()
        self._producer.flush(60)
        if self.error is not None:
            raise self.error


def _leads(partitions: Collection[PartitionMetadata], wanted: int) -> bool:
    return len(partitions) == wanted and all(each.leader >= 0 for each in partitions)
