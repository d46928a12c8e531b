"""Two producers of librdkafka with known content, and what they were told of each record.

One is idempotent, the other writes transactions and aborts some of them. A key has one partition and one producer, its
records are numbered, and no value is written twice.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from random import Random

import confluent_kafka

from lab.campaign.checker import Outcome, Written
from lab.campaign.fault_log import FaultLog

KEYS = 6  # of each producer, to begin with
IN_TURN = 10  # records between two pauses, or in a transaction
PAUSE_S = 0.3
CALL_S = 20.0
SIZES = (0, 20, 100, 100, 100, 500, 2000)
LARGE, LARGE_ONE_IN = (*(60_000,) * 9, 900_000), 400


class _Content:
    """What one producer writes next. `partitions`: how many the topic has."""

    def __init__(self, name: str, random: Random, topic: str, partitions: int) -> None:
        self.name, self.topic, self.partitions = name, topic, partitions
        self._random = random
        self._numbers = {b"%s-key-%d" % (name.encode(), at): [0, at % partitions] for at in range(KEYS)}

    def grow(self, partitions: int) -> None:
        """A new partition gets a new key: the keys before stay where they are."""
        for partition in range(self.partitions, partitions):
            self._numbers[b"%s-key-%d" % (self.name.encode(), len(self._numbers))] = [0, partition]
        self.partitions = max(partitions, self.partitions)

    def next(self) -> Written:
        key = self._random.choice(list(self._numbers))
        number, partition = self._numbers[key]
        self._numbers[key][0] += 1
        size = self._random.choice(SIZES if self._random.randrange(LARGE_ONE_IN) else LARGE)
        value = b"%s %d " % (key, number) + b"x" * size
        header = (("number", b"%d" % number),)
        return Written(self.name, key, number, value, self.topic, partition, None, Outcome.UNKNOWN, header)


class Producing(threading.Thread):
    """Base of both. Writes until `stop`; then `written` has what became of each record."""

    transactional = False

    def __init__(self, servers: str, topic: str, partitions: int, seed: int, log: FaultLog, codec: str) -> None:
        super().__init__(daemon=True)
        self._random = Random(f"{seed} {type(self).__name__}")
        self._content = _Content(type(self).__name__.lower(), self._random, topic, partitions)
        self._config = {
            "bootstrap.servers": servers,
            "log_level": 0,
            "compression.type": codec,
            "linger.ms": 5,
            # A broker that does not know a producer id takes any number as its first. With several batches in flight,
            # where the first one fails and the second arrives, librdkafka then calls the first one delivered, as the
            # broker says "duplicate" of it: seen when leaders moved at the start of a campaign.
            "max.in.flight.requests.per.connection": 1,
        }
        self._log = log
        self._ending = threading.Event()
        self._grown_to = partitions
        self.written: list[Written] = []
        self.error: str | None = None

    def grow(self, partitions: int) -> None:
        self._grown_to = partitions

    def stop(self) -> None:
        self._ending.set()
        self.join(180)
        if self.is_alive():
            self.error = "it did not end within 180 s"

    def run(self) -> None:
        try:
            self._produce()
        except Exception as error:
            self.error = repr(error)
            self._log.note("a producer failed", producer=self._content.name, error=self.error)

    def _produce(self) -> None:
        raise NotImplementedError

    def _send(self, producer: confluent_kafka.Producer, done: Callable[[int, Written], None]) -> None:
        self._content.grow(self._grown_to)
        written = self._content.next()
        place = len(self.written)
        self.written.append(written)

        def delivered(error: object, message: confluent_kafka.Message) -> None:
            if error is None:
                done(place, self.written[place]._replace(offset=message.offset()))

        headers = [*written.headers]
        try:
            producer.produce(
                written.log, written.value, written.key, written.partition, on_delivery=delivered, headers=headers
            )
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() != confluent_kafka.KafkaError._UNKNOWN_PARTITION:
                raise
            self.written.pop()  # added a moment ago: librdkafka has not heard of it yet
            producer.list_topics(written.log, timeout=CALL_S)
        producer.poll(0)


class Idempotent(Producing):
    def _produce(self) -> None:
        producer = confluent_kafka.Producer({**self._config, "enable.idempotence": True, "message.timeout.ms": 0})

        def done(place: int, written: Written) -> None:
            self.written[place] = written._replace(outcome=Outcome.COMMITTED)

        while not self._ending.wait(PAUSE_S):
            for _ in range(IN_TURN):
                self._send(producer, done)
        producer.flush(CALL_S * 6)


class Transactional(Producing):
    """Commits four of five transactions. One whose end it did not hear of stays unknown, and a new producer goes on."""

    def _produce(self) -> None:
        producer = None
        while not self._ending.wait(PAUSE_S):
            try:
                producer = producer or self._new()
                self._transaction(producer)
            except confluent_kafka.KafkaException as error:
                self._log.note("a new transactional producer", error=str(error)[:200])
                producer = None
        producer = None

    def _new(self) -> confluent_kafka.Producer:
        """With the id of the one before: it ends what that one left open."""
        producer = confluent_kafka.Producer(
            {**self._config, "transactional.id": f"campaign-{self._content.topic}", "transaction.timeout.ms": 60000}
        )
        producer.init_transactions(CALL_S)
        return producer

    def _transaction(self, producer: confluent_kafka.Producer) -> None:
        first, wanted = len(self.written), self._random.random() < 0.8

        def done(place: int, written: Written) -> None:
            self.written[place] = written

        producer.begin_transaction()
        for _ in range(self._random.randint(1, 2 * IN_TURN)):
            self._send(producer, done)
        outcome = self._end(producer, wanted)
        for place in range(first, len(self.written)):
            self.written[place] = self.written[place]._replace(outcome=outcome)

    def _end(self, producer: confluent_kafka.Producer, commit: bool) -> Outcome:
        """Raises where it cannot be known."""
        while True:
            try:
                if commit:
                    producer.commit_transaction(CALL_S)
                else:
                    producer.flush(CALL_S)
                    producer.abort_transaction(CALL_S)
                return Outcome.COMMITTED if commit else Outcome.ABORTED
            except confluent_kafka.KafkaException as failure:
                error = failure.args[0]
                if error.txn_requires_abort() and commit:
                    commit = False
                elif not error.retriable():
                    with contextlib.suppress(confluent_kafka.KafkaException):
                        producer.purge()
                    raise
