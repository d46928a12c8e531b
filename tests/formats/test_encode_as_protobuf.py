"""Random schemas and records: Google's protobuf reads in our messages what it reads in its own."""

from __future__ import annotations

import random

import pyarrow as pa
from lying_protobuf import in_order
from protobuf_oracle import Schema, fill, theirs
from random_inputs import examples

from kafkasource.formats.encoding.encode import CannotEncode
from kafkasource.formats.protobuf.encode import ProtobufEncoder
from kafkasource.formats.protobuf.schema import read_schema

MANY_BYTES = 64 << 20
RUNS = examples(400)


def test_messages_are_read_by_protobuf_as_those_that_it_wrote():
    equal = without_name = 0
    for seed in range(RUNS):
        rng = random.Random(seed)
        schema = Schema(rng)
        records = [fill(rng, schema.type()).SerializeToString() for _ in range(4)]
        columns = schema.decoder().decode(pa.array(records, pa.binary()), MANY_BYTES).array
        read = read_schema(schema.text)
        encoder = ProtobufEncoder(columns.type, read, read.message_named("p.M0"))
        for row, record in enumerate(records):
            try:
                (piece,) = encoder.pieces(columns.slice(row, 1), 1 << 20)
            except CannotEncode as error:
                if "not a symbol of" not in error.reason:
                    raise
                without_name += 1  # a number without a name: a text that no enum has
                continue
            ours = theirs(schema, piece.records[0].as_py())
            assert repr(ours) == repr(in_order(ours, theirs(schema, record))), (seed, row)
            equal += 1
    assert equal > 2 * RUNS
    assert without_name < equal
