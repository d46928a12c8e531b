"""Avro, Protobuf and JSON records to Arrow columns, and back: nanoseconds of processor time per record, in one process,
beside fastavro, protobuf and Python's json; for JSON also Spark's from_json and to_json in a session of one core.

`python -m lab.benchmarks.typed_speed` prints it without a broker.
"""

from __future__ import annotations

import io
import json
import struct
from array import array
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kafkasource.formats.avro.decode import AvroDecoder
from kafkasource.formats.avro.encode import AvroEncoder
from kafkasource.formats.avro.parse import parse_schema
from kafkasource.formats.protobuf.decode import ProtobufDecoder
from kafkasource.formats.protobuf.encode import ProtobufEncoder
from kafkasource.formats.protobuf.schema import read_schema
from kafkasource.formats.rows import RegisteredRows
from kafkasource.formats.schema_source import AVRO, PROTOBUF, RegisteredSchema
from lab.benchmarks.json_speed import json_rows
from lab.benchmarks.lab import Lab
from lab.benchmarks.results import NANOSECONDS, OURS, Row
from lab.benchmarks.stages import Effort, compare
from lab.benchmarks.turns import Run, per_record

TITLE = "Avro, Protobuf and JSON records to columns, and back, one core"
RECORDS = 1_000_000
PIECE_RECORDS = 25_000  # about 1 MiB of records, as a task decodes them
OTHERS_RECORDS = 20_000  # to Python's objects
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
PROTO = """syntax = "proto3";
message Sale { int64 id = 1; string name = 2; double price = 3; optional string note = 4; int64 at = 5; }
"""
PROTO_PREFIX = b"\0\0\0\0\1\0"  # with the message index


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
    contestants = {OURS: encoding(new), "fastavro": to_fastavro(new)}
    yield from compare("Avro, 5 fields, written", contestants, turns, measure=NANOSECONDS, cpu=False)
    messages = protobuf_records(count)
    contestants = {OURS: decoding_protobuf(messages), "protobuf": by_protobuf(messages)}
    yield from compare("Protobuf, 5 fields", contestants, turns, measure=NANOSECONDS, cpu=False)
    contestants = {OURS: encoding_protobuf(messages), "protobuf": to_protobuf(messages)}
    yield from compare("Protobuf, 5 fields, written", contestants, turns, measure=NANOSECONDS, cpu=False)
    yield from json_rows(count, turns)
    framed = {f"{OURS}, Avro": typed_rows(new, AVRO), f"{OURS}, Protobuf": typed_rows(messages, PROTOBUF)}
    yield from compare("a task's typed rows, with the schema ids", framed, turns, measure=NANOSECONDS, cpu=False)


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
        for each in records[:OTHERS_RECORDS]:
            fastavro.schemaless_reader(io.BytesIO(memoryview(each)[len(PREFIX) :]), schema, None)

    return per_record(work, min(OTHERS_RECORDS, len(records)))


WRITE_ROWS = 10_000  # as Spark hands rows over: spark.sql.execution.arrow.maxRecordsPerBatch
WRITE_BYTES = 1 << 20  # of records, as a task encodes them


def columns_of(records: list[bytes]) -> pa.Array:
    """Each field may be null, as Spark's mostly are."""
    schema = parse_schema(json.dumps(SCHEMA))
    decoded = AvroDecoder(schema, [schema]).decode(pa.array(records, pa.binary()), MOST_BYTES, skip_bytes=len(PREFIX))
    return decoded.array.cast(pa.struct([each.with_nullable(True) for each in decoded.array.type]))


def encoding(records: list[bytes]) -> Run:
    columns = columns_of(records)
    encoder = AvroEncoder(columns.type, parse_schema(json.dumps(SCHEMA)), PREFIX)
    assert next(encoder.pieces(columns[:1], WRITE_BYTES)).records[0].as_py() == records[0]

    def work() -> None:
        for start in range(0, len(columns), WRITE_ROWS):
            for _ in encoder.pieces(columns.slice(start, WRITE_ROWS), WRITE_BYTES):
                pass

    return per_record(work, len(columns))


def to_fastavro(records: list[bytes]) -> Run:
    rows = columns_of(records[:OTHERS_RECORDS]).to_pylist()

    def work() -> None:
        import fastavro

        schema = fastavro.parse_schema(SCHEMA)
        for each in rows:
            fastavro.schemaless_writer(io.BytesIO(), schema, each)

    return per_record(work, len(rows))


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def protobuf_records(count: int) -> list[bytes]:
    notes = [b"", b"\x22\x06a note"]
    return [
        PROTO_PREFIX
        + (b"\x08" + varint(i * 1000) + b"\x12\x0c" + f"name-{i:07d}".encode() + b"\x19" + struct.pack("<d", i * 1.5))
        + (notes[i % 2] + b"\x28" + varint(1_700_000_000_000 + i))
        for i in range(1, count + 1)
    ]


def decoding_protobuf(records: list[bytes]) -> Run:
    column = pa.array(records, pa.binary())
    schema = read_schema(PROTO)
    decoder = ProtobufDecoder(schema, schema.message_named("Sale"))

    def work() -> None:
        for start in range(0, len(records), PIECE_RECORDS):
            decoded = decoder.decode(column.slice(start, PIECE_RECORDS), MOST_BYTES, skip_bytes=len(PROTO_PREFIX))
            assert decoded.bad == 0

    return per_record(work, len(records))


def encoding_protobuf(records: list[bytes]) -> Run:
    schema = read_schema(PROTO)
    message = schema.message_named("Sale")
    rows = pa.array(records, pa.binary())
    columns = ProtobufDecoder(schema, message).decode(rows, MOST_BYTES, skip_bytes=len(PROTO_PREFIX)).array
    encoder = ProtobufEncoder(columns.type, schema, message, PROTO_PREFIX)
    assert next(encoder.pieces(columns[:1], WRITE_BYTES)).records[0].as_py() == records[0]

    def work() -> None:
        for start in range(0, len(columns), WRITE_ROWS):
            for _ in encoder.pieces(columns.slice(start, WRITE_ROWS), WRITE_BYTES):
                pass

    return per_record(work, len(columns))


def proto_file() -> Any:
    """`PROTO` as a FileDescriptorProto."""
    from google.protobuf import descriptor_pb2

    kinds = {"id": 3, "name": 9, "price": 1, "note": 9, "at": 3}
    file = descriptor_pb2.FileDescriptorProto(name="sale.proto", syntax="proto3")
    message = file.message_type.add(name="Sale")
    for number, (name, kind) in enumerate(kinds.items(), 1):
        message.field.add(name=name, number=number, type=kind, label=1)
    note = message.field[3]
    note.proto3_optional, note.oneof_index = True, 0
    message.oneof_decl.add(name="_note")
    return file


def sale_class() -> Any:
    """Google's class of the message."""
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto_file())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Sale"))


def by_protobuf(records: list[bytes]) -> Run:
    sale = sale_class()

    def work() -> None:
        for each in records[:OTHERS_RECORDS]:
            sale.FromString(each[len(PROTO_PREFIX) :])

    return per_record(work, min(OTHERS_RECORDS, len(records)))


def to_protobuf(records: list[bytes]) -> Run:
    """Of Python's values, as a program has them."""
    sale = sale_class()
    parsed = [sale.FromString(each[len(PROTO_PREFIX) :]) for each in records[:OTHERS_RECORDS]]
    rows = [{field.name: value for field, value in each.ListFields()} for each in parsed]

    def work() -> None:
        for each in rows:
            sale(**each).SerializeToString()

    return per_record(work, len(rows))


class Kept:
    """One schema, of the id 1."""

    def __init__(self, schema: RegisteredSchema) -> None:
        self._schema = schema

    def schema(self, schema_id: object) -> RegisteredSchema:
        return self._schema

    def versions_from(self, schema_id: object) -> Iterator[tuple[str, RegisteredSchema]]:
        yield from ()


def typed_rows(records: list[bytes], kind: str) -> Run:
    """As a task decodes them: schema ids, programs, bad rows."""
    schema = RegisteredSchema(kind, json.dumps(SCHEMA) if kind == AVRO else PROTO)
    rows = RegisteredRows(schema, Kept(schema))
    column = pa.array(records, pa.binary())

    def work() -> None:
        for start in range(0, len(records), PIECE_RECORDS):
            for piece in rows.pieces(column.slice(start, PIECE_RECORDS), None, MOST_BYTES):
                assert not piece.bad

    return per_record(work, len(records))


if __name__ == "__main__":
    for row in run(None, Effort(False, 9)):  # type: ignore[arg-type]
        print(f"{row.work:<40} {row.contestant:<24} {row.headline or 0:>8.1f} ns  {row.failure or ''}", flush=True)
