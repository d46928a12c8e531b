"""Damaged batches and messages whose CRCs are right, so that the lies reach the parser.

Seeded: a failure names its case. KAFKASOURCE_FUZZ_CASES asks for more of them. The oracles of the rows are decoders
written from the specification and from the protocol guide, and kafka-python's.
"""

from __future__ import annotations

import os
import random
import struct

import legacy_wire
import pyarrow as pa
import pytest
from frame_mutations import damaged_records
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.legacy_records import LegacyRecordBatch
from record_wire import CODECS, CONTROL, LOG_APPEND, batch, marker, record, repaired, rows_of

from kafkasource.errors import ProtocolError
from kafkasource.kafka.records import COMPILED
from kafkasource.kafka.records.batches import decode, decode_all, next_fetch_offset

pytestmark = pytest.mark.peers

CASES = int(os.environ.get("KAFKASOURCE_FUZZ_CASES", 24_000 if COMPILED else 6000))
ARGUMENTS = {
    "topic": "t",
    "partition": 0,
    "start_offset": 0,
    "end_offset": (1 << 63) - 1,
    "include_headers": True,
    "max_decompressed_bytes": 1 << 20,
}
KINDS = [*((2, codec) for codec in CODECS), *((magic, codec) for magic in (0, 1) for codec in legacy_wire.CODECS)]


def messages(rng, magic, codec, first_offset):
    """Messages v0 or v1, wrapped where the codec is not none."""
    attributes = LOG_APPEND if magic and rng.random() < 0.3 else 0
    count = rng.randrange(1, 6)
    base = 0 if magic and codec != "none" else first_offset
    inner = [
        legacy_wire.message(
            base + i,
            rng.choice([None, b"", b"key"]),
            rng.choice([None, b"", rng.randbytes(rng.randrange(60))]),
            magic=magic,
            attributes=attributes if codec == "none" else 0,
            timestamp=rng.choice([-1, legacy_wire.TIME + rng.randrange(1000)]),
        )
        for i in range(count)
    ]
    last = first_offset + count - 1
    whole = legacy_wire.wrapper(inner, last, codec=codec, magic=magic, attributes=attributes)
    return b"".join(inner) if codec == "none" else whole, last + 1


def batches(rng, codec, base_offset):
    """A record batch of some kind, and the offset behind it."""
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
    kind, more = rng.randrange(8), {}
    if kind == 0:
        return marker(base_offset, 7, commit=rng.random() < 0.5), base_offset + 1
    if kind <= 2:  # compacted
        kept = [one for one in records if rng.random() < 0.6] if kind == 1 else []
        records, more = kept, {"last_offset_delta": len(records) - 1}
    elif kind == 3:
        more = {"attributes": LOG_APPEND, "max_timestamp": rng.randrange(1 << 40)}
    data = batch(records, base_offset, codec=codec if records else "none", **more)
    return data, base_offset + 12


def log(rng, kind):
    """Batches or messages of a kind; None: old messages perhaps, then batches of all kinds."""
    offset = rng.choice([0, 7, 1 << 40]) if kind else rng.choice([0, 5])
    kinds = [kind]
    if kind is None:
        old = [(rng.choice([0, 1]), rng.choice(["none", "gzip", "snappy"])) for _ in range(rng.choice([0, 0, 1, 3]))]
        kinds = [*old, *((2, rng.choice([*["none"] * 6, *CODECS])) for _ in range(rng.randrange(2, 9)))]
    data = b""
    for magic, codec in kinds:
        piece, offset = batches(rng, codec, offset) if magic == 2 else messages(rng, magic, codec, offset)
        data += piece
        offset += rng.choice([0, 0, 9])
    return data


def rows_of_ours(data, **changes):
    rows = []
    for decoded in decode_all(bytes(data), **{**ARGUMENTS, **changes}):
        for arrow in decoded.batches:
            arrow.validate(full=True)
            names = ("offset", "timestampType", "key", "value", "headers")
            times = [us // 1000 for us in arrow["timestamp"].cast(pa.int64()).to_pylist()]
            for offset, kind, key, value, headers, time in zip(
                *(arrow[name].to_pylist() for name in names), times, strict=True
            ):
                rows.append((offset, kind, time, key, value, [(h["key"], h["value"]) for h in headers or []]))
    return rows


def rows_of_a_batch(data):
    if data[22] & CONTROL:
        return []
    kind = int(bool(data[22] & LOG_APPEND))
    rows = [(offset, kind, *others) for _, offset, *others in rows_of(data)]
    # kafka-python reads a record's attributes as a varint, so it is lost behind one of 0x80 or more; it knows no
    # replacement for bad UTF-8 either.
    if all(attributes < 0x80 for attributes, *_ in rows_of(data)) and not any("\ufffd" in str(row[5]) for row in rows):
        try:
            peer = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in DefaultRecordBatch(bytes(data))]
        except struct.error:  # it takes no rest of fewer bytes than a length behind xerial's blocks
            assert data[22] & 7 == CODECS["snappy"]
            return rows
        last_delta, count = struct.unpack_from(">i", data, 23)[0], struct.unpack_from(">i", data, 57)[0]
        first = 1 if count == last_delta + 1 else 0  # it takes the deltas as they are
        assert [row[first:] for row in peer] == [(row[0], *row[2:])[first:] for row in rows]
    return rows


def rows_of_a_message(data):
    rows = [(*row, []) for row in legacy_wire.rows_of(data)]
    if data[17] & 7 != CODECS["lz4"] or data[16]:  # its LZ4 of v0 needs a library that is not here
        peer = [(r.offset, r.timestamp if data[16] else -1, r.key, r.value) for r in LegacyRecordBatch(data, data[16])]
        assert peer == [(row[0], *row[2:5]) for row in rows]
    return rows


def rows_of_the_oracles(data, start_offset, end_offset):
    rows, pos, reached = [], 0, 0
    while len(data) - pos > 16 and reached < end_offset:
        base_offset, length = struct.unpack_from(">qi", data, pos)
        end = pos + 12 + length
        if end > len(data):
            break
        old = data[pos + 16] < 2
        if base_offset >= end_offset and not (old and data[pos + 17] & 7):
            break
        last = base_offset if old else base_offset + struct.unpack_from(">i", data, pos + 23)[0]
        if last >= start_offset and (old or length > 49):
            found = (rows_of_a_message if old else rows_of_a_batch)(data[pos:end])
            rows += [row for row in found if start_offset <= row[0] < end_offset]
        pos, reached = end, last + 1
    return rows


@pytest.mark.parametrize("kind", [*KINDS, None], ids=str)
def test_damaged_records_are_an_error_of_ours_or_the_rows_another_client_reads(kind):
    refused = read = 0
    for case in range(CASES // (3 * len(KINDS)) * (1 if kind else 3)):
        rng = random.Random(f"{kind} {case}")
        whole = log(rng, kind)
        data = damaged_records(rng, whole) if rng.random() < 0.9 else whole
        if rng.random() < 0.1:
            data = data[: rng.randrange(len(data) + 1)]
        start = 0 if kind else rng.choice([0, rng.randrange(40)])
        end = 1 << 62 if kind else rng.choice([1 << 62, start + rng.randrange(60)])
        next_fetch_offset(data)
        try:
            ours = rows_of_ours(data, start_offset=start, end_offset=end)
        except ProtocolError:
            assert not whole.startswith(data), f"case {case}"
            refused += 1
            continue
        try:
            theirs = rows_of_the_oracles(data, start, end)
        except (RuntimeError, OSError):
            # The oracles' libraries refuse bytes behind whole gzip members and LZ4 frames (test_compression.py), and
            # for LZ4 of v0 any header checksum but the right one (test_message_set.py).
            assert kind is None or kind[1] in ("gzip", "lz4"), f"case {case}"
            continue
        assert ours == theirs, f"case {case}"
        read += bool(ours)
    assert refused > CASES // 400
    assert read > CASES // 600


def test_random_bytes_are_an_error_or_rows():
    rng = random.Random(5)
    for _ in range(CASES // 6):
        data = bytearray(rng.randbytes(rng.randrange(1, 80)))
        if len(data) > 16:
            data[16] = rng.choice([0, 1, 1, 2])
            struct.pack_into(">q", data, 0, rng.randrange(100))
            struct.pack_into(">i", data, 8, rng.choice([len(data) - 12, rng.randrange(40)]))
        section = rng.randbytes(rng.randrange(1, 80))
        for each in (bytes(data), batch(section=section, count=rng.randrange(1, 4), last_offset_delta=200)):
            next_fetch_offset(each)
            try:
                rows_of_ours(each)
            except ProtocolError:
                continue


def test_a_batch_cut_short_under_its_own_length_is_an_error_at_every_length():
    data = batch([record(i, b"key", b"value", [(b"h", None)]) for i in range(5)])
    for size in range(61, len(data)):
        cut = bytearray(data[:size])
        struct.pack_into(">i", cut, 8, size - 12)
        with pytest.raises(ProtocolError):
            decode(repaired(cut), **ARGUMENTS)


EDGES = (0x00, 0x01, 0x02, 0x03, 0x08, 0x7E, 0x7F, 0x80, 0xFE, 0xFF)
OF_BATCH = batch([record(0, b"key", None, [(b"h", b"v"), (b"n", None)]), record(1, None, b"", [], 3)])


@pytest.mark.parametrize(
    ("data", "first", "repair"),
    [
        (OF_BATCH, 61, repaired),
        (legacy_wire.message(3, b"key", None), 0, legacy_wire.repaired),
        (legacy_wire.message(4, None, b"", magic=0), 0, legacy_wire.repaired),
    ],
    ids=["v2", "v1", "v0"],
)
def test_every_byte_replaced_by_every_edge_value_is_an_error_or_the_oracles_rows(data, first, repair):
    for pos in range(first, len(data)):
        for value in EDGES:
            changed = bytearray(data)
            changed[pos] = value
            changed = bytes(repair(changed))
            try:
                ours = rows_of_ours(changed)
            except ProtocolError:
                continue
            assert ours == rows_of_the_oracles(changed, 0, (1 << 63) - 1), (pos, value)
