"""Protobuf records with lies in them, of random schemas; protobuf itself says what they mean."""

from __future__ import annotations

import random

import pyarrow as pa
from frame_mutations import damaged
from protobuf_oracle import Schema, fill, plain, theirs, with_short_numbers

from kafkasource.formats.decoding.opcodes import BAD_UTF8

MOST_BYTES = 1 << 20


def lie(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Cut, nothing but chance, or damaged."""
    kind = rng.randrange(5)
    if kind == 0:
        return data[: rng.randrange(len(data) + 1)]
    return rng.randbytes(rng.randrange(20)) if kind == 1 else damaged(rng, data, other)


def decode(rng: random.Random) -> bool:
    """A wrong record between right ones. Taken: it was not refused."""
    schema = Schema(
        rng, maps=False
    )  # protobuf drops an entry of a map that has an unknown field; Java's classes do not
    whole, other = (fill(rng, schema.type()).SerializeToString() for _ in range(2))
    wrong = lie(rng, whole, other)
    before = pa.total_allocated_bytes()
    pieces = list(schema.decoder().batches(pa.array([whole, wrong, other], pa.binary()), MOST_BYTES))
    held = pa.total_allocated_bytes() - before
    assert held <= MOST_BYTES * len(pieces), held
    rows = [row for piece in pieces for row in plain(piece.array)]
    assert len(rows) == 3, "rows are lost"
    faults = {fault.row: fault.code for piece in pieces for fault in piece.faults()}
    for row, data in enumerate((whole, wrong, other)):
        if row == 1 and faults.get(1) == BAD_UTF8 and not schema.is_proto3:
            continue  # protobuf shows such a text when it is asked for it
        expected = theirs(schema, data)
        if expected is None and row not in faults:
            expected = theirs(schema, with_short_numbers(schema.type.DESCRIPTOR, data))
        assert (row in faults) == (expected is None), (data, faults)
        assert repr(rows[row]) == repr(in_order(rows[row], expected)), data
    return 1 not in faults


def in_order(ours: object, others: object) -> object:
    """The other value, with the entries of its maps in our order: protobuf has none."""
    if isinstance(others, dict) and isinstance(ours, dict) and set(ours) == set(others):
        return {key: in_order(ours[key], others[key]) for key in ours}
    if isinstance(others, list) and isinstance(ours, list):
        return [in_order(*both) for both in zip(ours, others, strict=False)] + others[len(ours) :]
    return others
