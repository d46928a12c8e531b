"""Writers of short lives, each in a thread: `kafkasource.Writer`, and task transactions as the exactly-once sink uses
them.

    python -m lab.campaign.storm.writers_app BOOTSTRAP STEM FOLDER SEED INCARNATION

`FOLDER/written`: what they tell; `FOLDER/partitions`: how many the topic has. At SIGTERM each ends with its life.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

from kafkasource import options as option_table
from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.transactions import TransactionVersion
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.producer.producer import Producer
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.sink.columns import checked_rows
from kafkasource.sink.partitioner import partitioner_of
from kafkasource.sink.schema import SinkSchema
from kafkasource.writer import Writer
from lab.campaign import lines
from lab.campaign.checker import Outcome
from lab.campaign.queries import Names
from lab.campaign.storm.content import Content, Row, Telling, table
from lab.campaign.storm.lives import Life, connection, live

IDEMPOTENT, TRANSACTIONAL = 9, 12  # threads
MOST_ROWS, MOST_GROUPS = 30, 4
COMMITTED_OF_TEN = 8
TIMEOUT_MS = 60_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
WRITTEN, PARTITIONS = "written", "partitions"
WRITTEN_PASSING, PASSING_PARTITIONS = "written-passing", 2
POSITIONS = {"key": 0, "value": 1, "partition": 2, "headers": 3}


class Writers:
    """What the threads of the process share."""

    def __init__(self, servers: str, topic: str, folder: Path, incarnation: str, seed: str, telling: Telling) -> None:
        self.servers, self.topic, self._folder = servers, topic, folder
        self.incarnation, self._seed, self.telling = incarnation, seed, telling

    def begin(self, name: str, number: int, partitions: int | None = None) -> tuple[str, Random, Content]:
        """The name of a life, and what it draws and writes. `partitions`: of the topic, None: as the file says."""
        life = f"{name}-{self.incarnation}-{number}"
        random = Random(f"{self._seed} {life}")
        return life, random, Content(life, random, partitions or int((self._folder / PARTITIONS).read_text()))

    def options(self, random: Random) -> dict[str, str]:
        return connection(self.servers) | {
            "topic": self.topic,
            "kafka.compression.type": random.choice(CODECS),
            "kafka.linger.ms": random.choice(("0", "5", "30")),
            "kafka.batch.size": random.choice(("1024", "16384")),  # small ones, so that several are in flight
            "kafka.delivery.timeout.ms": random.choice(("5000", "120000")),
        }


def idempotent(writers: Writers, name: str, number: int) -> None:
    life, random, content = writers.begin(name, number)
    with Writer(writers.options(random)) as writer:
        for group_number in range(random.randint(1, MOST_GROUPS)):
            group, rows = f"{life}/{group_number}", content.rows(random.randint(1, MOST_ROWS))
            writers.telling.before(group, life, rows)
            cut = random.randint(0, len(rows))
            for part in (rows[:cut], rows[cut:]):
                if part:
                    writer.write(table(part))
            writer.flush()
            writers.telling.after(group, Outcome.COMMITTED)


def passing(writers: Writers, name: str, number: int) -> None:
    """To the topic whose records are removed. Its groups have one partition each, so that all offsets are known."""
    life, random, content = writers.begin(name, number, PASSING_PARTITIONS)
    with Writer(writers.options(random)) as writer:
        for group_number in range(random.randint(1, MOST_GROUPS)):
            rows = content.rows(random.randint(1, MOST_ROWS), random.randrange(PASSING_PARTITIONS))
            group = f"{life}/{group_number}"
            writers.telling.before(group, life, rows)
            writer.write(table(rows))
            (written,) = writer.flush().values()
            offsets = written.first_offset, written.last_offset
            together = offsets[0] is not None and offsets[1] == offsets[0] + len(rows) - 1
            writers.telling.after(group, Outcome.COMMITTED, written.first_offset if together else None)


def transactional(writers: Writers, name: str, number: int) -> None:
    """Transactions under one id. One of which no commit was asked for is aborted, whatever happens."""
    life, random, content = writers.begin(name, number)
    options = option_table.parse(writers.options(random), "sink")
    config, partitioner = ProducerConfig.from_options(options), options["partitioner"]
    transactional_id = f"{writers.topic}-{name}"
    with Cluster(config.client) as cluster:
        version = cluster.transactions.version()
        producer = Producer(config)
        try:
            for group_number in range(random.randint(1, MOST_GROUPS)):
                group, rows = f"{life}/{group_number}", content.rows(random.randint(1, MOST_ROWS))
                writers.telling.before(group, life, rows)
                commit = random.randrange(10) < COMMITTED_OF_TEN
                try:
                    transaction = _written(
                        cluster, producer, transactional_id, version, writers.topic, rows, partitioner
                    )
                except KafkaSourceError:
                    writers.telling.after(group, Outcome.ABORTED)
                    with suppress(KafkaSourceError):
                        cluster.transactions.init_producer_id(transactional_id, TIMEOUT_MS)
                    raise
                if not commit:
                    writers.telling.after(group, Outcome.ABORTED)
                cluster.transactions.end(transactional_id, transaction.producer, commit, version)
                if commit:
                    writers.telling.after(group, Outcome.COMMITTED)
        finally:
            producer.close()


def _written(
    cluster: Cluster,
    producer: Producer,
    transactional_id: str,
    version: TransactionVersion,
    topic: str,
    rows: list[Row],
    partitioner: str,
) -> TaskTransaction:
    """A transaction whose rows are acknowledged."""
    transaction = TaskTransaction.open(cluster.transactions, transactional_id, TIMEOUT_MS, version)
    chosen = partitioner_of(partitioner, producer.config.batch_bytes)
    with producer.delivery(transaction) as delivery:
        for part in checked_rows(SinkSchema(topic, POSITIONS, None), table(rows)):
            producer.append(part, chosen, delivery)
    return transaction


def main(servers: str, stem: str, folder: str, seed: str, incarnation: str) -> None:
    names, where = Names(stem), Path(folder)
    with lines.append_to(f"{folder}/{WRITTEN}") as out, lines.append_to(f"{folder}/{WRITTEN_PASSING}") as of_passing:
        topic = names.source
        writers = Writers(servers, topic, where, incarnation, seed, Telling(out))
        to_passing = Writers(servers, names.passing, where, incarnation, seed, Telling(of_passing))
        kinds: dict[str, Life] = {
            f"writer{number}": partial(idempotent, writers, f"writer{number}") for number in range(IDEMPOTENT)
        }
        for number in range(TRANSACTIONAL):
            kinds[f"transactional{number}"] = partial(transactional, writers, f"transactional{number}")
        kinds["passing"] = partial(passing, to_passing, "passing")
        live(kinds)
        _end_transactions(servers, topic)


def _end_transactions(servers: str, topic: str) -> None:
    """What a last life has left open would hold back readers until its timeout."""
    config = ProducerConfig.from_options(option_table.parse(connection(servers), "sink"))
    with Cluster(config.client) as cluster:
        names = [f"{topic}-transactional{number}" for number in range(TRANSACTIONAL)]
        cluster.transactions.init_producer_ids(names, TIMEOUT_MS)


if __name__ == "__main__":
    main(*sys.argv[1:])
