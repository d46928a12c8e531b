"""Rows of some columns: the same as those columns of whole rows, and nothing else is made."""

from __future__ import annotations

import random
from itertools import permutations

import legacy_wire
import pyarrow as pa
import pytest
from record_wire import CODECS, LOG_APPEND, batch, record
from test_decode import LIES

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.records.batches import decode

EVERYTHING = {"topic": "events", "partition": 3, "start_offset": 0, "end_offset": 1 << 62}
NAMES = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
OLD = b"".join(legacy_wire.message(offset, b"k%d" % offset, None, magic=1) for offset in range(9))
CHOICES = [(name,) for name in NAMES] + [tuple(random.Random(seed).sample(NAMES, 2 + seed % 7)) for seed in range(12)]


def written(codec="none"):
    """Two batches of create time and one of log append time, with nulls, empty values and headers."""
    records = [
        record(0, None, b"first", [(b"h", None)]),
        record(1, b"key", None),
        record(2, b"", b"", [(b"a", b"1"), (b"a", b"")], timestamp_delta=5),
    ]
    data = batch(records, 0, codec=codec, base_timestamp=1_000) + batch(records, 3, base_timestamp=2_000)
    return data + batch(records, 6, codec=codec, attributes=LOG_APPEND, max_timestamp=3_000)


def decoded(data, names, **changes):
    batches = decode(data, **{**EVERYTHING, **changes}, columns=names).batches
    for each in batches:
        each.validate(full=True)
        assert tuple(each.schema.names) == names
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize("names", CHOICES, ids=",".join)
def test_the_columns_of_a_choice_are_those_of_whole_rows(names):
    for data in (written(), written("gzip"), OLD):
        for bounds in ({}, {"start_offset": 2, "end_offset": 7}):
            assert decoded(data, names, **bounds) == decoded(data, NAMES, **bounds).select(names)


def test_a_choice_has_what_was_written():
    found = decoded(written(), ("value", "offset", "headers"))
    assert found["value"].to_pylist() == [b"first", None, b""] * 3
    assert found["offset"].to_pylist() == list(range(9))
    assert found["headers"][2].as_py() == [{"key": "a", "value": b"1"}, {"key": "a", "value": b""}]


@pytest.mark.parametrize("codec", CODECS)
def test_a_column_that_is_not_asked_for_takes_no_memory(codec):
    large, small = 4 << 20, [b"v%d" % i for i in range(100)]
    data = batch([record(i, b"k" * (large // 100), value) for i, value in enumerate(small)], codec=codec)
    decoded(data, ("value",))  # memory that is kept for the next call
    before = pa.total_allocated_bytes()
    found = decode(data, **EVERYTHING, columns=("offset", "partition")).batches
    assert pa.total_allocated_bytes() - before < 64 << 10
    assert found[0]["offset"].to_pylist() == list(range(100))


@pytest.mark.parametrize("lie", sorted(LIES.keys() - {"null header key"}))
@pytest.mark.parametrize("names", [("value",), ("key",), ("topic",), ("timestamp", "offset")], ids=",".join)
def test_a_batch_that_contradicts_itself_is_the_same_error_for_any_columns(lie, names):
    said = []
    for each in (names, NAMES[:-1]):
        with pytest.raises(KafkaSourceError) as error:
            decode(batch(**LIES[lie]), **EVERYTHING, columns=each)
        said.append(str(error.value))
    assert said[0] == said[1]


def test_damaged_bytes_are_the_same_rows_or_the_same_error_for_any_columns():
    data, luck = written(), random.Random(7)
    for _ in range(400):
        damaged = bytearray(data)
        damaged[luck.randrange(len(damaged))] = luck.randrange(256)
        outcomes = []
        for names in (("value", "offset"), ("value", "offset", "key", "timestamp", "topic")):
            try:
                found = decode(damaged, **EVERYTHING, columns=names, check_crc=False).batches
                outcomes.append([row for each in found for row in each.select(["value", "offset"]).to_pylist()])
            except KafkaSourceError as error:
                outcomes.append(f"{type(error).__name__}: {error}")
        assert outcomes[0] == outcomes[1]


def test_rows_without_their_topic_come_in_the_batches_of_numbers():
    data = batch([record(i, None, b"") for i in range(20_000)])
    long_name = "t" * 249
    whole = decode(data, **{**EVERYTHING, "topic": long_name}).batches
    some = decode(data, **{**EVERYTHING, "topic": long_name}, columns=("value",)).batches
    assert max(each.num_rows for each in whole) <= (2 << 20) // 249
    assert [each.num_rows for each in some] == [20_000]


def test_two_columns_come_in_the_order_of_their_names():
    for names in permutations(("value", "timestamp")):
        assert decoded(written(), names).schema.names == list(names)
