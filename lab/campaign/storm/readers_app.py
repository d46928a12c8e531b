"""Readers of short lives, each in a thread: `Reader.follow`, and batch reads of what has come since the last one.

    python -m lab.campaign.storm.readers_app BOOTSTRAP STEM FOLDER SEED

Each tells what it got in a file of its name, and goes on where the file ends. At SIGTERM each ends with its life. One
follows a topic whose records are removed. Another is a query with a checkpoint, on a topic that is deleted and made
again. Both have failOnDataLoss=false, and what they said was lost is told, too.
"""

from __future__ import annotations

import logging
import pickle
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from io import StringIO
from pathlib import Path
from random import Random
from typing import TextIO

import pyarrow as pa

from kafkasource import options as option_table
from kafkasource.errors import OptionError
from kafkasource.reader import Reader
from kafkasource.source.spark.input_partition import KafkaInputPartition
from kafkasource.source.spark.stream import StreamReader
from lab.campaign import lines, positions
from lab.campaign.lines import Told
from lab.campaign.queries import Names
from lab.campaign.storm.checkpoint import Checkpoint
from lab.campaign.storm.lives import Life, connection, live
from lab.campaign.storm.micro_batches import MicroBatches
from lab.campaign.whole_files import write_whole

NAMES = ("follow0", "follow1", "read0", "read1")
PASSING, REMADE, SAID_LOST = "passing", "remade", "said-lost"
ADDED = "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"  # a partition, since the starts were written: the next life has it
LONGEST_S = 6.0
POLL_S = 0.05
Give = Callable[[Iterable[pa.RecordBatch]], None]


class _LifeOver(Exception):
    pass


class Reading:
    """One thread's."""

    def __init__(self, servers: str, topic: str, file: Path, seed: str) -> None:
        self._servers, self._topic, self._file = servers, topic, file
        self._random = Random(f"{seed} {file.name}")
        self._positions = positions.after(Told(file).more())

    def life(self, work: Callable[[Reader, Give, float], None], _number: int) -> None:
        options = connection(self._servers) | {
            "kafka.isolation.level": "read_committed",
            "subscribe": self._topic,
            "includeHeaders": "true",
            "startingOffsets": positions.starting_offsets(self._servers, self._topic, self._positions),
        }
        if self._file.name == PASSING:
            options["failOnDataLoss"] = "false"
        with lines.append_to(str(self._file)) as out, Reader(options) as reader:

            def give(batches: Iterable[pa.RecordBatch]) -> None:
                for batch in batches:
                    records = [lines.record_of(row) for row in batch.to_pylist()]
                    lines.write(out, records)
                    self._positions.update(positions.after(records))

            try:
                work(reader, give, time.monotonic() + self._random.uniform(0.1, LONGEST_S))
            except OptionError as error:
                if ADDED not in str(error):
                    raise


def follow(reader: Reader, give: Give, until_s: float) -> None:
    def sleep(seconds: float) -> None:
        if time.monotonic() > until_s:
            raise _LifeOver
        time.sleep(seconds)

    def until_it_ends() -> Iterable[pa.RecordBatch]:
        for batch in reader.follow(poll_s=POLL_S, sleep=sleep):
            yield batch
            if time.monotonic() > until_s:
                return

    try:
        give(until_it_ends())
    except _LifeOver:
        return


def read(reader: Reader, give: Give, _until_s: float) -> None:
    give(reader)


class Remade:
    """A query on the topic that is made again. It tells each micro-batch in a file of the batch's number."""

    def __init__(self, servers: str, topic: str, folder: Path, seed: str) -> None:
        self._options = connection(servers) | {
            "subscribe": topic,
            "includeHeaders": "true",
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "20",
            "failOnDataLoss": "false",
            "trigger": "processingTime",
        }
        self._random = Random(f"{seed} {REMADE}")
        self._folder, self._checkpoint = folder, folder / "checkpoint"

    def life(self, _number: int) -> None:
        reader = StreamReader(option_table.parse(self._options, "source"))

        def tell(number: int, partitions: Iterable[KafkaInputPartition]) -> None:
            task_reader, out = pickle.loads(pickle.dumps(reader)), StringIO()
            for partition in partitions:
                for batch in task_reader.read(partition):
                    lines.write(out, [lines.record_of(row) for row in batch.to_pylist()])
            write_whole(self._folder / str(number), out.getvalue())

        until_s = time.monotonic() + self._random.uniform(0.1, LONGEST_S)
        MicroBatches(reader, Checkpoint(self._checkpoint), tell).run(until_s)


class _SaidLost(logging.Handler):
    """Writes a line for each warning about a lost range: what an operator finds in the log."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out = out

    def emit(self, record: logging.LogRecord) -> None:
        self._out.write(record.getMessage() + "\n")
        self._out.flush()


def main(servers: str, stem: str, folder: str, seed: str) -> None:
    names = Names(stem)
    work = {name: read if name.startswith("read") else follow for name in (*NAMES, PASSING)}
    lives: dict[str, Life] = {}
    for name, kind in work.items():
        topic = names.passing if name == PASSING else names.source
        lives[name] = partial(Reading(servers, topic, Path(folder, name), seed).life, kind)
    lives[REMADE] = Remade(servers, names.remade, Path(folder, REMADE), seed).life
    with lines.append_to(f"{folder}/{SAID_LOST}") as out:
        logging.getLogger("kafkasource.source").addHandler(_SaidLost(out))
        live(lives)


if __name__ == "__main__":
    main(*sys.argv[1:])
