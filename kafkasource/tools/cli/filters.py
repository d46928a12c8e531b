"""`pykafka read --filter`: selects the records to print.

    key=ada               the key is this text
    header.source=shell   a header of this name has this value
    $.a.b[0]=7            the value is JSON, and has this at this place

A text matches as it is; a number, `true`, `false` or `null` matches where it is the same in JSON. A null key, a value
that is not JSON, and a place that is not there match nothing. Typed keys and values count as they are printed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkasource.tools.cli.json_values import as_bytes, is_binary, json_values
from kafkasource.types import BAD_RECORD_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa

SYNTAX = "key=TEXT, header.NAME=TEXT or $.place.in.the.value=JSON"
Filter: TypeAlias = "Callable[[pa.RecordBatch], list[bool]]"  # by row: does it match?

_PATH = re.compile(r"\$(?:\.[^.\[\]]+|\[\d+\])+")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_NOTHING = object()  # differs from every value of JSON


def parsed(text: str) -> Filter:
    """An argparse type."""
    place, equals, wanted = text.partition("=")
    if equals and place == "key":
        return _Key(wanted.encode())
    if equals and place.startswith("header.") and place != "header.":
        return _Header(place.removeprefix("header."), wanted.encode())
    if equals and _PATH.fullmatch(place):
        return _Json([name or int(number) for name, number in _STEP.findall(place)], wanted)
    raise argparse.ArgumentTypeError(f"{text!r} is not {SYNTAX}")


class _Key:
    def __init__(self, wanted: bytes) -> None:
        self._wanted = wanted

    def __call__(self, batch: pa.RecordBatch) -> list[bool]:
        return [key == self._wanted for key in as_bytes(batch.column("key"))]


class _Header:
    def __init__(self, name: str, wanted: bytes) -> None:
        self._name, self._wanted = name, wanted

    def __call__(self, batch: pa.RecordBatch) -> list[bool]:
        headers = batch.column("headers")
        if headers.null_count == len(headers):
            return [False] * len(headers)
        return [
            any(header["key"] == self._name and header["value"] == self._wanted for header in record_headers or ())
            for record_headers in headers.to_pylist()
        ]


class _Json:
    def __init__(self, path: Sequence[str | int], wanted: str) -> None:
        self._path, self._text = path, wanted
        self._json = _of_json(wanted)

    def __call__(self, batch: pa.RecordBatch) -> list[bool]:
        import pyarrow.types as types

        column = batch.column("value")
        if is_binary(column) or types.is_string(column.type):
            return [value is not None and self._matches(_of_json(value)) for value in column.to_pylist()]
        return [self._matches(value) for value in json_values(column)]

    def _matches(self, value: Any) -> bool:
        for step in self._path:
            if isinstance(value, str):  # Python would give its characters
                return False
            try:
                value = value[step]
            except (LookupError, TypeError):  # TypeError: a number, for example
                return False
        if isinstance(value, str):
            return value == self._text
        return bool(value == self._json) and isinstance(value, bool) == isinstance(self._json, bool)  # 1 is not true


def _of_json(text: str | bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NOTHING


class Selection:
    """Selects the records to print: all filters must match. `most`: the largest number of records."""

    def __init__(self, filters: Sequence[Filter] = (), most: int | None = None) -> None:
        self._filters = filters
        self._left = most

    @property
    def ended(self) -> bool:
        return self._left == 0

    def of(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """The records to print, and how many rows of the batch are done with them. Names the bad records among those
        rows on stderr, also where no filter holds for them: what is in them is not known."""
        import pyarrow as pa

        rows: Sequence[int] = range(batch.num_rows)
        selected = batch
        for matches in self._filters:
            rows = [row for row, holds in zip(rows, matches(selected), strict=True) if holds]
            selected = batch.take(pa.array(rows, pa.int64()))
        done = batch.num_rows
        if self._left is not None:
            if len(rows) >= self._left:
                selected, done = selected.slice(0, self._left), rows[self._left - 1] + 1
            self._left -= selected.num_rows
        if BAD_RECORD_COLUMN in batch.schema.names:
            say_bad_records(batch.slice(0, done))
        return selected, done


def say_bad_records(batch: pa.RecordBatch) -> None:
    """Name on stderr each record that `read --value-format` cannot decode (-X badRecords=column)."""
    bad = batch.column(BAD_RECORD_COLUMN)
    if bad.null_count == len(bad):
        return
    for row, reason in enumerate(bad.to_pylist()):
        if reason is not None:
            topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
            print(f"{topic}-{partition}, offset {offset}: {reason['reason']}", file=sys.stderr)
