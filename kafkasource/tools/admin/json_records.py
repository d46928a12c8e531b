"""Records that people write as JSON, as rows for the sink: takes what `pykafka read --json` and `kcat -J` print.

A text under `key` and `value` is UTF-8; bytes are base64 under `key_base64` and `value_base64`. A line with a `payload`
is kcat's. It has all bytes as they are, so it is not always UTF-8.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafkasource.tools.admin.positions import position

if TYPE_CHECKING:
    import pyarrow as pa

# Errors for JSON that is not a record; OverflowError and OSError come from numbers and times that are too large.
NO_RECORD = (ValueError, TypeError, AttributeError, KeyError, RecursionError, OverflowError, OSError)
Row = dict[str, Any]  # by column
_MOST_MS = ((1 << 63) - 1) // 1000  # in microseconds, the unit of the column, 64 bits


def from_line(line: bytes) -> Row:
    """A line of JSON as a row for the sink. Raises one of NO_RECORD."""
    try:
        return from_json(json.loads(line.decode()))
    except UnicodeDecodeError:
        document = json.loads(line.decode(errors="surrogateescape"))
        if not _is_of_kcat(document):
            raise
    return from_json(document, errors="surrogateescape")


def from_json(document: object, *, errors: str = "strict") -> Row:
    """A record as a row for the sink. `errors`: how its texts become bytes. Raises one of NO_RECORD."""
    if not isinstance(document, dict):
        raise ValueError("expected a JSON object with at least the key `value`, or `payload` as kcat -J prints it")
    if _is_of_kcat(document):
        document = _of_kcat(document)
    if not {"value", "value_base64"} & document.keys():
        raise ValueError("it has no key `value`, nor `payload` as kcat -J prints it")
    return {
        "key": _bytes(document, "key", errors),
        "value": _bytes(document, "value", errors),
        "headers": [
            {"key": _name(header["key"]), "value": _bytes(header, "value", errors)}
            for header in _headers(document.get("headers"))
        ],
        "partition": None if document.get("partition") is None else _partition(document["partition"]),
        "timestamp": _timestamp(document.get("timestamp")),
    }


def _is_of_kcat(document: object) -> bool:
    return isinstance(document, dict) and "payload" in document


def _of_kcat(document: Row) -> Row:
    """Give what `kcat -J` prints our names."""
    if {"value", "value_base64"} & document.keys():
        raise ValueError("it has a `payload`, as kcat -J prints it, and a `value`: which one is it?")
    for name in ("key_error", "payload_error"):  # then kcat prints null
        if name in document:
            raise ValueError(f"kcat could not decode the record ({document[name]}): run kcat without -s")
    time = document.get("ts") if document.get("tstype") != "unknown" else None
    return {
        "key": document.get("key"),
        "value": document["payload"],
        "headers": document.get("headers"),
        "partition": document.get("partition"),
        "timestamp": time,
    }


_HEADERS = 'headers are [{"key": "name", "value": "text"}], {"name": "text"}, or ["name", "text"] as kcat prints them'


def _headers(value: Any) -> list[Row]:
    """The headers in one shape, of the three that clients print."""
    if isinstance(value, dict):
        return [{"key": name, "value": text} for name, text in value.items()]
    if not isinstance(value, list | None):
        raise ValueError(f"{_HEADERS}; this is {json.dumps(value)[:80]}")
    headers: list[Any] = value or []
    if headers and isinstance(headers[0], str) and len(headers) % 2 == 0:
        headers = [{"key": name, "value": text} for name, text in zip(headers[::2], headers[1::2], strict=True)]
    for header in headers:
        if not isinstance(header, dict) or not isinstance(header.get("key"), str):
            raise ValueError(f"{_HEADERS}; one of these is {json.dumps(header)[:80]}")
    return headers


def _name(value: object) -> str:
    """The bytes of a header. JSON can write half of a character (a lone surrogate), which is a ValueError here."""
    return str(value).encode().decode()


def _partition(value: Any) -> int:
    number = int(value)
    if not 0 <= number < 1 << 31:
        raise ValueError(f"partition {number} is not a number from 0 to 2^31-1")
    return number


def _bytes(document: Row, name: str, errors: str) -> bytes | None:
    if f"{name}_base64" in document:
        try:
            return base64.b64decode(document[f"{name}_base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"{name}_base64: {error}") from None
    value = document.get(name)
    if value is None or isinstance(value, str):
        return None if value is None else value.encode(errors=errors)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _timestamp(value: Any) -> int | None:
    """Milliseconds since 1970, or a time as `positions` reads it: as microseconds, which no float has rounded."""
    if value is None:
        return None
    ms = value if isinstance(value, int) else getattr(position(value), "everywhere_ms", None)
    if ms is None:
        raise ValueError(f"timestamp {value!r} is neither a time nor milliseconds")
    if abs(ms) > _MOST_MS:
        raise ValueError(f"timestamp {ms} is beyond {_MOST_MS} ms, the last that a column of timestamps holds")
    return int(ms) * 1000


def as_batch(rows: list[Row], types: Mapping[str, pa.DataType] | None = None) -> pa.RecordBatch:
    """Rows as the sink takes them. `types`: of keys or values that are not bytes."""
    import pyarrow as pa

    from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE

    columns = {
        **{
            name: pa.array([row[name] for row in rows], (types or {}).get(name, pa.binary()))
            for name in ("key", "value")
        },
        "headers": pa.array([row.get("headers") or None for row in rows], HEADERS_TYPE),
        "partition": pa.array([row.get("partition") for row in rows], pa.int32()),
        "timestamp": pa.array([row.get("timestamp") for row in rows], pa.timestamp("us", "UTC")),
    }
    return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])
