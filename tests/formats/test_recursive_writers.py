"""A record within itself has no column; what the reader does have of such records is what fastavro reads."""

from __future__ import annotations

import json
from random import Random

import pyarrow as pa
import pytest
from fastavro_oracle import MANY_BYTES, column, decoder, read, written
from java_programs import SPARK, ask_java
from test_decode_as_java import PROGRAM, encoded, from_java

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.encode import AvroEncoder
from kafkasource.formats.avro.parse import parse_schema
from kafkasource.formats.decoding import opcodes
from kafkasource.formats.schema_source import AVRO, RecordType, RegisteredSchema
from kafkasource.formats.several_types import AvroTypes

pytestmark = pytest.mark.peers


def record(name, *fields):
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}


ITEMS = {"type": "array", "items": ["null", "Node", "long"]}
TREE = record(
    "Node",
    ("id", "long"),
    ("left", ["null", "Node"]),
    ("many", ITEMS),
    ("named", {"type": "map", "values": record("Pair", ("node", ["null", "Node"]), ("note", "string"))}),
    ("last", "string"),
)
WITHOUT = record("Node", ("id", "long"), ("last", "string"))
ONE_DEEP = record("Node", ("id", "long"), ("left", ["null", record("below.Node", ("last", "string"))]))
CHAIN = record("Link", ("next", ["null", "Link"]), ("number", "int"))


def tree(random, depth):
    below = [tree(random, depth - 1) for _ in range(random.randrange(4))] if depth else []
    pick = random.choice
    return {
        "id": random.randrange(-(1 << 40), 1 << 40),
        "left": pick([None, *below]),
        "many": [pick([None, 7, *below]) for _ in range(random.randrange(4))],
        "named": {f"k{n}": {"node": pick([None, *below]), "note": "n" * n} for n in range(random.randrange(3))},
        "last": "x" * random.randrange(5),
    }


def chain(length):
    """Write a list of `length` links by hand: the innermost comes last, so numbers follow behind all branches."""
    return b"\2" * (length - 1) + b"\0" + b"\2" * length


@pytest.mark.parametrize("reader", [WITHOUT, ONE_DEEP])
def test_what_the_reader_leaves_out_is_skipped_at_any_depth(reader):
    records = [written(TREE, tree(Random(seed), 4)) for seed in range(60)]
    decoded = decoder(reader, TREE).decode(column(records), MANY_BYTES)
    decoded.array.validate(full=True)
    assert decoded.bad == 0, list(decoded.faults())
    assert decoded.array.to_pylist() == [read(each, TREE, reader) for each in records]


@pytest.mark.extended
def test_java_reads_the_same():
    records = [written(TREE, tree(Random(seed), 3)) for seed in range(20)]
    schemas = [encoded(json.dumps(each).encode()) for each in (TREE, ONE_DEEP)]
    decoded = decoder(ONE_DEEP, TREE).decode(column(records), MANY_BYTES).array.to_pylist()
    answers = ask_java(PROGRAM, [(*schemas, encoded(each)) for each in records], SPARK)
    assert [from_java(json.loads(answer)) for answer in answers] == decoded


def test_a_record_may_stand_in_itself_a_thousand_times_and_bytes_cannot_take_more():
    records = [chain(1), chain(1_000), chain(5_000_000), chain(3), b"\2" * 100]
    reader = record("Link", ("number", "int"))
    decoded = decoder(reader, CHAIN).decode(column(records), MANY_BYTES)
    assert decoded.array.to_pylist() == [{"number": 1}, {"number": 1}, None, {"number": 1}, None]
    assert [(fault.row, fault.code) for fault in decoded.faults()] == [(2, opcodes.RECURSION), (4, opcodes.CUT)]


def test_a_record_that_must_contain_itself_has_no_values():
    endless = record("R", ("id", "int"), ("r", "R"))
    decoded = decoder(record("R", ("id", "int")), endless).decode(column([b"\2" * 10, b"\2" * 100_000]), MANY_BYTES)
    assert [fault.code for fault in decoded.faults()] == [opcodes.CUT, opcodes.RECURSION]


def test_cut_records_are_bad_whatever_is_missing():
    whole = written(TREE, tree(Random(3), 4))
    decoded = decoder(WITHOUT, TREE).decode(column([whole[:size] for size in range(len(whole))]), MANY_BYTES)
    assert decoded.bad == len(whole)


def test_a_reader_that_contains_itself_is_refused_with_the_place():
    with pytest.raises(SchemaError, match=r"\$\.left\(1\): Node contains itself.*without this field"):
        decoder(TREE, TREE)


def test_a_writers_default_that_its_field_cannot_have_is_no_fault_of_its_records():
    old = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int", "default": "none"}]}
    new = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    kinds = [RegisteredSchema(AVRO, json.dumps(each)) for each in (new, old)]
    types = AvroTypes([RecordType("R", kinds[0])])
    assert types.program(kinds[1], None) == 0
    with pytest.raises(SchemaError, match=r"\$\.n: the default 'none' is not a value of int"):
        decoder(old)


def test_a_named_type_may_stand_in_one_that_is_not_named():
    inner = record("Inner", ("outer", ["null", "Outer"]), ("number", "int"))
    writer = [record("Outer", ("inner", inner)), "Inner"]
    named = RegisteredSchema(AVRO, json.dumps(record("Inner", ("number", "int"))))
    types = AvroTypes([RecordType("Inner", named)])
    program = types.program(RegisteredSchema(AVRO, json.dumps(writer)), None)
    value = ("Inner", {"outer": {"inner": {"outer": None, "number": 1}}, "number": 5})
    (piece,) = types.batches(column([written(writer, value)]), MANY_BYTES, skip_bytes=0, programs=None)
    assert (program, piece.array.to_pylist()) == (0, [{"Inner": {"number": 5}}])


def test_a_column_is_written_as_deep_as_it_is():
    kind = pa.struct([("next", pa.struct([("next", pa.null()), ("number", pa.int32())])), ("number", pa.int32())])
    values = [{"next": {"next": None, "number": 2}, "number": 1}, {"next": None, "number": 3}]
    encoder = AvroEncoder(kind, parse_schema(json.dumps(CHAIN)))
    (piece,) = encoder.pieces(pa.array(values, kind), 1 << 20)
    assert [read(each, CHAIN, CHAIN) for each in piece.records.to_pylist()] == values
