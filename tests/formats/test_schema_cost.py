"""Reading a schema's text costs in proportion to its length, and fails with our own errors.

Cost is counted, not timed: calls of Python functions, and bytes that are held at once.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import tracemalloc

import pytest
from random_inputs import examples

from kafkasource.errors import RegistryError, SchemaError
from kafkasource.formats.json.rows import JsonRows
from kafkasource.formats.json.types_of import column_type, written_of
from kafkasource.formats.record_formats import record_format
from kafkasource.formats.registry.answers import json_of
from kafkasource.formats.schema_source import RegisteredSchema
from kafkasource.kafka.security.exchange import HttpAnswer

MIB = 1 << 20
# A type of Avro is some twenty calls and ten characters. MOST_STEPS of a few calls each come on top.
CALLS_A_CHARACTER, MOST_CALLS = 100, 4_000_000
BYTES_A_CHARACTER, MOST_BYTES = 300, 64 * MIB


def avro(schema, references=()):
    schema = RegisteredSchema("AVRO", schema if isinstance(schema, str) else json.dumps(schema), tuple(references))
    record_format(schema).program(schema, None)


def proto(text, name=None):
    schema = RegisteredSchema("PROTOBUF", text)
    record_format(schema, name).program(schema, (0,))


def json_schema(schema):
    schema = RegisteredSchema("JSON", schema if isinstance(schema, str) else json.dumps(schema))
    JsonRows(column_type(schema))


def written(schema):
    written_of(RegisteredSchema("JSON", json.dumps(schema)))


def record(*fields, name="R"):
    return {"type": "record", "name": name, "fields": list(fields)}


def doubling(n):
    names = " ".join(f"message M{k} {{ M{k - 1} a = 1; M{k - 1} b = 2; }}" for k in range(1, n + 1))
    return f'syntax="proto3"; message M0 {{}} {names}'


def chain(n):
    names = " ".join(f"message M{k} {{ M{k - 1} a = 1; }}" for k in range(1, n + 1))
    return f'syntax="proto3"; message M0 {{ int32 x = 1; }} {names}'


LONG = "a" * 100_000
MANY = range(3_000)
BOMBS = {
    "proto: messages without fields, doubled 24 times": lambda: proto(doubling(24), "M24"),
    "proto: a long name above many": lambda: proto(
        f'syntax="proto3"; message Q {{ {" ".join(f"int32 f{k} = {k + 1};" for k in MANY)} }} '
        f"message M {{ Q {LONG} = 1; }}",
        "M",
    ),
    "proto: defaults of a large enum": lambda: proto(
        f'syntax="proto2"; enum E {{ {" ".join(f"v{k}={k};" for k in range(8_000))} }} message M {{ '
        + " ".join(f"optional E f{k}={k}[default=v7999];" for k in range(1, 2_000))
        + " }"
    ),
    "proto: a package of many parts": lambda: proto(
        f'syntax="proto3"; package {".".join("p" * 50_000)}; message M {{ int32 a = 1; }}'
    ),
    "avro: a long name above many": lambda: avro(
        record({"name": LONG, "type": record(*({"name": f"f{k}", "type": "int"} for k in MANY), name="Q")})
    ),
    "avro: a default that no branch takes": lambda: avro(
        record(
            {
                "name": "a",
                "type": [{"type": "fixed", "name": f"F{k}", "size": 1} for k in range(400)],
                "default": [1] * 200_000,
            }
        )
    ),
    "avro: a default that each branch goes through": lambda: avro(
        record(
            {
                "name": "a",
                "type": [
                    record(
                        {"name": "x", "type": {"type": "array", "items": "int"}},
                        {"name": "y", "type": "int"},
                        name=f"R{k}",
                    )
                    for k in range(300)
                ],
                "default": {"x": [1] * 50_000},
            }
        )
    ),
    "avro: two large unions": lambda: avro([{"type": "enum", "name": f"E{k}", "symbols": ["a"]} for k in range(2_000)]),
    "avro: many values": lambda: avro("[" + "{}," * 1_000_000 + "{}]"),
    "avro: comments without an end": lambda: avro('"int" ' + "/*" * 100_000),
    "avro: many comments": lambda: avro("/**/" * 50_000 + '"int"'),
    "avro: a text of escapes without an end, behind a comment": lambda: avro("/**/" + '"' + '\\"' * 500_000),
    "avro: a text of escapes without an end": lambda: avro('"' + '\\"' * 500_000),
    "json: a long name above many": lambda: json_schema(
        {
            "type": "object",
            "properties": {LONG: {"type": "object", "properties": {f"f{k}": {"type": "integer"} for k in MANY}}},
        }
    ),
    "json: many values": lambda: json_schema("[" + "{}," * 1_000_000 + "{}]"),
    "registry: many values": lambda: json_of(HttpAnswer(200, {}, b"[" + b"{}," * 1_000_000 + b"{}]"), "q", "u"),
    "registry: many values in an error": lambda: json_of(
        HttpAnswer(500, {}, b"[" + b"{}," * 1_000_000 + b"{}]"), "q", "u"
    ),
}


def cost(read):
    """(calls, bytes held at once); an error of ours is as good as an answer."""
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event == "call"

    with contextlib.suppress(SchemaError, RegistryError):
        sys.setprofile(count)
        try:
            read()
        finally:
            sys.setprofile(None)
    tracemalloc.start()
    try:
        with contextlib.suppress(SchemaError, RegistryError):
            read()
        return calls, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", BOMBS)
def test_no_schema_costs_more_than_its_length_allows(name):
    calls, held = cost(BOMBS[name])
    assert calls < MOST_CALLS
    assert held < MOST_BYTES


ENTRY = (
    'syntax="proto3"; message M {{ message XEntry {{ option map_entry = true; string key = 1; {} }} '
    "repeated XEntry x = 1; }}"
)
SURROGATE = record({"name": "a", "type": {"type": "map", "values": "int"}, "default": {"\ud800": 1}})
CRASHES = {
    "proto: a map's entry without a value": lambda: proto(ENTRY.format("")),
    "proto: a map's entry with three fields": lambda: proto(ENTRY.format("string value = 2; int32 z = 3;")),
    "proto: a map's entry with many values": lambda: proto(ENTRY.format("repeated string value = 2;")),
    "proto: a default that no double holds": lambda: proto(
        f'syntax="proto2"; message M {{ optional double d = 1 [default = 0x{"f" * 300}]; }}'
    ),
    "proto: 300 messages in each other": lambda: proto(chain(300), "M300"),
    "avro: a default with half of a surrogate pair": lambda: avro(SURROGATE),
    "avro: 55 records, and a default 800 lists deep": lambda: avro(deep_default(55, 800)),
    "json: a name that is half of a surrogate pair": lambda: json_schema(
        '{"type":"object","properties":{"\\ud800":{"type":"string"}}}'
    ),
    "json: a digit that is no number": lambda: json_schema(
        '{"type":"object","properties":{"a":{"$ref":"#/allOf/\u00b2"}},"allOf":[{"type":"object"}]}'
    ),
    "json: a list in the place of a name": lambda: json_schema({"type": [["object"]], "properties": {"a": True}}),
    "json written: all of itself": lambda: written({"allOf": [{"$ref": "#"}], "type": ["object", {"a": 1}]}),
}


def deep_default(records, lists):
    inner = json.dumps(record({"name": "a", "type": "int", "default": "D"}, name="R0"))
    inner = inner.replace('"D"', "[" * lists + "]" * lists)
    for k in range(1, records):
        inner = f'{{"type": "record", "name": "R{k}", "fields": [{{"name": "a", "type": {inner}}}]}}'
    return inner


@pytest.mark.parametrize("name", CRASHES)
def test_what_is_wrong_with_a_schema_is_an_error_of_ours(name):
    """A writer's bad schema then makes its records bad, and does not end the query."""
    with contextlib.suppress(SchemaError):  # it may be read, too: what matters is that nothing else is raised
        CRASHES[name]()


# The shape of schemas, drawn: text that grows in each of the ways in which a text can.

MOST_DRAWN = 400  # types of one schema


def drawn_avro(rng, size):
    names = iter(range(MOST_DRAWN))

    def kind(depth):
        roll, number = rng.random(), next(names, MOST_DRAWN)
        if depth > 12 or number == MOST_DRAWN or roll < 0.3:
            return rng.choice(["int", "string", "null", "R", "Q"])
        if roll < 0.5:
            return {"type": rng.choice(["array", "map"]), "items": kind(depth + 1), "values": kind(depth + 1)}
        if roll < 0.7:
            return [kind(depth + 1) for _ in range(rng.randrange(1, 4))]
        fields = [
            {"name": f"{'f' * rng.randrange(1, size)}{k}", "type": kind(depth + 1), "default": value(0)}
            for k in range(rng.randrange(1, 5))
        ]
        return record(*fields, name=rng.choice(["R", "Q", f"N{number}"]))

    def value(depth):
        roll = rng.random()
        if depth > 3 or roll < 0.5:
            return rng.choice([1, "a", None, {}, [], [1] * rng.randrange(size)])
        return [value(depth + 1)] * 2 if roll < 0.75 else {f"k{k}": value(depth + 1) for k in range(2)}

    text = json.dumps(kind(0))
    return len(text), lambda: avro(text)


def drawn_json(rng, size):
    numbers = iter(range(MOST_DRAWN))

    def schema(depth):
        roll = rng.random()
        if depth > 10 or next(numbers, None) is None or roll < 0.3:
            return rng.choice(
                [{"type": "string"}, {"$ref": "#"}, {"$ref": "#/definitions/d"}, True, {"enum": ["a"] * size}]
            )
        if roll < 0.5:
            return {rng.choice(["allOf", "anyOf", "oneOf"]): [schema(depth + 1) for _ in range(rng.randrange(1, 4))]}
        if roll < 0.6:
            return {"type": "array", "items": schema(depth + 1)}
        names = [f"{'p' * rng.randrange(1, size)}{k}" for k in range(rng.randrange(1, 5))]
        return {"type": "object", "properties": {name: schema(depth + 1) for name in names}, "required": names}

    document = {**(found if isinstance(found := schema(0), dict) else {}), "definitions": {"d": schema(5)}}
    text = json.dumps(document)
    return len(text), lambda: json_schema(text)


def drawn_proto(rng, size):
    count = rng.randrange(1, 14)
    parts = []
    for k in range(count):
        fields = [
            f"{rng.choice(['', 'repeated '])}{rng.choice(['int32', 'string', *[f'M{n}' for n in range(k)]])} "
            f"{'f' * rng.randrange(1, size)}{n} = {n};"
            for n in range(1, rng.randrange(1, 5))
        ]
        parts.append(f"message M{k} {{ {' '.join(fields)} }}")
    text = f'syntax="proto3"; {" ".join(parts)}'
    return len(text), lambda: proto(text, f"M{count - 1}")


@pytest.mark.parametrize("draw", [drawn_avro, drawn_json, drawn_proto])
def test_schemas_of_any_shape_cost_as_their_length_does(draw):
    for seed in range(examples(60)):
        rng = random.Random(seed)
        length, read = draw(rng, rng.choice([3, 30, 300]))
        calls, held = cost(read)
        assert calls < MOST_CALLS + CALLS_A_CHARACTER * length, seed
        assert held < MOST_BYTES + BYTES_A_CHARACTER * length, seed
