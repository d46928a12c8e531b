"""startingOffsets, endingOffsets and the offsets in a checkpoint. Expected texts are the key phrases of the JVM
connector's errors.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.source.offsets import (
    EARLIEST,
    LATEST,
    check_start_before_end,
    ending_offsets,
    from_json,
    parse_position,
    starting_offsets,
    to_json,
)
from kafkasource.types import TopicPartition as TP

T0, T1, U0 = TP("t", 0), TP("t", 1), TP("u", 0)
topics = st.text("abcXYZ019._-", min_size=1, max_size=20)
offset_maps = st.dictionaries(
    st.builds(TP, topics, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1), min_size=1, max_size=20
)


def parse(text):
    return parse_position("startingOffsets", text, "latest")


@given(offset_maps)
def test_checkpointed_offsets_come_back_through_json(offsets):
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


def test_checkpoints_hold_the_jvm_connectors_json_in_a_stable_order():
    offsets = {TP("t", 10): 3, TP("t", 2): 23, TP("a", 0): 1}
    assert json.dumps(to_json(offsets)) == '{"a": {"0": 1}, "t": {"2": 23, "10": 3}}'


def test_an_offset_written_by_the_jvm_connector_is_read():
    assert from_json(json.loads('{"topicB":{"0":2},"topicA":{"1":3,"0":6}}')) == {
        TP("topicA", 0): 6,
        TP("topicA", 1): 3,
        TP("topicB", 0): 2,
    }


@pytest.mark.parametrize(
    "document",
    [None, [], {"t": 3}, {"t": {"0": "3"}}, {"t": {"0": True}}, {"t": {"0": -1}}, {"t": {"x": 1}}, {"t/u": {"0": 1}}],
)
def test_a_checkpoint_is_never_guessed_at(document):
    with pytest.raises(KafkaSourceError, match="not an offset of this source"):
        from_json(document)


@pytest.mark.parametrize("text", ["earliest", "EARLIEST", " Earliest "])
def test_words_are_case_insensitive(text):
    assert parse(text).of([T0]) == {T0: EARLIEST}


def test_offsets_are_taken_per_partition():
    assert parse('{"t":{"0":23,"1":-1},"u":{"00":-2}}').of([T0, T1, U0]) == {T0: 23, T1: LATEST, U0: EARLIEST}


def test_a_topic_may_have_one_word_for_all_its_partitions():
    assert parse('{"t":"earliest","u":{"0":5}}').of([T0, T1, U0]) == {T0: EARLIEST, T1: EARLIEST, U0: 5}


@pytest.mark.parametrize(
    "text",
    [
        "soon",
        "{}",
        "[]",
        "3",
        '{"t"}',
        '{"t":3}',
        '{"t":{"0":"a"}}',
        '{"t":{"0":1.0}}',
        '{"t":{"0":true}}',
        '{"t":{"0":-3}}',
        '{"t":{"0":9223372036854775808}}',
        '{"t":{"-1":3}}',
        '{"t":{"0":1,"00":2}}',
        '{"t":{"0":1},"t":{"1":2}}',
        '{"t":"soon"}',
    ],
)
def test_malformed_offsets_name_option_value_and_an_example(text):
    with pytest.raises(OptionError) as caught:
        parse(text)
    assert "'startingOffsets'" in str(caught.value)
    assert 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}' in str(caught.value)
    assert str(caught.value).endswith(f"got {text}")


@pytest.mark.parametrize("text", ['{"t":{"0":1}}', '{"t":{"0":1,"1":1,"2":1}}', '{"t":{"0":1,"1":1},"v":"latest"}'])
def test_every_assigned_partition_and_no_other_must_be_named(text):
    with pytest.raises(
        OptionError, match=r"you must specify all TopicPartitions.*Specified: .* Assigned: \{t-0, t-1\}"
    ):
        parse(text).of([T0, T1])


def test_only_symbolic_offsets_are_asked_for():
    asked = []
    resolved = parse('{"t":{"0":23,"1":-2},"u":{"0":-1}}').resolve(
        [T0, T1, U0], lambda want: asked.append(want) or {T1: 7, U0: 9}
    )
    assert asked == [{T1: EARLIEST, U0: LATEST}]
    assert resolved == {T0: 23, T1: 7, U0: 9}


def test_a_partition_that_vanished_while_asked_is_left_out():
    assert parse("latest").resolve([T0, T1], lambda want: {T0: 4}) == {T0: 4}


def test_a_stream_starts_at_latest_and_a_batch_reads_everything_by_default():
    unset = {"startingOffsets": None, "endingOffsets": None}
    assert starting_offsets(unset, streaming=True).everywhere == LATEST
    assert starting_offsets(unset, streaming=False).everywhere == EARLIEST
    assert ending_offsets(unset, streaming=False).everywhere == LATEST


@pytest.mark.parametrize(
    ("end_of", "text", "message"),
    [
        (starting_offsets, "latest", "starting offset can't be latest for batch queries on Kafka"),
        (starting_offsets, '{"t":{"0":-1}}', "startingOffsets for t-0 can't be latest"),
        (starting_offsets, '{"t":"latest"}', "startingOffsets for t can't be latest"),
        (ending_offsets, "earliest", "ending offset can't be earliest for batch queries on Kafka"),
        (ending_offsets, '{"t":{"0":-2}}', "endingOffsets for t-0 can't be earliest"),
    ],
)
def test_a_batch_that_could_only_be_empty_is_refused(end_of, text, message):
    with pytest.raises(OptionError, match=message):
        end_of({"startingOffsets": text, "endingOffsets": text}, streaming=False)


def test_a_stream_has_no_ending_offsets():
    with pytest.raises(OptionError, match="ending offset not valid in streaming queries"):
        ending_offsets({"endingOffsets": "latest"}, streaming=True)


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ('{"t":{"0":1}}', '{"t":{"0":0}}', "start offset 1 is greater than the end offset 0 for topic t partition 0"),
        ('{"t":{"0":1}}', '{"t":{"1":2}}', "different topic-partitions"),
    ],
)
def test_contradicting_start_and_end_are_seen_before_a_broker_is_asked(start, end, message):
    with pytest.raises(OptionError, match=message):
        check_start_before_end(parse(start), parse_position("endingOffsets", end, "latest"))


def test_symbolic_ends_contradict_nothing():
    check_start_before_end(parse('{"t":{"0":5}}'), parse_position("endingOffsets", '{"t":{"0":-1}}', "latest"))
