"""Schema texts mean to us what they mean to Avro's own Java classes, and both refuse the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from java_programs import SPARK, ask_java
from schema_strategies import schemas

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.fingerprint import canonical_form
from kafkasource.formats.avro.parse import parse_schema

pytestmark = [pytest.mark.peers, pytest.mark.extended]

PROGRAM = Path(__file__).with_name("AvroSchemas.java")


def our_answer(text: str) -> Any:
    try:
        return json.loads(canonical_form(parse_schema(text)))
    except SchemaError as error:
        return f"refused {error}"


def java_answers(texts: list[str]) -> list[Any]:
    answers = ask_java(PROGRAM, [(text,) for text in texts], SPARK)
    return [answer if answer.startswith("refused") else json.loads(answer) for answer in answers]


def random_texts(count: int) -> list[str]:
    texts: list[str] = []

    @settings(max_examples=count, phases=[Phase.generate], database=None, derandomize=True, deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(schemas())
    def collect(node: Any) -> None:
        texts.append(json.dumps(node))

    collect()
    return texts


def one_field(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": schema, **more}]}


EDGES: list[Any] = [
    *(one_field(schema, default=given) for schema in ("int", "long", "float", "double", "boolean", "string", "bytes")
      for given in (None, True, 0, 1.5, 2**31, 2**63, "x", "\u00ff", "\u0100", [], {})),
    *(one_field(["null", "int"], default=given) for given in (None, 1, "x")),
    one_field({"type": "array", "items": "int"}, default=[1, "x"]),
    one_field({"type": "map", "values": "int"}, default={"a": 1}),
    one_field({"type": "fixed", "name": "F", "size": 2}, default="ab"),
    one_field({"type": "enum", "name": "E", "symbols": ["A"]}, default="A"),
    one_field({"type": "enum", "name": "E", "symbols": ["A"]}, default="B"),
    one_field(one_field("int") | {"name": "I"}, default={}),
    one_field(one_field("int", default=1) | {"name": "I"}, default={}),
    {"type": {"type": "int"}},
    {"type": "R"},
    {"type": ["null", "int"]},
    "nothing",
    {"type": "error", "name": "E", "fields": []},
    {"type": "record", "name": "a.b.R", "namespace": "ignored", "fields": [{"name": "x", "type": "R2"}]},
    {"type": "record", "name": "R", "fields": [{"name": "x y", "type": "int"}]},
    {"type": "record", "name": "R", "namespace": "my-server.a", "fields": []},
    {"type": "record", "name": "a..R", "fields": []},
    {"type": "record", "name": "\u00c4rger", "fields": []},
    {"type": "enum", "name": "E", "symbols": ["A", "A"]},
    {"type": "enum", "name": "E", "symbols": ["1"]},
    {"type": "enum", "name": "E", "symbols": []},
    {"type": "fixed", "name": "F", "size": -1},
    {"type": "fixed", "name": "F"},
    ["int", "int"],
    ["int", ["null"]],
    [],
    7,
]  # fmt: skip

# Cases where we differ from Java, and why that is right.
DIFFER = {
    json.dumps(node): reason
    for node, reason in (
        ([], "a union without branches has no values"),
        (one_field("bytes", default="\u0100"), "a default that no bytes can be"),
        (one_field({"type": "enum", "name": "E", "symbols": ["A"]}, default="B"), "a default that is no symbol"),
        (
            {"type": "record", "name": "R", "namespace": "my-server.a", "fields": []},
            "taken: Java's readers do with their validation of names off, and Debezium's topic prefixes have dashes",
        ),
        ({"type": {"type": "int"}}, "taken: fastavro writes and takes it"),
        ({"type": ["null", "int"]}, "taken: fastavro writes and takes it"),
    )
}


def test_edge_cases_are_taken_and_refused_as_by_java():
    texts = [json.dumps(node) for node in EDGES]
    differ = []
    for text, theirs in zip(texts, java_answers(texts), strict=True):
        ours = our_answer(text)
        refused = [isinstance(answer, str) and answer.startswith("refused") for answer in (ours, theirs)]
        if text not in DIFFER and (refused[0] != refused[1] or (not refused[0] and ours != theirs)):
            differ.append(f"{text}\n  ours {ours}\n  java {theirs}")
    assert not differ, "\n".join(differ)


def test_comments_are_where_java_takes_them():
    texts = [
        '/* a */ {"type": /* b * / */ "record", "name": "R", "fields": [/**/]}',
        '{"type": "record", "name": "R", # no',
        '"int" /* no end',
        '"int" / 2',
        "// nothing",
    ]
    refused = [[str(answer).startswith("refused") for answer in map(our_answer, texts)]]
    refused.append([str(answer).startswith("refused") for answer in java_answers(texts)])
    assert refused == [[False, True, True, True, True]] * 2


def test_random_schemas_mean_the_same_to_java():
    texts = random_texts(200)
    assert [our_answer(text) for text in texts] == java_answers(texts)
