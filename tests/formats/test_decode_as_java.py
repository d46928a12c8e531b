"""Random schemas, values and changes of schemas: our columns are what Avro's own Java classes read."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from fastavro_oracle import MANY_BYTES, Changed, column, decoder, definitions, same, values, written
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from java_programs import SPARK, ask_java
from schema_strategies import record_schemas

from kafkasource.errors import SchemaError

pytestmark = [pytest.mark.peers, pytest.mark.extended]

PROGRAM = Path(__file__).with_name("AvroRecords.java")
PAIRS = 250


def pairs() -> list[tuple[Any, Any, bytes]]:
    """(writer, reader, a record)."""
    made: list[tuple[Any, Any, bytes]] = []

    @settings(max_examples=PAIRS, phases=[Phase.generate], database=None, derandomize=True, deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.data())
    def collect(data: Any) -> None:
        writer = data.draw(record_schemas(depth=2, logical=False))
        reader = Changed(data.draw).node(writer)
        made.append((writer, reader, written(writer, values(data.draw, writer, definitions(writer)))))

    collect()
    return made


def from_java(value: Any) -> Any:
    if isinstance(value, dict):
        return {key.removeprefix("s:"): from_java(each) for key, each in value.items()}
    if isinstance(value, list):
        return list(map(from_java, value))
    if isinstance(value, str):
        kind, _, rest = value.partition(":")
        if kind == "d":
            return struct.unpack(">d", int(rest, 16).to_bytes(8, "big"))[0]
        return bytes.fromhex(rest) if kind == "x" else rest
    return value


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


def test_records_are_read_as_java_reads_them_by_changed_schemas():
    differ, read = [], 0
    asked = pairs()
    commands = [(encoded(json.dumps(w).encode()), encoded(json.dumps(r).encode()), encoded(b)) for w, r, b in asked]
    for (writer, reader, record), answer in zip(asked, ask_java(PROGRAM, commands, SPARK), strict=True):
        try:
            piece = decoder(reader, writer).decode(column([record]), MANY_BYTES)
        except SchemaError as error:
            # Java takes a name before its definition, which the specification forbids: shuffled fields have that.
            if not answer.startswith("error") and "unknown type" not in str(error):
                differ.append(f"{writer}\n{reader}\n  ours {error}\n  java {answer}")
            continue
        if answer.startswith("error") or piece.bad:
            if answer.startswith("error") != bool(piece.bad):
                differ.append(f"{writer}\n{reader}\n  ours {list(piece.faults())}\n  java {answer}")
            continue
        read += 1
        ours = piece.array.to_pylist()[0]
        if not same(ours, from_java(json.loads(answer))):
            differ.append(f"{writer}\n{reader}\n  ours {ours}\n  java {answer}")
    assert not differ, "\n".join(differ[:5])
    assert read > PAIRS // 2
