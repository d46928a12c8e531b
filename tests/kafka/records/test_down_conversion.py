"""Message sets v0 and v1 from record batches: the bytes that Kafka's own classes write, read by others and by us."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest
from legacy_wire import CODECS, rows_of, unpacked
from record_wire import ask_kafka

from kafkasource.errors import CorruptRecordBatch, UnsupportedRecordFormat
from kafkasource.kafka.records.builder import BatchBuilder, RecordColumns
from kafkasource.kafka.records.compression import CODECS as NUMBERS
from kafkasource.kafka.records.compression import RecordBatchTooLarge
from kafkasource.kafka.records.down_conversion import down_convert

TIME = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
FORMATS = [(magic, codec) for magic in (0, 1) for codec in CODECS]


def records(seed, count=120):
    rng = random.Random(seed)
    return [
        (
            TIME + rng.randrange(-(10**9), 10**9),
            rng.choice([None, b"", b"key %d" % i]),
            rng.choice([None, b"", rng.randbytes(30) + bytes(rng.randrange(2000))]),
        )
        for i in range(count)
    ]


def batch_of(rows, codec="none", headers=None):
    columns = RecordColumns(
        pa.array([row[1] for row in rows], pa.binary()),
        pa.array([row[2] for row in rows], pa.binary()),
        pa.array([row[0] for row in rows], pa.int64()),
        headers,
    )
    builder = BatchBuilder(bytearray(1 << 20), codec=codec)
    assert builder.append(columns) == len(rows)
    return builder.close(7, 1, 0)


def converted(batch, magic, codec, max_bytes=1 << 20):
    return down_convert(batch, magic, codec=NUMBERS[codec], level=None, max_bytes=max_bytes)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
@pytest.mark.parametrize("before", ["none", "zstd"])
def test_the_message_set_holds_the_records_of_the_batch(magic, codec, before):
    rows = records(codec)
    found = rows_of(converted(batch_of(rows, before), magic, codec))
    assert found == [(i, *((0, time) if magic else (-1, -1)), key, value) for i, (time, key, value) in enumerate(rows)]


@pytest.mark.slow
@pytest.mark.peers
def test_the_bytes_are_those_that_kafkas_own_classes_write():
    """Compressed bytes differ with the library; the wrapper around them, and what they hold, must not."""
    written = {(magic, codec): records(f"{magic} {codec}") for magic, codec in FORMATS}
    words = {
        key: [f"{t},{'-' if k is None else k.hex()},{'-' if v is None else v.hex()}" for t, k, v in rows]
        for key, rows in written.items()
    }
    answers = ask_kafka([["write", *key, 0, -1, *words[key]] for key in FORMATS])
    for (magic, codec), answer in zip(FORMATS, answers, strict=True):
        theirs, ours = bytes.fromhex(answer), converted(batch_of(written[magic, codec]), magic, codec)
        if codec == "none":
            assert ours == theirs
            continue
        head = 18 + 8 * magic  # up to the timestamp
        assert ours[:8] == theirs[:8]  # the wrapper's offset
        assert ours[16 : head + 4] == theirs[16 : head + 4]  # magic, attributes, timestamp, null key
        if codec == "lz4":
            assert ours[head + 8 : head + 15] == theirs[head + 8 : head + 15]  # with the checksum, wrong in magic 0
        values = [unpacked(data[head + 8 :], CODECS[codec], magic) for data in (ours, theirs)]
        assert values[0] == values[1], (magic, codec)


@pytest.mark.slow
@pytest.mark.peers
def test_kafkas_own_classes_read_what_we_write():
    rows = {key: records(f"read {key}") for key in FORMATS}
    answers = ask_kafka(
        [["read", converted(batch_of(rows[magic, codec]), magic, codec).hex()] for magic, codec in FORMATS]
    )
    for (magic, codec), answer in zip(FORMATS, answers, strict=True):
        found = [word.split(",") for word in answer.split()]
        expected = [
            [str(i), str(time if magic else -1), *("-" if x is None else x.hex() for x in (key, value))]
            for i, (time, key, value) in enumerate(rows[magic, codec])
        ]
        assert found == expected, (magic, codec)


def test_headers_and_zstd_are_refused_and_empty_headers_are_not():
    rows = records("headers", 3)
    some = pa.array([None, [], [{"key": "h", "value": b"x"}]], HEADERS)
    with pytest.raises(UnsupportedRecordFormat, match="headers"):
        converted(batch_of(rows, headers=some), 1, "none")
    assert len(rows_of(converted(batch_of(rows, headers=pa.array([None, [], []], HEADERS)), 1, "none"))) == 3
    with pytest.raises(UnsupportedRecordFormat, match="zstd"):
        converted(batch_of(rows), 1, "zstd")


def test_a_damaged_batch_is_not_converted():
    batch = bytearray(batch_of(records("damaged")))
    batch[100] ^= 1
    with pytest.raises(CorruptRecordBatch, match="CRC32C"):
        converted(batch, 0, "none")


def test_what_a_compressed_batch_holds_is_bounded():
    batch = batch_of([(TIME, None, bytes(1 << 16))], "zstd")
    with pytest.raises(RecordBatchTooLarge):
        converted(batch, 1, "gzip", max_bytes=1 << 16)


def test_a_message_of_magic_1_is_as_the_protocol_guide_lays_it_out():
    data = converted(batch_of([(TIME, None, b"v")]), 1, "none")
    assert data[:12] == struct.pack(">qi", 0, 23)
    assert data[16:] == b"\x01\x00" + struct.pack(">qii", TIME, -1, 1) + b"v"
