"""Readers of short lives, each in a thread: `Reader.follow`, and batch reads of what has come since the last one.

    python -m campaign.storm.readers_app BOOTSTRAP TOPIC FOLDER SEED

Each tells what it got in a file of its name, and goes on where the file ends. At SIGTERM each ends with its life.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa

from campaign import lines, positions
from campaign.lines import Told
from campaign.storm.lives import connection, live
from kafkasource.reader import Reader

NAMES = ("follow0", "follow1", "read0", "read1")
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
        with lines.append_to(str(self._file)) as out, Reader(options) as reader:

            def give(batches: Iterable[pa.RecordBatch]) -> None:
                for batch in batches:
                    records = [lines.record_of(row) for row in batch.to_pylist()]
                    lines.write(out, records)
                    self._positions.update(positions.after(records))

            work(reader, give, time.monotonic() + self._random.uniform(0.1, LONGEST_S))


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


def main(servers: str, topic: str, folder: str, seed: str) -> None:
    work = {name: follow if name.startswith("follow") else read for name in NAMES}
    live({name: partial(Reading(servers, topic, Path(folder, name), seed).life, work[name]) for name in NAMES})


if __name__ == "__main__":
    main(*sys.argv[1:])
