"""A member of a consumer group that two kinds of clients share: it writes what it gets to a file, then commits.

    python -m lab.campaign.member_app kafkasource|librdkafka BOOTSTRAP TOPIC GROUP FILE

Ends when it is killed; at SIGTERM it leaves the group. Where brokers were away for too long, it joins again.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TextIO

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafkasource.errors import CommitFailed, KafkaSourceError
from kafkasource.kafka.group.member import GroupMember
from kafkasource.reader import Reader
from lab.campaign import lines, login
from lab.campaign.checker import Record
from lab.campaign.ending import end_with_starter

SESSION_TIMEOUT_MS = 8_000
POLL_S = 0.2
AT_ONCE = 500


def ours(servers: str, topic: str, group: str, out: TextIO) -> None:
    options = {
        "kafka.bootstrap.servers": servers,
        "kafka.client.id": "campaign",
        "kafka.group.id": group,
        "kafka.isolation.level": "read_committed",
        "kafka.request.timeout.ms": "8000",
        "subscribe": topic,
        "includeHeaders": "true",
        "startingOffsets": "committed:earliest",
    } | login.options()
    with (
        Reader(options) as reader,
        GroupMember(reader.cluster, group, [topic], session_timeout_ms=SESSION_TIMEOUT_MS) as member,
    ):
        positions = reader.positions()
        while True:
            changes = member.poll(POLL_S)
            positions.drop(changes.lost | changes.revoked)
            positions.begin(changes.assigned)
            ranges = positions.next_ranges()
            for batch in reader.read(ranges):
                lines.write(out, map(lines.record_of, batch.to_pylist()))
            with suppress(CommitFailed):  # another member has them by now
                member.commit(positions.reached(ranges))


def librdkafkas(servers: str, topic: str, group: str, out: TextIO) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "partition.assignment.strategy": "cooperative-sticky",  # of the two that our member takes
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([topic])
        while True:
            came = [message for message in consumer.consume(AT_ONCE, POLL_S) if not message.error()]
            lines.write(
                out,
                [Record(m.partition(), m.offset(), m.key(), m.value() or b"", tuple(m.headers() or ())) for m in came],
            )
            reached = {(m.topic(), m.partition()): m.offset() + 1 for m in came}
            if reached:
                places = [TopicPartition(name, partition, offset) for (name, partition), offset in reached.items()]
                with suppress(KafkaException):  # another member has them by now
                    consumer.commit(offsets=places, asynchronous=False)
    finally:
        consumer.close()


KINDS: dict[str, Callable[[str, str, str, TextIO], None]] = {"kafkasource": ours, "librdkafka": librdkafkas}


def main(kind: str, servers: str, topic: str, group: str, file: str) -> None:
    end_with_starter()

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)
    with lines.append_to(file) as out:
        while True:
            try:
                KINDS[kind](servers, topic, group, out)
            except (KafkaSourceError, KafkaException) as error:
                print(time.strftime("%H:%M:%S"), "joins again", error, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
