"""Random schemas and records: our columns are what Google's protobuf reads."""

from __future__ import annotations

import random

import lying_protobuf
import pyarrow as pa
from lying_protobuf import in_order
from protobuf_oracle import Schema, fill, plain, theirs
from random_inputs import examples

MANY_BYTES = 64 << 20
RUNS = examples(400)


def same(schema, ours, data):
    """Equal, and zeros have the same sign."""
    return repr(ours) == repr(in_order(ours, theirs(schema, data)))


def test_records_are_read_as_protobuf_reads_them():
    for seed in range(RUNS):
        rng = random.Random(seed)
        schema = Schema(rng)
        records = [fill(rng, schema.type()).SerializeToString() for _ in range(4)]
        decoded = schema.decoder().decode(pa.array([*records, None], pa.binary()), MANY_BYTES)
        assert (decoded.bad, decoded.end) == (0, 5), (seed, list(decoded.faults()))
        *rows, null = plain(decoded.array)
        assert null is None
        for ours, record in zip(rows, records, strict=True):
            assert same(schema, ours, record), (seed, record)


def test_parts_of_a_record_are_put_together_and_the_last_value_counts():
    for seed in range(RUNS):
        rng = random.Random(seed)
        schema = Schema(rng)
        parts = [fill(rng, schema.type()).SerializeToString() for _ in range(3)]
        records = [parts[0] + parts[1], parts[2] + parts[0] + parts[2], parts[1]]
        decoded = schema.decoder().decode(pa.array(records, pa.binary()), MANY_BYTES)
        assert decoded.bad == 0, (seed, list(decoded.faults()))
        for ours, record in zip(plain(decoded.array), records, strict=True):
            assert same(schema, ours, record), (seed, record)


def test_damaged_records_are_bad_where_protobuf_refuses_them_and_no_other_row_moves():
    taken = sum(lying_protobuf.decode(random.Random(seed)) for seed in range(10 * RUNS))
    assert 0 < taken < 10 * RUNS
