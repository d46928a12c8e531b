"""What goes in and what comes out, both by librdkafka: numbered records at a steady rate, and readers that count them.

A record's key is one of `KEYS`, its value begins with the key's own number: 0, 1, 2, ... So a reader knows for each key
which number comes next. A larger one means lost records, a smaller one doubled or reordered ones. Nothing is kept for a
record, so hours cost no memory.
"""

from __future__ import annotations

import struct
import threading
import time
from dataclasses import dataclass, field

import confluent_kafka

KEYS = 64
VALUE_BYTES = 100
PAUSE_S = 0.05
_NUMBER = struct.Struct(">q")
_FILLER = b"x" * (VALUE_BYTES - _NUMBER.size)


class Traffic(threading.Thread):
    """Writes `rate` records a second until `stop`. `written`: how many brokers have acknowledged."""

    def __init__(self, servers: str, topic: str, rate: int) -> None:
        super().__init__(name="traffic", daemon=True)
        self._topic, self._rate = topic, rate
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 50,
                "log_level": 0,
            }
        )
        self._ending = threading.Event()
        self.sent = self.written = 0
        self.error: str | None = None

    def run(self) -> None:
        began_s = time.monotonic()
        while not self._ending.wait(PAUSE_S):
            due = int((time.monotonic() - began_s) * self._rate)
            while self.sent < due and self.error is None:
                self._send()
            self._producer.poll(0)

    def _send(self) -> None:
        number, key = divmod(self.sent, KEYS)
        value = _NUMBER.pack(number) + _FILLER
        try:
            self._producer.produce(self._topic, value, b"key-%d" % key, on_delivery=self._delivered)
            self.sent += 1
        except BufferError:  # brokers are slower than the rate
            self._producer.poll(0.1)

    def _delivered(self, error: object, _message: object) -> None:
        if error is None:
            self.written += 1
        else:
            self.error = str(error)

    def stop(self) -> None:
        self._ending.set()
        self.join()
        self._producer.flush(60)


@dataclass
class Counts:
    """What a reader has seen of a copy."""

    read: int = 0
    lost: int = 0
    doubled: int = 0  # or reordered: a number that is not above the key's last one
    next_numbers: dict[bytes, int] = field(default_factory=dict)

    def take(self, key: bytes, value: bytes) -> None:
        number = int(_NUMBER.unpack_from(value)[0])
        expected = self.next_numbers.get(key, 0)
        self.read += 1
        if number < expected:
            self.doubled += 1
            return
        self.lost += number - expected
        self.next_numbers[key] = number + 1

    @property
    def reached(self) -> int:
        """How many of the written records lie before the reader: read ones and lost ones."""
        return self.read - self.doubled + self.lost


class Follower(threading.Thread):
    """Reads a copy at read_committed, from its beginning until `stop`."""

    def __init__(self, name: str, servers: str, topic: str) -> None:
        super().__init__(name=f"follower of {name}", daemon=True)
        self.counts = Counts()
        self.error: str | None = None
        self._ending = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"soak-{name}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 2000,
                "fetch.wait.max.ms": 500,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])

    def run(self) -> None:
        while not self._ending.is_set():
            for message in self._consumer.consume(5000, 1.0):
                if message.error() is None:
                    self.counts.take(message.key(), message.value())
                elif message.error().code() != confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                    self.error = str(message.error())
        self._consumer.close()

    def stop(self) -> None:
        self._ending.set()
        self.join()
