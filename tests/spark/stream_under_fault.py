"""A query that runs while confluent-kafka writes to its topic, and the comparison of both afterwards."""

from __future__ import annotations

import threading
import time
import uuid

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from kafkasource.metrics.lag import offsets_of
from kafkasource.types import TopicPartition

PATIENCE_S = 120.0  # for what must happen on however slow a machine
PARTITIONS = 3
_TOO_SLOW = "connect back"  # "Python worker failed to connect back.", "Timed out while waiting for ... to connect back"
_IMPATIENT = {"socket.timeout.ms": 2000, "log_level": 0}  # with a broker that hangs; the default is a minute


def until(condition, what: str):
    """Wait for a condition; what it was in the end."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not in {PATIENCE_S:g} s: {what}"
        time.sleep(0.05)
    return found


class Topic:
    """A topic of three partitions, written to without a pause from here on: acks=all and idempotent, so that each value
    is stored once, whatever happens to the brokers.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self.name = f"faults-{uuid.uuid4().hex[:12]}"
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, **_IMPATIENT})
        self._admin.create_topics([NewTopic(self.name, PARTITIONS, -1)])[self.name].result(60)
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True, "linger.ms": 5}
            | _IMPATIENT
        )
        self.acknowledged: list[tuple[int, int, int]] = []  # partition, offset, value
        self.ends = [0] * PARTITIONS  # of what was acknowledged
        self._errors: list[object] = []
        self._count = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def leader(self, partition: int) -> int:
        """Its node id. The broker that is asked may not have heard of the topic yet."""
        found: list[int] = []
        until(lambda: found.append(self._leader(partition)) or found[-1] >= 0, f"a leader of partition {partition}")
        return found[-1]

    def _leader(self, partition: int) -> int:
        known = self._admin.list_topics(self.name, timeout=30).topics[self.name].partitions.get(partition)
        return -1 if known is None else known.leader

    def goes_on(self) -> None:
        """Wait until every partition has taken a record more than it has now."""
        before = list(self.ends)
        until(lambda: all(map(int.__gt__, self.ends, before)), f"more acknowledged records than {before}")

    def abandon(self) -> None:
        self._stopping.set()
        self._thread.join()

    def stop(self) -> None:
        """Write no more, once all is acknowledged that was written."""
        self.abandon()
        assert self._producer.flush(PATIENCE_S) == 0
        assert not self._errors
        assert len(self.acknowledged) == self._count

    def _write(self) -> None:
        while not self._stopping.wait(0.005):
            for _ in range(10):
                value, self._count = self._count, self._count + 1
                self._producer.produce(
                    self.name, value=b"%d" % value, partition=value % PARTITIONS, on_delivery=self._delivered
                )
            self._producer.poll(0)

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        if error is not None:
            self._errors.append(error)
            return
        self.acknowledged.append((message.partition(), message.offset(), int(message.value())))
        self.ends[message.partition()] = max(self.ends[message.partition()], message.offset() + 1)


class Reading:
    """A query over the topic into a table in memory."""

    def __init__(self, spark, bootstrap_servers: str, topic: Topic, **options) -> None:
        self._spark = spark
        self._topic = topic
        self._name = topic.name.replace("-", "_")
        self._options = {
            "kafka.bootstrap.servers": bootstrap_servers,
            "subscribe": topic.name,
            "startingOffsets": "earliest",
        } | options
        self._start()

    def _start(self) -> None:
        self.query = (
            self._spark.readStream.format("pykafka")
            .options(**self._options)
            .load()
            .selectExpr("partition", "offset", "CAST(CAST(value AS STRING) AS INT) AS value")
            .writeStream.format("memory")
            .queryName(self._name)
            .start()
        )

    def begins(self) -> None:
        """Wait for its first micro-batch: from then on all of its Python processes are there.

        Spark gives a Python process ten seconds to start, a constant of its PythonWorkerFactory (4.2). A busy machine
        may need more; before any fault the query may simply be started again.
        """

        def has_begun() -> bool:
            if not self.query.isActive and _TOO_SLOW in str(self.query.exception()):
                self._start()
            return any(self.ends())

        until(has_begun, "a first micro-batch")

    def ends(self) -> list[int]:
        """The end of the last finished micro-batch, by partition."""
        assert self.query.isActive, self.query.exception()
        progress = self.query.lastProgress
        end = offsets_of(progress["sources"][0]["endOffset"]) if progress else {}
        return [end.get(TopicPartition(self._topic.name, partition), 0) for partition in range(PARTITIONS)]

    def catches_up(self) -> None:
        """Wait until it has all that is acknowledged now, in every partition."""
        wanted = list(self._topic.ends)
        until(lambda: all(end >= least for end, least in zip(self.ends(), wanted, strict=True)), f"rows up to {wanted}")

    def rows(self) -> list[tuple[int, int, int]]:
        """All of them, once nothing is left to read."""
        self.query.processAllAvailable()
        self.query.stop()
        return [tuple(row) for row in self._spark.table(self._name).collect()]
