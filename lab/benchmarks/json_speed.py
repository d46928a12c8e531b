"""JSON records of five fields to Arrow columns and back, beside Python's json, and Spark's from_json and to_json."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kafkasource.formats.json.decode import JsonDecoder
from kafkasource.formats.json.encode import JsonEncoder
from kafkasource.formats.json.types_of import column_type
from kafkasource.formats.schema_source import JSON, RegisteredSchema
from lab.benchmarks.processes import cpu_seconds
from lab.benchmarks.results import NANOSECONDS, OURS, Row
from lab.benchmarks.session import in_session
from lab.benchmarks.stages import compare
from lab.benchmarks.turns import Run, per_record

COLUMNS = "id BIGINT, name STRING, price DOUBLE, note STRING, at TIMESTAMP"
READ_RECORDS = 25_000  # at once, as a task decodes them: more than 1 MiB
WRITE_ROWS = 10_000  # as Spark hands rows over: spark.sql.execution.arrow.maxRecordsPerBatch
WRITE_BYTES = 1 << 20  # of records, as a task encodes them
PYTHON_RECORDS = 20_000  # to Python's objects
MOST_BYTES = 256 << 20


def json_rows(count: int, turns: int) -> Iterator[Row]:
    """The JVM's part is the processor time of all its threads, ours that of the one thread."""
    texts = json_records(count)
    reads = {OURS: decoding(texts), "json": by_json(texts), "from_json, JVM": by_spark("from_json", count, turns)}
    yield from compare("JSON, 5 fields", reads, turns, measure=NANOSECONDS, warm_up=0, cpu=False)
    columns = columns_of(texts)
    writes = {OURS: encoding(columns), "json": to_json(columns), "to_json, JVM": by_spark("to_json", count, turns)}
    yield from compare("JSON, 5 fields, written", writes, turns, measure=NANOSECONDS, warm_up=0, cpu=False)


def json_records(count: int) -> list[bytes]:
    """94 bytes each, more or less."""
    notes = [b"null", b'"a note"']
    return [
        b'{"id":%d,"name":"name-%07d","price":%r,"note":%s,"at":"2026-05-06T07:08:%02d.%03dZ"}'
        % (i * 1000, i, i * 1.5, notes[i % 2], i % 60, i % 1000)
        for i in range(count)
    ]


def decoder() -> JsonDecoder:
    return JsonDecoder(column_type(RegisteredSchema(JSON, COLUMNS)))


def decoding(records: list[bytes]) -> Run:
    column, reader = pa.array(records, pa.binary()), decoder()

    def work() -> None:
        for start in range(0, len(records), READ_RECORDS):
            decoded = reader.decode(column.slice(start, READ_RECORDS), MOST_BYTES)
            assert decoded.bad == 0

    return per_record(work, len(records))


def by_json(records: list[bytes]) -> Run:
    def work() -> None:
        for each in records[:PYTHON_RECORDS]:
            json.loads(each)

    return per_record(work, min(PYTHON_RECORDS, len(records)))


def columns_of(records: list[bytes]) -> pa.Array:
    return decoder().decode(pa.array(records, pa.binary()), MOST_BYTES).array


def encoding(columns: pa.Array) -> Run:
    encoder = JsonEncoder(columns.type)
    assert json.loads(next(encoder.pieces(columns[1:2], WRITE_BYTES)).records[0].as_py())["note"] == "a note"

    def work() -> None:
        for start in range(0, len(columns), WRITE_ROWS):
            for _ in encoder.pieces(columns.slice(start, WRITE_ROWS), WRITE_BYTES):
                pass

    return per_record(work, len(columns))


def to_json(columns: pa.Array) -> Run:
    """Of Python's values, as a program has them, whose times are texts already."""
    rows = [each | {"at": each["at"].isoformat()} for each in columns[:PYTHON_RECORDS].to_pylist()]

    def work() -> None:
        for each in rows:
            json.dumps(each)

    return per_record(work, len(rows))


def by_spark(function: str, count: int, turns: int) -> Run:
    """A session is started for the first turn, and measures all of them."""
    measured: list[float] = []

    def run() -> float:
        if not measured:
            arguments = {"function": function, "count": count, "turns": turns}
            measured.extend(
                in_session("lab.benchmarks.json_speed:spark_nanoseconds", master="local[1]", arguments=arguments).value
            )
        return measured.pop()

    return run


def spark_nanoseconds(spark: Any, function: str, count: int, turns: int) -> list[float]:
    """In the session's process, per record: with the function, less a run that only reads the same rows from memory."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(pa.table({"value": pa.array(json_records(count), pa.binary())}), f"{folder}/records.parquet")
        rows = spark.read.parquet(folder).selectExpr("cast(value AS STRING) AS value")
        parsed = f"from_json(value, '{COLUMNS}') AS value"
        if function == "to_json":
            rows = rows.selectExpr(parsed).select("value.*").cache()
            done = rows.selectExpr("to_json(struct(*)) AS value")
        else:
            rows = rows.cache()
            done = rows.selectExpr(parsed).select("value.*")

        def seconds(frame: Any) -> float:
            started = cpu_seconds(os.getpid())
            frame.write.format("noop").mode("overwrite").save()
            return cpu_seconds(os.getpid()) - started

        for frame in (rows, done, done, rows, rows, done):  # until the JVM has compiled it
            seconds(frame)
        return [(seconds(done) - seconds(rows)) * 1e9 / count for _ in range(turns)]
