"""Avro records to Arrow columns, in one process: nanoseconds per record, beside fastavro to Python dicts.

`python -m benchmarks.typed_speed` prints it without a broker.
"""

from __future__ import annotations

import io
import json
import struct
import time
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from benchmarks.lab import Lab
from benchmarks.results import NANOSECONDS, OURS, Row
from benchmarks.stages import Effort, compare
from benchmarks.turns import Run
from kafkasource.typed.avro.decode import AvroDecoder
from kafkasource.typed.avro.parse import parse_schema

TITLE = "Avro records to columns, one core"
RECORDS = 1_000_000
PIECE_RECORDS = 25_000  # about 1 MiB of records, as a task decodes them
FASTAVRO_RECORDS = 20_000
PREFIX = b"\0\0\0\0\1"
MOST_BYTES = 256 << 20

FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": "string"},
    {"name": "price", "type": "double"},
    {"name": "note", "type": ["null", "string"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
]
SCHEMA: dict[str, Any] = {"type": "record", "name": "Sale", "fields": FIELDS}
# An older version: another order, a field that is gone, ints that became longs, no note yet.
GONE, INT = {"name": "gone", "type": "string"}, {"name": "id", "type": "int"}
OLDER = SCHEMA | {"fields": [GONE, INT, *FIELDS[1:3], FIELDS[4]]}
READER = SCHEMA | {"fields": [*FIELDS[:3], FIELDS[3] | {"default": None}, FIELDS[4]]}


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    count, turns = effort.rows(RECORDS), max(effort.turns, 5)
    new, old = newer_records(count), older_records(count)
    for work, records, writers in (
        ("Avro, 5 fields", new, None),
        ("Avro, 5 fields, two writers in turns", [(old if i % 2 else new)[i] for i in range(count)], [0, 1]),
        ("Avro, 5 fields, 1 in 100 cut", [each[: 20 if i % 100 == 7 else None] for i, each in enumerate(new)], None),
    ):
        contestants: dict[str, Run] = {OURS: decoding(records, PIECE_RECORDS, writers)}
        if writers is None and records is new:
            contestants["pykafka, 1 M at once"] = decoding(records, count, None)
            contestants["fastavro"] = by_fastavro(records)
        yield from compare(work, contestants, turns, measure=NANOSECONDS, cpu=False)


def zigzag(number: int) -> bytes:
    raw, out = (number << 1) ^ (number >> 63), bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def text(value: str) -> bytes:
    return zigzag(len(value)) + value.encode()


def newer_records(count: int) -> list[bytes]:
    notes = [b"\0", b"\2" + text("a note")]
    return [
        PREFIX + zigzag(i * 1000) + text(f"name-{i:07d}") + struct.pack("<d", i * 1.5) + notes[i % 2] + moment(i)
        for i in range(count)
    ]


def older_records(count: int) -> list[bytes]:
    return [
        PREFIX + text("gone") + zigzag(i) + text(f"name-{i:07d}") + struct.pack("<d", i * 1.5) + moment(i)
        for i in range(count)
    ]


def moment(number: int) -> bytes:
    return zigzag(1_700_000_000_000 + number)


def decoding(records: list[bytes], piece: int, writers: list[int] | None) -> Run:
    """Nanoseconds a record, of processor time: this thread's alone, whatever else runs on the machine."""
    column = pa.array(records, pa.binary())
    reader, *readable = (parse_schema(json.dumps(each)) for each in (READER, SCHEMA, OLDER))
    decoder = AvroDecoder(reader, readable)
    programs = memoryview(array("i", [writers[i % len(writers)] for i in range(len(records))])) if writers else None

    def work() -> None:
        for start in range(0, len(records), piece):
            rows = column.slice(start, piece)
            whose = None if programs is None else programs[start : start + piece]
            decoded = decoder.decode(rows, MOST_BYTES, skip_bytes=len(PREFIX), programs=whose)
            assert decoded.end == len(rows)

    return per_record(work, len(records))


def by_fastavro(records: list[bytes]) -> Run:
    def work() -> None:
        import fastavro

        schema = fastavro.parse_schema(SCHEMA)
        for each in records[:FASTAVRO_RECORDS]:
            fastavro.schemaless_reader(io.BytesIO(memoryview(each)[len(PREFIX) :]), schema, None)

    return per_record(work, min(FASTAVRO_RECORDS, len(records)))


def per_record(work: Callable[[], object], records: int) -> Run:
    def run() -> float:
        started = time.thread_time()
        work()
        return (time.thread_time() - started) * 1e9 / records

    return run


if __name__ == "__main__":
    for row in run(None, Effort(False, 9)):  # type: ignore[arg-type]
        print(f"{row.work:<40} {row.contestant:<24} {row.headline or 0:>8.1f} ns  {row.failure or ''}", flush=True)
