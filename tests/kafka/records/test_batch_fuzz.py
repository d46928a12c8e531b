"""Mutated batches whose CRC is repaired, so that the lies reach the parser. Seeded: a failure names its case.
KAFKASOURCE_FUZZ_CASES asks for more of them.

Alone, and in runs of batches, which the kernel walks by itself. Oracles: for the rows a decoder written from the
specification, and kafka-python's; for everything else the types of kafkasource.errors.
"""

from __future__ import annotations

import os
import random
import struct

import pyarrow as pa
import pytest
from kafka.record.default_records import DefaultRecordBatch
from legacy_mutations import mutated as mutated_message
from legacy_mutations import sample as sample_message
from legacy_wire import rows_of as rows_of_messages
from record_wire import CODECS, CONTROL, LOG_APPEND, batch, marker, record, repaired, rows_of, varint

from kafkasource.errors import ProtocolError
from kafkasource.kafka.records import COMPILED
from kafkasource.kafka.records.batches import decode, decode_all, next_fetch_offset

pytestmark = pytest.mark.peers

CASES = int(os.environ.get("KAFKASOURCE_FUZZ_CASES", 6000 if COMPILED else 1500))
LIMIT = 1 << 20
ARGUMENTS = {
    "topic": "t",
    "partition": 0,
    "start_offset": 0,
    "end_offset": (1 << 63) - 1,
    "include_headers": True,
    "max_decompressed_bytes": LIMIT,
}
EDGES = [-(1 << 31), -(1 << 15), -129, -2, -1, 0, 1, 2, 6, 7, 63, 64, 127, 128, 255, 1 << 13, (1 << 31) - 1, 1 << 40]
# Positions and formats of every number in the header.
FIELDS = [
    (0, ">q"),
    (8, ">i"),
    (12, ">i"),
    (16, ">b"),
    (21, ">h"),
    (23, ">i"),
    (27, ">q"),
    (35, ">q"),
    (43, ">q"),
    (57, ">i"),
]


def sample(rng, codec, base_offset=None):
    records = [
        record(
            i,
            rng.choice([None, b"", b"key"]),
            rng.choice([None, b"", rng.randbytes(rng.randrange(90))]),
            [(b"h%d" % j, rng.choice([None, b"", b"x" * 70])) for j in range(rng.randrange(3))],
            rng.randrange(-100, 100),
        )
        for i in range(rng.randrange(1, 12))
    ]
    return records, batch(records, rng.choice([0, 7, 1 << 40]) if base_offset is None else base_offset, codec=codec)


def with_a_record_number_replaced(rng, records):
    """One varint of one record is now another: a length, a delta or a count, wherever it is."""
    records = list(records)
    which = rng.randrange(len(records))
    raw = records[which]
    pos = rng.randrange(len(raw))
    end = pos + 1
    while end < len(raw) and raw[end - 1] & 0x80:
        end += 1
    number = varint(rng.choice(EDGES)) if rng.random() < 0.8 else b"\xff" * rng.randrange(1, 12)
    records[which] = raw[:pos] + number + raw[end:]
    return records


def with_a_header_field_replaced(rng, data):
    data = bytearray(data)
    pos, form = rng.choice(FIELDS)
    bits = 8 * struct.calcsize(form)
    value = rng.choice([*EDGES, struct.unpack_from(form, data, pos)[0] + rng.choice([-1, 1])])
    struct.pack_into(form, data, pos, (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)))
    return data


def with_bytes_changed(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        what, pos = rng.randrange(3), rng.randrange(21, len(data))
        if what == 0:
            data[pos] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif what == 1 and len(data) > 62:
            del data[pos : pos + rng.randrange(1, 5)]
        else:
            data[pos:pos] = rng.randbytes(rng.randrange(1, 5))
        if len(data) < 62:
            break
    if rng.random() < 0.7:
        struct.pack_into(">i", data, 8, len(data) - 12)
    return data


def mutated(rng, codec, records, data):
    kind = rng.randrange(4)
    if kind == 0:
        return repaired(with_a_header_field_replaced(rng, data))
    if kind == 1:
        return repaired(with_bytes_changed(rng, data))
    if kind == 2:
        changed = with_a_record_number_replaced(rng, records)
        if rng.random() < 0.5:
            changed = with_a_record_number_replaced(rng, changed)
        return bytearray(batch(changed, codec=codec))
    # Right records under wrong counts.
    lie = rng.choice([-1, 1, 5, 1000])
    return bytearray(batch(records, codec=codec, count=max(len(records) + lie, 0)))


def rows_of_ours(data, **changes):
    rows = []
    for decoded in decode_all(bytes(data), **{**ARGUMENTS, **changes}):
        for arrow in decoded.batches:
            arrow.validate(full=True)
            columns = [arrow[name].to_pylist() for name in ("offset", "key", "value", "headers")]
            timestamps = arrow["timestamp"].cast(pa.int64()).to_pylist()
            for offset, key, value, headers, timestamp in zip(*columns, timestamps, strict=True):
                pairs = [(h["key"], h["value"]) for h in headers or []]
                rows.append((offset, timestamp / 1000, key, value, pairs))
    return rows


def rows_of_the_oracles(data):
    end = 12 + struct.unpack_from(">i", data, 8)[0]
    if data[22] & CONTROL or end > len(data):
        return []
    data = data[:end]
    rows = [row[1:] for row in rows_of(data)]
    # kafka-python reads a record's attributes as a varint, so it is lost behind one of 0x80 or more; it knows no
    # replacement for bad UTF-8 either.
    if all(attributes < 0x80 for attributes, *_ in rows_of(data)) and not any("\ufffd" in str(row[4]) for row in rows):
        try:
            peer = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in DefaultRecordBatch(bytes(data))]
        except struct.error:  # it takes no rest of fewer bytes than a length behind xerial's blocks
            assert data[22] & 7 == CODECS["snappy"]
            return rows
        last_delta, count = struct.unpack_from(">i", data, 23)[0], struct.unpack_from(">i", data, 57)[0]
        first = 1 if count == last_delta + 1 else 0  # it takes the deltas as they are
        assert [row[first:] for row in peer] == [row[first:] for row in rows]
    return rows


@pytest.mark.parametrize("codec", CODECS)
def test_a_mutated_batch_gives_an_error_of_ours_or_the_rows_another_client_reads(codec):
    refused = read = 0
    for case in range(CASES // len(CODECS)):
        rng = random.Random(f"{codec} {case}")
        data = mutated(rng, codec, *sample(rng, codec))
        next_fetch_offset(data)
        try:
            decode(data, **ARGUMENTS)
        except ProtocolError:
            refused += 1
            continue
        ours = rows_of_ours(data)
        assert ours == rows_of_the_oracles(data), f"case {case}"
        read += bool(ours)
    assert refused > 100
    assert read > 20


def run_of_batches(rng):
    """Old messages perhaps, then batches of all kinds, the last one perhaps cut; and whether one was mutated."""
    pieces, base_offset = [], rng.choice([0, 5])
    for _ in range(rng.choice([0, 0, 1, 3])):
        codec, magic = rng.choice(["none", "none", "gzip", "snappy"]), rng.choice([0, 1])
        inner, data, base_offset = sample_message(rng, magic, codec, base_offset)
        pieces.append((None, inner, data))
    for _ in range(rng.randrange(2, 9)):
        codec = rng.choice([*["none"] * 6, *CODECS])
        kind = rng.randrange(8)
        records, data = sample(rng, codec, base_offset)
        if kind == 0:
            data = marker(base_offset, 7, commit=rng.random() < 0.5)
        elif kind == 1:
            data = batch([], base_offset, last_offset_delta=len(records) - 1)
        elif kind == 2:
            data = batch(records, base_offset, codec=codec, attributes=LOG_APPEND, max_timestamp=rng.randrange(1 << 40))
        elif kind == 3:  # compacted
            kept = [one for one in records if rng.random() < 0.6] or records[-1:]
            data = batch(kept, base_offset, codec=codec, last_offset_delta=len(records) - 1)
        pieces.append((codec, records, data))
        base_offset += len(records) + rng.choice([0, 0, 9])
    whole = [bytes(data) for _, _, data in pieces]
    wrong = rng.random() < 0.5
    if wrong:
        which = rng.randrange(len(pieces))
        codec, records, data = pieces[which]
        whole[which] = bytes(
            mutated_message(rng, records, data) if codec is None else mutated(rng, codec, records, data)
        )
    if rng.random() < 0.3:
        whole[-1] = whole[-1][: rng.randrange(len(whole[-1]))]
    return b"".join(whole), wrong


def rows_of_the_run(data, start_offset, end_offset):
    rows, pos, reached = [], 0, 0
    while len(data) - pos > 16 and reached < end_offset:
        base_offset, length = struct.unpack_from(">qi", data, pos)
        end = pos + 12 + length
        if end > len(data):
            break
        if data[pos + 16] < 2:
            if base_offset >= end_offset and not data[pos + 17] & 7:
                break
            if base_offset >= start_offset:
                found = [
                    (offset, time, key, value, []) for offset, _, time, key, value in rows_of_messages(data[pos:end])
                ]
                rows += [row for row in found if start_offset <= row[0] < end_offset]
            pos, reached = end, base_offset + 1
            continue
        if base_offset >= end_offset:
            break
        (last_delta,) = struct.unpack_from(">i", data, pos + 23)
        reached = base_offset + last_delta + 1
        if length > 49 and base_offset + last_delta >= start_offset:
            rows += [row for row in rows_of_the_oracles(data[pos:end]) if start_offset <= row[0] < end_offset]
        pos = end
    return rows


def test_a_run_of_batches_gives_an_error_of_ours_or_the_rows_another_client_reads():
    refused = read = 0
    for case in range(CASES // 6):
        rng = random.Random(f"run {case}")
        data, wrong = run_of_batches(rng)
        start = rng.choice([0, rng.randrange(40)])
        end = rng.choice([1 << 62, start + rng.randrange(60)])
        next_fetch_offset(data)
        try:
            ours = rows_of_ours(data, start_offset=start, end_offset=end)
        except ProtocolError:
            assert wrong, f"case {case}"
            refused += 1
            continue
        assert ours == rows_of_the_run(data, start, end), f"case {case}"
        read += bool(ours)
    assert refused > 40
    assert read > 100


def test_random_bytes_behind_a_right_header_are_an_error_or_rows():
    rng = random.Random(5)
    for _ in range(CASES // 3):
        size = rng.randrange(1, 80)
        data = batch(section=rng.randbytes(size), count=rng.randrange(1, 4), last_offset_delta=200)
        try:
            decode(data, **ARGUMENTS)
        except ProtocolError:
            continue


def test_a_batch_cut_short_under_its_own_length_is_an_error_at_every_length():
    _, data = sample(random.Random(11), "none")
    for size in range(61, len(data)):
        cut = bytearray(data[:size])
        struct.pack_into(">i", cut, 8, size - 12)
        with pytest.raises(ProtocolError):
            decode(repaired(cut), **ARGUMENTS)


def test_every_byte_of_the_records_replaced_by_every_edge_value_is_an_error_or_the_peers_rows():
    headers = [(b"h", b"v"), (b"n", None)]
    data = batch([record(0, b"key", None, headers), record(1, None, b"", [], 3)])
    for pos in range(61, len(data)):
        for value in (0x00, 0x01, 0x02, 0x03, 0x7E, 0x7F, 0x80, 0xFE, 0xFF):
            changed = bytearray(data)
            changed[pos] = value
            changed = repaired(changed)
            try:
                ours = rows_of_ours(changed)
            except ProtocolError:
                continue
            assert ours == rows_of_the_oracles(changed), (pos, value)
