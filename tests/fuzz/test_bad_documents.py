"""JSON in options and checkpoints that is nested without end, or holds numbers of any size: told, not thrown."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.metrics.lag import lag
from kafkasource.source.plan import checkpoint, offsets
from kafkasource.source.plan.positions import parse_offsets
from kafkasource.source.plan.subscription import parse_subscription
from kafkasource.tools.cli import write
from kafkasource.types import TopicPartition

DEEP = ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000]
NUMBERS = ["9" * 5000, "-" + "9" * 5000, "1e999", "NaN", "1.0", "true", "null", "-9223372036854775809"]


def assigned(text: str) -> Any:
    return parse_subscription({"assign": text, "subscribe": None, "subscribePattern": None})


@pytest.mark.parametrize("value", [*DEEP, *NUMBERS])
def test_an_option_is_refused_by_its_name(value: str) -> None:
    with pytest.raises(OptionError, match="startingOffsets"):
        parse_offsets("startingOffsets", f'{{"t":{{"0":{value}}}}}')
    with pytest.raises(OptionError, match="assign"):
        assigned(f'{{"t":[{value}]}}')


@pytest.mark.parametrize("depth", [10, 300, 5000])
def test_a_checkpoint_of_nested_values_is_refused(depth: int) -> None:
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    with pytest.raises(KafkaSourceError, match="not an offset of this source"):
        offsets.from_json({"t": {"0": nested}})
    with pytest.raises(KafkaSourceError, match="not an offset of this source"):
        offsets.from_json({"t": nested})


def test_lag_of_a_document_nested_without_end_is_none() -> None:
    progress = {"sources": [{"endOffset": DEEP[0], "latestOffset": json.dumps({"t": {"0": 5}})}]}
    assert lag(progress) == {}


@pytest.mark.parametrize(
    "said",
    [
        '"partition":1e999',
        '"partition":99999999999',
        '"partition":-1',
        '"partition":NaN',
        f'"timestamp":{10**30}',
        '"timestamp":1e999',
        '"timestamp":-100000000000000000',
        '"headers":[{"key":"\\ud800","value":"x"}]',
        '"headers":{"\\ud800":"x"}',
        '"headers":[[1]]',
        '"key":"\\ud800"',
        f'"key":{DEEP[0]}',
    ],
    ids=lambda said: said[:40],
)
def test_a_line_that_is_no_record_is_told_by_its_number(said: str) -> None:
    lines = [b'{"value":"a"}', f'{{"value":"a",{said}}}'.encode()]
    rows, bad = write._json_rows(lines, 1, argparse.Namespace(key=None, types={}))
    assert len(rows) == 1
    assert str(bad).startswith("line 2 is not a record in JSON")


@pytest.mark.parametrize("line", [*DEEP, json.dumps({"a": DEEP[0]}), '{"t":{"0":' + NUMBERS[0] + "}}"])
def test_lines_of_a_checkpoint_that_are_no_offsets_are_passed_over(line: str) -> None:
    good = '{"t":{"0":5}}'
    assert checkpoint._merged(f"v1\n{line}\n{good}\n").offsets == {TopicPartition("t", 0): 5}
