r"""kcat's format string, `pykafka read -f '%t %p %o %k %s %h\n'`: what it prints for each record, and nothing after it.

    %s %S    the value, its length in bytes (-1: null)    %t %p %o  topic, partition, offset
    %k %K    the key, its length                          %T        the timestamp, milliseconds since 1970 (-1: none)
    %R       the value's length as 4 bytes, big-endian    %h        the headers: name=value,name=NULL
    %%       a percent sign                               \n \r \t \xHH \0NN \\
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kafkasource.tools.cli.formats import OutputFormat, Style, of_lines
from kafkasource.tools.cli.json_values import as_bytes
from kafkasource.tools.cli.terminal import escaped_bytes

if TYPE_CHECKING:
    import pyarrow as pa

LETTERS = "%s value, %k key, %S %K their lengths, %R the value's length in 4 bytes, %t topic, %p partition, %o offset, \
%T timestamp in ms, %h headers, %% a percent sign"

_TOKEN = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{1,2}|0[0-7]{0,3}|.)|([^%\\]+|\\)", re.DOTALL)
_CONTROLS = {"n": b"\n", "r": b"\r", "t": b"\t"}
_OF_RPK = {"v": "s", "V": "S", "d": "T"}  # rpk's letters that kcat does not have

Row = dict[str, Any]
Piece = Callable[[Row, "Style"], bytes]


def _data(name: str) -> Piece:
    return lambda row, style: style.null if row[name] is None else _shown(row[name], style)


def _length(name: str) -> Piece:
    return lambda row, style: b"%d" % _size(row[name])


def _number(name: str) -> Piece:
    return lambda row, style: b"%d" % row[name]


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(row: Row, style: Style) -> bytes:
    return b",".join(
        _shown(header["key"].encode(), style)
        + b"="
        + (b"NULL" if header["value"] is None else _shown(header["value"], style))
        for header in row["headers"] or ()
    )


def _shown(data: bytes, style: Style) -> bytes:
    return escaped_bytes(data) if style.terminal else data


_PIECES: dict[str, Piece] = {
    "s": _data("value"),
    "S": _length("value"),
    "R": lambda row, style: _size(row["value"]).to_bytes(4, "big", signed=True),
    "k": _data("key"),
    "K": _length("key"),
    "t": lambda row, style: row["topic"].encode(),
    "p": _number("partition"),
    "o": _number("offset"),
    "T": _number("timestamp"),
    "h": _headers,
    "%": lambda row, style: b"%",
}


class Template:
    """A parsed format string."""

    def __init__(self, text: str) -> None:
        """An argparse type: raises ArgumentTypeError for a letter that kcat does not have."""
        self._pieces = [_piece(*match.groups()) for match in _TOKEN.finditer(text)]

    def lines(self, batch: pa.RecordBatch, style: Style) -> Iterable[bytes]:
        for row in _rows(batch):
            yield b"".join(piece(row, style) for piece in self._pieces)


def format_of(template: Template) -> OutputFormat:
    """The output format of a format string."""
    return OutputFormat("-f", (), "", of_lines(template.lines, end=b""))


def _piece(letter: str | None, escape: str | None, text: str | None) -> Piece:
    if letter is not None:
        if letter not in _PIECES:
            near = f"kcat's letter for it is %{_OF_RPK[letter]}" if letter in _OF_RPK else LETTERS
            raise argparse.ArgumentTypeError(f"%{letter} means nothing here; {near}")
        return _PIECES[letter]
    if escape is None:
        constant = (text or "").encode()
    elif escape[0] == "x" and len(escape) > 1:
        constant = bytes([int(escape[1:], 16)])
    elif escape[0] == "0":
        constant = bytes([int(escape, 8) & 0xFF])
    else:
        constant = _CONTROLS.get(escape, escape.encode())
    return lambda row, style: constant


def _rows(batch: pa.RecordBatch) -> Iterable[Row]:
    """The rows of a batch, with the timestamp in milliseconds (-1: none)."""
    import pyarrow as pa

    topic, partition = (batch.column(name)[0].as_py() for name in ("topic", "partition"))  # of one partition, all
    times = batch.column("timestamp")
    milliseconds = times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64()).to_pylist()
    offsets, lists = (batch.column(name).to_pylist() for name in ("offset", "headers"))
    keys, values = (as_bytes(batch.column(name)) for name in ("key", "value"))
    for offset, key, value, headers, timestamp in zip(offsets, keys, values, lists, milliseconds, strict=True):
        yield {
            **{"topic": topic, "partition": partition, "offset": offset, "timestamp": max(-1, timestamp)},
            **{"key": key, "value": value, "headers": headers},
        }
