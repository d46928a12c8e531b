"""Kafka's own record classes (KafkaRecords.java over the kafka-clients jar) write, we read; we write, they read."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from record_wire import CODECS, ask_kafka

from kafkasource.kafka.records.batches import decode, next_fetch_offset
from kafkasource.kafka.records.builder import BatchBuilder, RecordColumns, partition_by_key

pytestmark = [pytest.mark.peers, pytest.mark.slow]

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIME = 1_700_000_000_000
RANGE = {"topic": "t", "partition": 0, "start_offset": 0, "end_offset": 1 << 62, "include_headers": True}


def records(seed, count=150):
    rng = random.Random(seed)
    return [
        (
            TIME + rng.randrange(-(10**9), 10**9),
            rng.choice([None, b"", b"key %d" % i]),
            rng.choice([None, b"", rng.randbytes(30) + bytes(rng.randrange(2000))]),
            rng.choice([[], [("h", b"x" * rng.randrange(200)), ("é", None), ("", b""), ("h", b"2")]]),
        )
        for i in range(count)
    ]


def hexed(data):
    return "-" if data is None else data.hex()


def words(rows):
    return [
        ",".join([str(t), hexed(k), hexed(v), *(f"{hexed(n.encode())}:{hexed(x)}" for n, x in headers)])
        for t, k, v, headers in rows
    ]


def rows_of_answer(answer):
    rows = []
    for word in answer.split():
        offset, timestamp, key, value, *headers = word.split(",")
        pairs = [h.split(":") for h in headers]
        cells = [None if text == "-" else bytes.fromhex(text) for text in (key, value)]
        pairs = [(bytes.fromhex(n).decode(), None if x == "-" else bytes.fromhex(x)) for n, x in pairs]
        rows.append((int(offset), int(timestamp), *cells, pairs))
    return rows


def rows_of_arrow(decoded):
    rows = []
    for arrow in decoded.batches:
        arrow.validate(full=True)
        times = [us // 1000 for us in arrow["timestamp"].cast(pa.int64()).to_pylist()]
        headers = [[(h["key"], h["value"]) for h in hs or []] for hs in arrow["headers"].to_pylist()]
        rows += zip(
            arrow["offset"].to_pylist(),
            times,
            arrow["key"].to_pylist(),
            arrow["value"].to_pylist(),
            headers,
            strict=True,
        )
    return rows


def test_we_read_what_kafka_writes():
    written = {codec: [records(f"{codec} {i}") for i in range(3)] for codec in CODECS}
    commands = [
        ["write", 2, codec, 1000 * i, -1, *words(batch)]
        for codec, batches in written.items()
        for i, batch in enumerate(batches)
    ]
    commands += [["write", 2, codec, 3000, TIME + 77, *words(records(9, 5))] for codec in CODECS]
    answers = [bytes.fromhex(line) for line in ask_kafka(commands)]
    for codec, batches in written.items():
        data = b"".join(answers[:3])
        del answers[:3]
        expected = [(1000 * i + j, *row) for i, batch in enumerate(batches) for j, row in enumerate(batch)]
        assert rows_of_arrow(decode(data, **RANGE)) == expected, codec
    for data in answers:
        decoded = decode(data, **RANGE)
        assert decoded.batches[0]["timestampType"].to_pylist() == [1] * 5
        assert rows_of_arrow(decoded) == [(3000 + i, TIME + 77, *row[1:]) for i, row in enumerate(records(9, 5))]


def words_without_headers(rows):
    return words([(*row[:3], []) for row in rows])


@pytest.mark.parametrize("magic", [0, 1])
def test_we_read_the_message_sets_that_kafka_writes(magic):
    codecs = ["none", "gzip", "snappy", "lz4"]
    written = {codec: [records(f"{codec} {magic} {i}", 40) for i in range(2)] for codec in codecs}
    commands = [
        ["write", magic, codec, 1000 * i, -1, *words_without_headers(batch)]
        for codec, batches in written.items()
        for i, batch in enumerate(batches)
    ]
    if magic:
        commands += [["write", 1, codec, 3000, TIME + 77, *words_without_headers(records(9, 5))] for codec in codecs]
    sets = [bytes.fromhex(line) for line in ask_kafka(commands)]
    answers = ask_kafka([[what, data.hex()] for data in sets for what in ("read", "types")])
    for data, read, types in zip(sets, answers[::2], answers[1::2], strict=True):
        assert data[16] == magic
        decoded = decode(data, **RANGE)
        assert rows_of_arrow(decoded) == rows_of_answer(read)
        kinds = [kind for arrow in decoded.batches for kind in arrow["timestampType"].to_pylist()]
        assert kinds == [int(kind) for kind in types.split()]
        assert next_fetch_offset(data) == decoded.next_offset == rows_of_answer(read)[-1][0] + 1
    for data, (codec, i) in zip(sets, [(codec, i) for codec in codecs for i in range(2)], strict=False):
        rows = [(1000 * i + j, row[0] if magic else -1, *row[1:3], []) for j, row in enumerate(written[codec][i])]
        assert rows_of_arrow(decode(data, **RANGE)) == rows, codec


def test_kafka_reads_what_we_write():
    # 150 records are some 150 kB: more than one block of snappy and lz4.
    written, commands = [], []
    for codec in CODECS:
        for level in {"gzip": (None, 1), "zstd": (None, 1, 12), "lz4": (None, 9)}.get(codec, (None,)):
            rows = records(f"{codec} {level}")
            columns = RecordColumns(
                pa.array([row[1] for row in rows], pa.binary()),
                pa.array([row[2] for row in rows], pa.binary()),
                pa.array([row[0] for row in rows], pa.int64()),
                pa.array([[{"key": k, "value": v} for k, v in row[3]] for row in rows], HEADERS),
            )
            builder = BatchBuilder(bytearray(1 << 20), codec=codec, level=level)
            assert builder.append(columns) == len(rows)
            written.append([(i, *row) for i, row in enumerate(rows)])
            commands.append(["read", bytes(builder.close(7, 1, 0, transactional=True)).hex()])
    for answer, rows, command in zip(ask_kafka(commands), written, commands, strict=True):
        assert rows_of_answer(answer) == rows, command[1][:130]


def test_records_without_a_timestamp_stand_among_others_as_kafka_writes_them():
    """-1: first in the batch, where its base timestamp is; last; alone; between others, whose deltas jump far."""
    for times in ([-1, TIME, -1], [TIME, -1, TIME + 1], [-1, -1], [-1], [0, -1, TIME]):
        rows = [(time, b"k", b"v", []) for time in times]
        columns = RecordColumns(*(pa.array([row[i] for row in rows]) for i in (1, 2)), pa.array(times))  # type: ignore[call-arg]
        builder = BatchBuilder(bytearray(1000))
        builder.append(columns)
        ours = bytes(builder.close(-1, -1, -1))
        (theirs,) = ask_kafka([["write", 2, "none", 0, -1, *words(rows)]])
        assert ours.hex() == theirs  # base and max timestamp in the header, deltas and CRC too
        assert [row[1] for row in rows_of_arrow(decode(bytes.fromhex(theirs), **RANGE))] == times


def sized(size):
    return None if size is None else b"x" * size


def test_a_record_needs_as_much_of_a_request_as_kafkas_producer_says():
    """So what its producer takes at the same max.request.size, ours does."""
    sizes = [None, 0, 1, 63, 64, 8191, 8192, 1_048_489]
    rows = [(TIME, sized(key), sized(value), []) for key in sizes[:-1] for value in sizes]
    rows += records("bounds")
    columns = RecordColumns(
        pa.array([row[1] for row in rows], pa.binary()),
        pa.array([row[2] for row in rows], pa.binary()),
        pa.array([row[0] for row in rows], pa.int64()),
        pa.array([[{"key": k, "value": v} for k, v in row[3]] for row in rows], HEADERS),
    )
    answers = ask_kafka([["bound", line] for line in words(rows)])
    assert [columns.max_record_bytes(row) for row in range(len(rows))] == [int(answer) for answer in answers]


def test_kafkas_markers_end_the_transactions_they_name():
    abort, commit = (bytes.fromhex(x) for x in ask_kafka([["marker", "abort", 1, 5], ["marker", "commit", 1, 5]]))

    def sent(base_offset):
        builder = BatchBuilder(bytearray(1000))
        builder.append(RecordColumns(None, pa.array([b"v"]), default_timestamp_ms=TIME))
        batch = bytes(builder.close(5, 0, 0, transactional=True))
        return base_offset.to_bytes(8, "big") + batch[8:]

    for end, offsets in ((abort, [2]), (commit, [])):
        decoded = decode(sent(0) + end + sent(2), **RANGE, aborted_transactions=[(5, 0)])
        assert [row[0] for row in rows_of_arrow(decoded)] == offsets
        assert decoded.next_offset == 3


def test_keys_go_to_the_partitions_that_kafkas_producer_chooses():
    rng = random.Random(8)
    keys = [rng.randbytes(size) for size in range(1, 60) for _ in range(3)]
    counts = (1, 12, 333)
    answers = ask_kafka([["partition", count, key.hex()] for count in counts for key in keys])
    assert [p for count in counts for p in partition_by_key(pa.array(keys), count).tolist()] == [
        int(a) for a in answers
    ]
