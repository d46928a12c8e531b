"""The compiled kernel by itself, in one process: nanoseconds per record, Python layer and Arrow wrapping included."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from kafkasource.kafka.records.batches import decode
from kafkasource.kafka.records.builder import BatchBuilder, RecordColumns
from kafkasource.kafka.records.compression import CODECS
from kafkasource.kafka.records.partitions import partition_by_key
from lab.benchmarks.clients import _values
from lab.benchmarks.lab import Lab
from lab.benchmarks.results import NANOSECONDS, Row
from lab.benchmarks.stages import Effort, compare
from lab.benchmarks.turns import Run

TITLE = "the kernel alone, one core"
FETCH_BYTES = 1 << 20  # what is decoded at a time: larger means fresh memory and its page faults
MANY = 1 << 30
AT_LEAST_S = 0.1  # of calls timed together


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    turns = max(effort.turns, 5)
    works: list[tuple[str, Run]] = [("murmur2 of a key", keys())]
    for name, columns in (
        ("100 B", columns_of(100)),
        ("1 kB", columns_of(1000)),
        ("100 B, 2 headers", columns_of(100, headers=2)),
    ):
        works.append((f"decode {name}", decoding(log_of(columns), columns.count, headers="headers" in name)))
        works.append((f"encode {name}", encoding(columns)))
    small = columns_of(100)
    works += [
        (f"decode 100 B {codec}", decoding(log_of(small, codec), small.count)) for codec in CODECS if codec != "none"
    ]
    works += [(f"encode 100 B {codec}", encoding(small, codec)) for codec in CODECS if codec != "none"]
    works.append(("decode batches of 1 record", decoding(log_of(small, rows=1), small.count)))
    for work, each in works:
        yield from compare(work, {"pykafka": each}, turns, measure=NANOSECONDS, cpu=False)


def columns_of(size: int, headers: int = 0) -> RecordColumns:
    """As many as one fetch brings."""
    count = FETCH_BYTES // (size + 15 + 20 * headers)
    values = _values(size)
    lists: Any = None
    if headers:
        struct = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
        one = [{"key": f"header-{i}", "value": b"%08d" % i} for i in range(headers)]
        lists = pa.array([one] * count, pa.list_(struct))
    return RecordColumns(
        pa.array([b"%07d" % i for i in range(count)], pa.binary()),
        pa.array([values[i % len(values)] for i in range(count)], pa.binary()),
        None,
        lists,
        default_timestamp_ms=1_700_000_000_000,
    )


def batches(columns: RecordColumns, codec: str, buffer: bytearray, rows: int = MANY) -> Iterator[memoryview]:
    """All rows, as record batches of at most `rows` and of what fits into the buffer, which the next one reuses."""
    first = 0
    while first < columns.count:
        builder = BatchBuilder(buffer, codec=codec)
        first = builder.append(columns, None, first, min(columns.count, first + rows))
        yield builder.close()


def log_of(columns: RecordColumns, codec: str = "none", rows: int = MANY) -> bytes:
    """A log of them, in batches of 256 KiB at most; base offsets counted up as a broker does."""
    log, offset = bytearray(), 0
    for batch in batches(columns, codec, bytearray(256 << 10), rows):
        log += offset.to_bytes(8, "big") + batch[8:]
        offset += int.from_bytes(batch[57:61], "big")
    return bytes(log)


def per_record(work: Callable[[], object], records: int) -> Run:
    def run() -> float:
        started, calls = time.perf_counter(), 0
        while (seconds := time.perf_counter() - started) < AT_LEAST_S:
            work()
            calls += 1
        return seconds * 1e9 / (calls * records)

    return run


def decoding(log: bytes, records: int, *, headers: bool = False) -> Run:
    def work() -> None:
        decoded = decode(log, topic="bench", partition=0, start_offset=0, end_offset=records, include_headers=headers)
        assert decoded.num_rows == records

    return per_record(work, records)


def encoding(columns: RecordColumns, codec: str = "none") -> Run:
    buffer = bytearray(256 << 10)

    def work() -> None:
        for _ in batches(columns, codec, buffer):
            pass

    return per_record(work, columns.count)


def keys() -> Run:
    column = pa.array([b"%07d" % i for i in range(10_000)], pa.binary())
    return per_record(lambda: partition_by_key(column, 16), len(column))
