"""JSON in options and checkpoints that is nested without end, or holds numbers of any size: told, not thrown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.lag import lag
from kafkasource.source import offsets
from kafkasource.source.positions import parse_offsets
from kafkasource.source.subscription import parse_subscription

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
