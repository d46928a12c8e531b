"""Files in which readers tell what they got: a line of JSON for each record. A reader may be killed at any byte."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from lab.campaign.checker import Record


@contextmanager
def append_to(file: str) -> Iterator[TextIO]:
    """The last line of a killed writer may have no end; it must not spoil the next."""
    with Path(file).open("a") as out:
        if out.tell():
            out.write("\n")
        yield out


def write(out: TextIO, records: Iterable[Record]) -> None:
    for each in records:
        headers = [[name, _text(value)] for name, value in each.headers]
        out.write(json.dumps([each.partition, each.offset, _text(each.key), _text(each.value), headers]) + "\n")
    out.flush()


class Told:
    """The records of such a file, read as it grows."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._pos = 0

    def more(self) -> Iterator[Record]:
        if not self._file.exists():
            return
        with self._file.open("rb") as lines:
            lines.seek(self._pos)
            data = lines.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._pos += len(whole)
        for line in whole.splitlines():
            try:
                partition, offset, key, value, headers = json.loads(line)
            except ValueError:  # the begin of a line, whose writer was killed
                continue
            given = tuple((name, _bytes(each)) for name, each in headers)
            yield Record(partition, offset, _bytes(key), _bytes(value) or b"", given)


class ToldLog:
    """The records of such a file as a log, in the order in which the reader gave them."""

    def __init__(self, file: Path) -> None:
        self._told = Told(file)
        self.records: list[Record] = []
        self.values: set[bytes] = set()

    def look(self) -> int:
        """Read what was told since the last look; how many records came."""
        came = list(self._told.more())
        self.records += came
        self.values.update(record.value for record in came)
        return len(came)


def record_of(row: Mapping[str, Any]) -> Record:
    """A row of the source, with headers."""
    headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
    return Record(row["partition"], row["offset"], row["key"], row["value"] or b"", headers)


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
