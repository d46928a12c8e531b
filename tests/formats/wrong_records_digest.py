"""Prints what becomes of each of some wrong columns: run by test_typed_builds.py with both builds of the kernel."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent.parent / name) for name in ("fuzz", "kafka/protocol", "kafka/records", "")]

import pyarrow as pa
from lying_avro import MOST_BYTES, wrong_column

from kafkasource.errors import SchemaError
from kafkasource.formats import decoding as typed
from kafkasource.formats.avro.decode import AvroDecoder
from kafkasource.formats.avro.parse import parse_schema


def outcome(seed: int) -> str:
    writer, reader, column, _ = wrong_column(random.Random(seed))
    try:
        decoder = AvroDecoder(parse_schema(json.dumps(reader)), [parse_schema(json.dumps(writer))])
    except SchemaError as error:
        return str(error)
    pieces = decoder.batches(pa.array(column, pa.binary()), MOST_BYTES)
    told = [(str(piece.array), bytes(piece.codes), list(piece.places), piece.end) for piece in pieces]
    return hashlib.sha256(repr(told).encode()).hexdigest()


if __name__ == "__main__":
    print("compiled" if typed.COMPILED else "interpreted")
    for seed in range(int(sys.argv[1])):
        print(outcome(seed))
