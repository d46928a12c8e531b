"""Mutated messages v0 and v1 whose CRC is repaired, so that the lies reach the parser. Seeded by case.
KAFKASOURCE_FUZZ_CASES asks for more of them. tests/kafka/records/test_batch_fuzz.py mixes them with record batches.

Oracles: for the rows a decoder written from the protocol guide, and kafka-python's; for everything else the types of
kafkasource.errors.
"""

from __future__ import annotations

import os
import random
import struct

import pyarrow as pa
import pytest
from kafka.record.legacy_records import LegacyRecordBatch
from legacy_mutations import mutated, sample
from legacy_wire import CODECS, rows_of

from kafkasource.errors import ProtocolError
from kafkasource.kafka.records.batches import decode_all, next_fetch_offset

pytestmark = pytest.mark.peers

CASES = int(os.environ.get("KAFKASOURCE_FUZZ_CASES", 6000))
ARGUMENTS = {
    "topic": "t",
    "partition": 0,
    "start_offset": 0,
    "end_offset": (1 << 63) - 1,
    "max_decompressed_bytes": 1 << 20,
}


def rows_of_ours(data):
    rows = []
    for decoded in decode_all(data, **ARGUMENTS):
        for arrow in decoded.batches:
            arrow.validate(full=True)
            columns = [arrow[name].to_pylist() for name in ("offset", "timestampType", "key", "value")]
            times = [us // 1000 for us in arrow["timestamp"].cast(pa.int64()).to_pylist()]
            rows += [(o, kind, t, k, v) for o, kind, k, v, t in zip(*columns, times, strict=True)]
    return rows


def rows_of_the_peer(data):
    """By kafka-python; None where it cannot: its LZ4 of v0 needs a library that is not here."""
    if data[17] & 7 == CODECS["lz4"] and data[16] == 0:
        return None
    return [
        (
            r.offset,
            -1 if r.timestamp_type is None else r.timestamp_type,
            -1 if data[16] == 0 else r.timestamp,
            r.key,
            r.value,
        )
        for r in LegacyRecordBatch(data, data[16])
    ]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_a_mutated_message_gives_an_error_of_ours_or_the_rows_another_client_reads(codec, magic):
    refused = read = 0
    for case in range(CASES // 8):
        rng = random.Random(f"{codec} {magic} {case}")
        inner, data, _ = sample(rng, magic, codec, rng.choice([0, 7, 1 << 40]))
        data = mutated(rng, inner, data)
        next_fetch_offset(data)
        try:
            ours = rows_of_ours(data)
        except ProtocolError:
            refused += 1
            continue
        end = 12 + struct.unpack_from(">i", data, 8)[0] if len(data) > 16 else len(data)
        if not ours or end != len(data):
            continue  # what is cut, or cut by a lie, brings no row of its own
        try:
            expected = rows_of(data)
        except RuntimeError:  # of LZ4 in v0 we take any header checksum, the oracle's library none but the right one
            assert (codec, magic) == ("lz4", 0)
            continue
        assert ours == expected, f"case {case}"
        assert rows_of_the_peer(data) in (None, ours), f"case {case}"
        read += 1
    assert refused > 100
    assert read > 20


def test_random_bytes_are_an_error_or_rows():
    rng = random.Random(5)
    for _ in range(CASES // 3):
        data = bytearray(rng.randbytes(rng.randrange(1, 80)))
        if len(data) > 16:
            data[16] = rng.choice([0, 1, 1, 2])
            struct.pack_into(">q", data, 0, rng.randrange(100))
            struct.pack_into(">i", data, 8, rng.choice([len(data) - 12, rng.randrange(40)]))
        next_fetch_offset(data)
        try:
            rows_of_ours(bytes(data))
        except ProtocolError:
            continue
