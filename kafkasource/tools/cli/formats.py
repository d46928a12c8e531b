"""THE table of output formats of `pykafka read`, and the JSON that `pykafka write` takes back.

A format turns Arrow batches of records into bytes of a stream. Those of lines go to stdout as well; the others are for
files. In JSON, bytes that are UTF-8 are a text under `key`, `value`; others are base64 under `key_base64`,
`value_base64`, so that what was read can be written again as it was. Typed keys and values are JSON of their own
(`json_values`), on lines of text, too.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias

from kafkasource.errors import escaped
from kafkasource.tools.cli.json_values import as_bytes, encode, is_binary, json_values, moments
from kafkasource.tools.cli.terminal import escaped_bytes
from kafkasource.types import BAD_RECORD_COLUMN, ROW_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Style:
    """The choices that formats of lines have."""

    key_separator: bytes | None = None  # between key and value; None: no keys
    null: bytes = b""  # for a key or value that is null
    terminal: bool = False  # a person reads it: control bytes are shown, not sent


class Output(Protocol):
    durable: bool  # is a batch with the reader's side (written, flushed) when `write` has returned?

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None:
        """Write what belongs at the end. The stream stays open."""


Open: TypeAlias = "Callable[[IO[bytes], Style, pa.Schema], Output]"  # the schema: of the batches


class _Lines:
    durable = True

    def __init__(
        self,
        stream: IO[bytes],
        lines: Callable[[pa.RecordBatch, Style], Iterable[bytes]],
        style: Style,
        end: bytes,
    ):
        self._stream, self._lines, self._style, self._end = stream, lines, style, end

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        lines = [*self._lines(batch, self._style), b""]
        self._stream.write(self._end.join(lines))
        self._stream.flush()

    def close(self) -> None:
        self._stream.flush()


def _text(batch: pa.RecordBatch, style: Style) -> Iterable[bytes]:
    values = _shown(as_bytes(batch.column("value")), style)
    if style.key_separator is None:
        return values
    keys = _shown(as_bytes(batch.column("key")), style)
    separator = style.key_separator
    return (key + separator + value for key, value in zip(keys, values, strict=True))


def _shown(column: list[bytes | None], style: Style) -> Iterator[bytes]:
    if style.terminal:
        return (style.null if data is None else escaped_bytes(data) for data in column)
    return (style.null if data is None else data for data in column)


def _json(batch: pa.RecordBatch, style: Style) -> Iterable[bytes]:
    keys, values = (_members(name, batch.column(name)) for name in ("key", "value"))
    others = _rescued(batch), _bad_records(batch)
    for row, key, value, rescued, bad in zip(_rows(batch), keys, values, *others, strict=True):
        headers = row.pop("headers")
        row.update(key)
        row.update(value)
        if headers:
            row["headers"] = [{"key": header["key"], **_bytes_as_json("value", header["value"])} for header in headers]
        row.update(rescued)
        if bad is not None:
            row[BAD_RECORD_COLUMN] = bad
        text = encode(row)
        yield (escaped(text) if style.terminal else text).encode()


def _members(name: str, column: pa.Array) -> Iterator[dict[str, Any]]:
    """Keys or values as members of the objects of rows."""
    if is_binary(column):
        return (_bytes_as_json(name, data) for data in column.to_pylist())
    return ({name: value} for value in json_values(column))


def _rescued(batch: pa.RecordBatch) -> list[dict[str, str]]:
    """The column of `rescuedColumn`: a text, as in Spark."""
    name = next((name for name in batch.schema.names if name not in (*ROW_COLUMNS, BAD_RECORD_COLUMN)), None)
    if name is None:
        return [{}] * batch.num_rows
    return [{} if text is None else {name: text} for text in batch.column(name).to_pylist()]


def _bad_records(batch: pa.RecordBatch) -> list[dict[str, Any] | None]:
    """The column of bad records as JSON, with bytes as in keys and values."""
    if BAD_RECORD_COLUMN not in batch.schema.names:
        return [None] * batch.num_rows
    return [
        bad
        and {
            **{"reason": bad["reason"], "schemaId": bad["schemaId"]},
            **_bytes_as_json("key", bad["key"]),
            **_bytes_as_json("value", bad["value"]),
            "clusterId": bad["clusterId"],
        }
        for bad in batch.column(BAD_RECORD_COLUMN).to_pylist()
    ]


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The other columns as Python values, with the timestamp from `_moments`. Converting by column is several times
    faster than by row."""
    topic, partition = (batch.column(name)[0].as_py() for name in ("topic", "partition"))  # of one partition, all
    headers = batch.column("headers")
    lists = [None] * len(headers) if headers.null_count == len(headers) else headers.to_pylist()
    offsets = batch.column("offset").to_pylist()
    for offset, timestamp, record_headers in zip(offsets, _moments(batch.column("timestamp")), lists, strict=True):
        yield {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": timestamp,
            "headers": record_headers,
        }


def _moments(timestamps: pa.Array) -> list[object]:
    """`2026-11-21T22:30:05.250Z`, milliseconds above the year 9999; None: the record has no timestamp (-1)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    times = timestamps.cast(pa.timestamp("ms", timestamps.type.tz), safe=False)
    return moments(pc.if_else(pc.less(times.cast(pa.int64()), 0), pa.scalar(None, times.type), times))


def _bytes_as_json(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


_HEX_WIDTH = 16


def _hex(batch: pa.RecordBatch, style: Style) -> Iterable[bytes]:
    keys, values = (batch.column(name).to_pylist() for name in ("key", "value"))
    for row, key, value in zip(_rows(batch), keys, values, strict=True):
        yield f"{row['topic']}-{row['partition']} offset {row['offset']}  {row['timestamp'] or ''}".encode()
        parts = [("key", key), ("value", value)]
        parts += [(f"header {header['key']!r}", header["value"]) for header in row.get("headers") or ()]
        for name, data in parts:
            yield f"  {name}: null".encode() if data is None else f"  {name}: {len(data)} bytes".encode()
            for start in range(0, len(data or b""), _HEX_WIDTH):
                piece = data[start : start + _HEX_WIDTH]
                shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
                yield f"    {start:08x}  {piece.hex(' '):<{3 * _HEX_WIDTH - 1}}  {shown}".encode()


class _Parquet:
    durable = False  # a file is one when its footer is written

    def __init__(self, stream: IO[bytes], _: Style, schema: pa.Schema) -> None:
        import pyarrow.parquet as parquet

        self._writer = parquet.ParquetWriter(stream, schema, compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _Arrow:
    durable = False

    def __init__(self, stream: IO[bytes], _: Style, schema: pa.Schema) -> None:
        import pyarrow as pa

        self._writer = pa.ipc.new_file(stream, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


def of_lines(lines: Callable[[pa.RecordBatch, Style], Iterable[bytes]], end: bytes = b"\n") -> Open:
    """A function that opens an output of lines."""
    return lambda stream, style, schema: _Lines(stream, lines, style, end)


@dataclass(frozen=True, slots=True)
class OutputFormat:
    name: str
    suffixes: tuple[str, ...]  # of files, the first one usual
    doc: str
    open: Open
    only_files: bool = False
    typed: bool = True  # has it a way to show keys and values that are not bytes?


FORMATS: tuple[OutputFormat, ...] = (
    OutputFormat("text", (".txt",), "values as they are, one a line", of_lines(_text)),
    OutputFormat(
        "json", (".jsonl", ".ndjson", ".json"), "an object a line, with key, headers and place", of_lines(_json)
    ),
    OutputFormat("hex", (".hex",), "for bytes: a dump of key, value and headers", of_lines(_hex), typed=False),
    OutputFormat("parquet", (".parquet",), "all columns, as Spark reads them", _Parquet, only_files=True),
    OutputFormat("arrow", (".arrow", ".feather"), "an Arrow IPC file", _Arrow, only_files=True),
)
BY_NAME = {form.name: form for form in FORMATS}


def of_file(name: str) -> OutputFormat | None:
    """The format that a file's name asks for."""
    return next((form for form in FORMATS if name.lower().endswith(form.suffixes)), None)
