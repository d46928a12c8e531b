"""What the storm's writers write, and the file in which they tell of it: before they hand records over, and after.

A line before, with the records of one group, which share an outcome; a line after, once the outcome is known. A writer
may be killed at any byte: a group without a line after stays unknown.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple, TextIO

import pyarrow as pa

from lab.campaign.checker import Outcome, Written

KEYS = 4  # of each life of a writer
SIZES = (0, 20, 100, 100, 300, 1500)
LARGE, LARGE_ONE_IN = (*(40_000,) * 9, 900_000), 500
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Row(NamedTuple):
    key: str
    number: int
    size: int
    partition: int

    @property
    def value(self) -> bytes:
        return f"{self.key} {self.number} ".encode() + b"x" * self.size

    @property
    def header(self) -> tuple[str, bytes]:
        return "number", str(self.number).encode()


class Content:
    """The rows of one life of one writer, which has keys of its own: numbered within a key, no value twice."""

    def __init__(self, life: str, random: Random, partitions: int) -> None:
        self._random = random
        first = random.randrange(partitions)
        self._next = {f"{life}-{number}": [0, (first + number) % partitions] for number in range(KEYS)}

    def rows(self, count: int, partition: int | None = None) -> list[Row]:
        """`partition`: of all rows, one that has a key."""
        keys = [key for key, (_, of_key) in self._next.items() if partition in (None, of_key)]
        return [self._row(self._random.choice(keys)) for _ in range(count)]

    def _row(self, key: str) -> Row:
        number, partition = self._next[key]
        self._next[key][0] += 1
        size = self._random.choice(SIZES if self._random.randrange(LARGE_ONE_IN) else LARGE)
        return Row(key, number, size, partition)


def table(rows: Sequence[Row]) -> pa.RecordBatch:
    headers = [[{"key": name, "value": value}] for name, value in (row.header for row in rows)]
    columns = {
        "key": pa.array([row.key.encode() for row in rows], pa.binary()),
        "value": pa.array([row.value for row in rows], pa.binary()),
        "partition": pa.array([row.partition for row in rows], pa.int32()),
        "headers": pa.array(headers, HEADERS),
    }
    return pa.RecordBatch.from_pydict(columns)


class Telling:
    """For several threads."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._lock = out, threading.Lock()

    def before(self, group: str, producer: str, rows: Sequence[Row]) -> None:
        self._tell({"group": group, "producer": producer, "rows": rows})

    def after(self, group: str, outcome: Outcome, first_offset: int | None = None) -> None:
        """`first_offset`: of the group's rows, which lie one after the other in one partition. None: not known."""
        self._tell({"group": group, "outcome": outcome.value, "first_offset": first_offset})

    def _tell(self, line: dict[str, object]) -> None:
        with self._lock:
            self._out.write(json.dumps(line) + "\n")
            self._out.flush()


def told(file: Path, topic: str) -> list[Written]:
    """All that writers have told in the file."""
    groups: dict[str, tuple[str, list[Row]]] = {}
    outcomes: dict[str, tuple[Outcome, int | None]] = {}
    for text in file.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:  # the begin of a line, whose writer was killed: it had handed nothing over
            continue
        if "outcome" in line:
            outcomes[line["group"]] = Outcome(line["outcome"]), line["first_offset"]
        else:
            groups[line["group"]] = line["producer"], [Row(*row) for row in line["rows"]]
    found = []
    for group, (producer, rows) in groups.items():
        outcome, first = outcomes.get(group, (Outcome.UNKNOWN, None))
        for place, row in enumerate(rows):
            key, offset = row.key.encode(), None if first is None else first + place
            found.append(
                Written(producer, key, row.number, row.value, topic, row.partition, offset, outcome, (row.header,))
            )
    return found


def sums(file: Path) -> Counter[str]:
    """Counts by name that processes told in the file, a line of JSON each. A line that has no end counts nothing."""
    found: Counter[str] = Counter()
    for text in file.read_text().splitlines() if file.exists() else ():
        try:
            found.update(json.loads(text))
        except ValueError:
            continue
    return found
