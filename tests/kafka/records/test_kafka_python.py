"""kafka-python writes, we read; we write, kafka-python reads."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest
from record_wire import CODECS

from kafkasource.kafka.records.batches import decode
from kafkasource.kafka.records.builder import BatchBuilder, RecordColumns

memory_records = pytest.importorskip("kafka.record.memory_records")
legacy_records = pytest.importorskip("kafka.record.legacy_records")
pytestmark = pytest.mark.peers

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIME = 1_700_000_000_000


def records(seed, count=200):
    rng = random.Random(seed)
    return [
        (
            TIME + rng.randrange(-1000, 1000),
            rng.choice([None, b"", b"key %d" % i]),
            rng.choice([None, b"", rng.randbytes(20) + bytes(rng.randrange(300))]),
            rng.choice([[], [("h", b"x" * rng.randrange(200)), ("é", None), ("h", b"")]]),
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_we_read_what_kafka_python_writes(codec):
    written, data = [], b""
    for seed in range(3):
        builder = memory_records.MemoryRecordsBuilder(2, CODECS[codec], 1 << 20)
        for row in records(seed):
            builder.append(*row)
        builder.close()
        batch = bytearray(builder.buffer())
        struct.pack_into(">q", batch, 0, len(written))
        written += records(seed)
        data += batch
    decoded = decode(data, topic="t", partition=1, start_offset=0, end_offset=len(written), include_headers=True)
    (arrow,) = decoded.batches
    arrow.validate(full=True)
    assert arrow["offset"].to_pylist() == list(range(len(written)))
    assert arrow["timestamp"].cast(pa.int64()).to_pylist() == [1000 * row[0] for row in written]
    assert arrow["key"].to_pylist() == [row[1] for row in written]
    assert arrow["value"].to_pylist() == [row[2] for row in written]
    headers = [None if h is None else [(x["key"], x["value"]) for x in h] for h in arrow["headers"].to_pylist()]
    assert headers == [row[3] or None for row in written]


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python_reads_what_we_write(codec):
    written = records(7, 400)
    columns = RecordColumns(
        pa.array([row[1] for row in written], pa.binary()),
        pa.array([row[2] for row in written], pa.binary()),
        pa.array([row[0] for row in written], pa.int64()),
        pa.array([[{"key": k, "value": v} for k, v in row[3]] for row in written], HEADERS),
    )
    builder = BatchBuilder(bytearray(1 << 20), codec=codec)
    assert builder.append(columns) == len(written)
    batch = memory_records.MemoryRecords(bytes(builder.close(5, 1, 9))).next_batch()
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 1, 9)
    read = [(r.timestamp, r.key, r.value, r.headers) for r in batch]
    assert read == [(t, k, v, h) for t, k, v, h in written]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_we_read_the_message_sets_that_kafka_python_writes(codec, magic):
    if (codec, magic) == ("lz4", 0):
        pytest.skip("kafka-python needs xxhash for it; Kafka's own classes write it in test_kafka_records.py")
    written = [row[:3] for row in records(magic)]
    builder = legacy_records.LegacyRecordBatchBuilder(magic, CODECS[codec], 1 << 20)
    for offset, row in enumerate(written):
        builder.append(offset, *row)
    data = bytearray(builder.build())
    if codec != "none":  # a broker gives the wrapper the offset of the last message in it; the CRC does not cover it
        struct.pack_into(">q", data, 0, len(written) - 1)
    (arrow,) = decode(data, topic="t", partition=1, start_offset=0, end_offset=1 << 40).batches
    arrow.validate(full=True)
    assert arrow["offset"].to_pylist() == list(range(len(written)))
    assert arrow["timestamp"].cast(pa.int64()).to_pylist() == [1000 * row[0] if magic else -1000 for row in written]
    assert list(zip(arrow["key"].to_pylist(), arrow["value"].to_pylist(), strict=True)) == [row[1:] for row in written]
