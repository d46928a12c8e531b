"""The topic that is deleted and made again while a query reads it: what makes it, and what the query must have read.

The topics of that name follow each other, and each has offsets from 0 on. So the checker gets each as a log of its own,
under the name and a number. The query reads the last one whole. Of those before, it may lack what it had not come to
when they went, and nothing in between; and it must have warned each time it came to another one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from lab.campaign.checker import Outcome, Passed, Record, Written
from lab.campaign.faults import Fault
from lab.campaign.lines import Told
from lab.campaign.queries import Names
from lab.campaign.rig import Brokers
from lab.campaign.storm.readers_app import REMADE, SAID_LOST

PARTITIONS = 2
MOST = 60  # records that a topic begins with, and that it gets just before it is deleted
NEVER = 1 << 62  # an offset that no topic reaches
CALL_S = 20.0
WARNING = "Topic {} has been deleted and created again"


class Remaking:
    """Makes the topic, and writes to it by librdkafka. One thread at a time."""

    def __init__(self, brokers: Brokers, names: Names) -> None:
        self._brokers, self.topic = brokers, names.remade
        self.written: list[list[Written]] = []  # of each topic of the name, as acknowledged

    def begin(self) -> None:
        """Make the first one, with records."""
        self._make()
        self._write(MOST // 2)

    def make_again(self, fault: Fault) -> None:
        """Raises KafkaException where brokers do not do it in time; `finish` mends that."""
        with self._brokers.whole:
            self.finish()
            self._write(1 + int(fault.draw * 7919) % MOST)
            admin = self._admin()
            admin.delete_topics([self.topic])[self.topic].result(CALL_S)
            self._make()
            self._write(1 + int(fault.draw * 104729) % MOST)

    def finish(self) -> None:
        """Make the topic where a fault deleted it and came no further. Raises KafkaException."""
        if self.topic not in self._admin().list_topics(timeout=CALL_S).topics:
            self._make()

    def _admin(self) -> AdminClient:
        # A new client: topics that it knew are gone.
        return AdminClient({"bootstrap.servers": self._brokers.servers, "log_level": 0})

    def _make(self) -> None:
        self.written.append([])  # first: where the answer does not come, the topic may be there all the same
        admin = self._admin()  # in a variable: the call fails where its client is gone
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 3)])[self.topic].result(CALL_S)

    def _write(self, count: int) -> None:
        number, of_this = len(self.written) - 1, self.written[-1]
        first = len(of_this)
        producer = Producer(
            {
                "bootstrap.servers": self._brokers.servers,
                "enable.idempotence": True,
                "delivery.timeout.ms": int(CALL_S * 1000),
                "log_level": 0,
            }
        )

        def told(error: KafkaError | None, message: Message) -> None:
            key, value, partition = message.key(), message.value(), message.partition()
            offset, outcome = (None, Outcome.UNKNOWN) if error else (message.offset(), Outcome.COMMITTED)
            place = int(value.split()[-1])
            of_this.append(
                Written("remaking", key, place, value, log_of(self.topic, number), partition, offset, outcome)
            )

        for place in range(first, first + count):
            partition = place % PARTITIONS
            producer.produce(
                self.topic, f"{number} {place}".encode(), f"{number}-{partition}".encode(), partition, on_delivery=told
            )
        if producer.flush(2 * CALL_S):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "records neither written nor refused"))

    def await_all(self, folder: Path, at_most_s: float) -> None:
        """Until the query has read all of the last topic of the name."""
        acknowledged = {each.value for each in self.written[-1] if each.outcome is Outcome.COMMITTED}
        until_s = time.monotonic() + at_most_s
        while acknowledged - {record.value for record in told(folder)} and time.monotonic() < until_s:
            time.sleep(1)


def log_of(topic: str, number: int) -> str:
    return f"{topic}#{number}"


def told(folder: Path) -> list[Record]:
    """What the query told, batch by batch. A batch that it ran again replaced what it told before."""
    files = sorted((folder / REMADE).glob("[0-9]*"), key=lambda file: int(file.name))
    return [record for file in files for record in Told(file).more()]


def judged(
    topic: str, written: Sequence[Sequence[Written]], read: Sequence[Record], warnings: str
) -> tuple[dict[str, list[Record]], list[Passed]]:
    """For the checker: what was read of each topic of the name, and what may lack there.

    `written`: of each, in their order; `read`: by the query, in its order; `warnings`: what it said.
    """
    logs: dict[str, list[Record]] = {f"what was read of {log_of(topic, n)}": [] for n in range(len(written))}
    for record in read:
        logs[f"what was read of {log_of(topic, _number(record))}"].append(record)
    came = [_number(record) for record in read]
    changes = sum(before != after for before, after in pairwise(came))
    warned = warnings.count(WARNING.format(topic)) >= changes
    passed = []
    for number, (log, of_this) in enumerate(logs.items()):
        gone = _behind(of_this) if warned and number < len(written) - 1 else {}
        lost = {partition: [(offset, NEVER)] for partition, offset in gone.items()}
        passed.append(Passed(log_of(topic, number), log, lost, dict.fromkeys(gone, NEVER)))
    return logs, passed


def _number(record: Record) -> int:
    """Of the topic that a record was written to."""
    return int(record.value.split()[0])


def _behind(records: Sequence[Record]) -> dict[int, int]:
    """The offset behind the last record of each partition."""
    found = dict.fromkeys(range(PARTITIONS), 0)
    for record in records:
        found[record.partition] = max(found[record.partition], record.offset + 1)
    return found


def read_of(folder: Path, remaking: Remaking) -> tuple[dict[str, list[Record]], list[Passed]]:
    """`judged`, of the files in a round's folder."""
    return judged(remaking.topic, remaking.written, told(folder), (folder / SAID_LOST).read_text())
