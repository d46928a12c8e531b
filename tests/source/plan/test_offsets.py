"""The offsets in a checkpoint."""

import json
import re
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.errors import KafkaSourceError
from kafkasource.source.plan.offsets import RecentOffsets, StreamOffset, from_json, to_json
from kafkasource.source.plan.planner import advanced
from kafkasource.types import TopicPartition as TP

topics = st.text("abcXYZ019._-", min_size=1, max_size=20)
partitions = st.integers(0, 2**31 - 1) | st.integers(0, 9)  # few and many neighbours
offset_maps = st.dictionaries(st.builds(TP, topics, partitions), st.integers(0, 2**63 - 1), min_size=1, max_size=20)


@st.composite
def stream_offsets(draw):
    offsets = draw(offset_maps)
    epochs = draw(st.fixed_dictionaries({}, optional=dict.fromkeys(offsets, st.integers(0, 3) | st.just(2**31 - 1))))
    ids = draw(st.fixed_dictionaries({}, optional={tp.topic: st.uuids() for tp in offsets}))
    return StreamOffset(offsets, ids, epochs)


@st.composite
def first_ends(draw):
    """Ends of first micro-batches, which keep their start; also one before there was any topic."""
    start = draw(stream_offsets() | st.just(StreamOffset({})))
    return replace(draw(stream_offsets()), start=start)


def through_json(offset):
    return from_json(json.loads(json.dumps(to_json(offset))))


@given(stream_offsets() | first_ends())
def test_checkpointed_offsets_come_back_through_json_with_what_identifies_their_logs(offset):
    assert through_json(offset) == offset


@given(stream_offsets() | first_ends())
def test_to_the_jvm_connector_a_checkpoint_holds_its_topics_and_one_without_partitions(offset):
    # What its JsonUtils.partitionOffsets reads: Map[String, Map[Int, Long]].
    read = {
        TP(topic, int(number)): value
        for topic, numbers in json.loads(json.dumps(to_json(offset))).items()
        for number, value in numbers.items()
    }
    assert read == offset.offsets


def test_checkpoints_hold_the_jvm_connectors_json_in_a_stable_order():
    offsets = {TP("t", 10): 3, TP("t", 2): 23, TP("a", 0): 1}
    assert json.dumps(to_json(StreamOffset(offsets))) == '{"a": {"0": 1}, "t": {"2": 23, "10": 3}}'


def test_topic_ids_stand_there_as_kafkas_tools_print_them_and_epochs_of_neighbours_together():
    # Uuid.METADATA_TOPIC_ID of Kafka, new Uuid(0, 1), is AAAAAAAAAAAAAAAAAAAAAQ.
    offsets = {TP("t", number): 7 for number in range(6)} | {TP("old", 0): 1}
    epochs = dict.fromkeys(list(offsets)[:3], 5) | {TP("t", 3): 6, TP("t", 5): 6, TP("old", 0): 0}
    offset = StreamOffset(offsets, {"t": uuid.UUID(int=1)}, epochs)
    assert list(to_json(offset)) == ["old", "t", "@1;old//0=0;t/AAAAAAAAAAAAAAAAAAAAAQ/0-2=5,3=6,5=6"]
    of_cluster = replace(offset, cluster_id="MkU3OEVBNTcwNTJENDM2Qk")
    assert list(to_json(of_cluster))[2].startswith("@1/MkU3OEVBNTcwNTJENDM2Qk;old//0=0;t/")
    assert from_json(to_json(of_cluster)) == of_cluster
    assert from_json(to_json(replace(offset, cluster_id="no id / of ours"))) == offset
    assert through_json(offset) == offset


def test_the_end_of_a_first_batch_tells_where_it_begins_in_a_version_of_its_own():
    offsets = {TP("t", number): 7 for number in range(3)}
    start = StreamOffset({TP("t", 0): 5, TP("t", 1): 0, TP("t", 2): 0}, {"t": uuid.UUID(int=1)}, {TP("t", 0): 3})
    end = StreamOffset(offsets, {"t": uuid.UUID(int=1)}, dict.fromkeys(offsets, 4), start)
    (_, entry) = to_json(end)
    assert entry == "@2;t/AAAAAAAAAAAAAAAAAAAAAQ/0-2=4|t/AAAAAAAAAAAAAAAAAAAAAQ/0=3/0=5,1-2=0"
    assert list(to_json(StreamOffset(offsets, start=StreamOffset({TP("t", 0): 5})))) == ["t", "@2|t///0=5"]
    assert list(to_json(StreamOffset(offsets, start=StreamOffset({})))) == ["t", "@2|"]  # before there was a topic


def test_our_entry_cannot_be_a_topic_and_stays_small_with_many_partitions():
    offsets = dict.fromkeys((TP("t", number) for number in range(1000)), 7)
    (entry,) = to_json(StreamOffset(offsets, {"t": uuid.uuid4()}, dict.fromkeys(offsets, 3))).keys() - {"t"}
    assert not re.fullmatch(r"[a-zA-Z0-9._-]+", entry)  # Kafka's Topic.validate
    assert len(entry) < 50


def test_an_offset_written_by_the_jvm_connector_is_read():
    assert from_json(json.loads('{"topicB":{"0":2},"topicA":{"1":3,"0":6}}')) == StreamOffset(
        {TP("topicA", 0): 6, TP("topicA", 1): 3, TP("topicB", 0): 2}
    )


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"t": 3},
        {"t": {"0": "3"}},
        {"t": {"0": True}},
        {"t": {"0": -1}},
        {"t": {"x": 1}},
        {"t/u": {"0": 1}},
        {"t": {"0": 1}, "@1;t//0=0": {"0": 1}},
        {"t": {"0": 1}, "@1;t//0=0": {}, "@1;t//0=1": {}},
        {"@1;t/short/0=0": {}},
        {"@1/;t//0=0": {}},
        {"@1/a/b;t//0=0": {}},
        {"@1;t//0": {}},
        {"@1;t//3-1=0": {}},
        {"@1;t//0-4294967295=0": {}},
        {"@1;t//0-999999=0,0-999999=0": {}},
        {"@1;t": {}},
        {"@1;t//0=0|t///0=0": {}},
        {"@1;t//0=0/0=0": {}},
        {"@2;t//0=0": {}},
        {"@2;t//0=0|t//0=0": {}},
        {"@2;t//0=0|t//0=0/0=9223372036854775808": {}},
        {"@2;t//0=0|t///0-999999=0,0-999999=0": {}},
        {"@2;t//0=0|;": {}},
        {"@1;t u//": {}},
    ],
)
def test_a_checkpoint_is_never_guessed_at(document):
    with pytest.raises(KafkaSourceError, match="not an offset of this source"):
        from_json(document)


def test_a_checkpoint_of_a_newer_version_says_so():
    with pytest.raises(KafkaSourceError, match=r"newer version of kafkasource.*'@3;whatever'.*@2"):
        from_json({"t": {"0": 1}, "@3;whatever": {}})


def test_what_was_given_to_spark_is_known_when_it_comes_back():
    recent, offset = RecentOffsets(), StreamOffset({TP("t", 0): 1}, {"t": uuid.uuid4()})
    document = recent.to_json(offset)
    assert recent.to_json(offset) is document
    assert recent.from_json(json.loads(json.dumps(document))) is offset
    assert recent.topics_to_json({TP("t", 0): 1}) == {"t": {"0": 1}} == recent.topics_to_json(offset.offsets)


def test_the_document_is_in_order_whatever_the_order_in_which_partitions_were_listed():
    """Spark compares the text: another order would look like new records. Topics as text, partitions as numbers."""
    offsets = {TP(topic, number): 7 for topic in ("t.b", "t", "t-b") for number in (10, 9, 0)}
    document = to_json(StreamOffset(offsets, leader_epochs=dict(reversed(offsets.items()))))
    numbers = '{"0": 7, "9": 7, "10": 7}'
    ours = "@1;t//0=7,9-10=7;t-b//0=7,9-10=7;t.b//0=7,9-10=7"
    assert json.dumps(document) == f'{{"t": {numbers}, "t-b": {numbers}, "t.b": {numbers}, "{ours}": {{}}}}'


@given(stream_offsets(), st.data())
def test_a_document_made_from_the_last_one_is_the_document_made_anew(offset, data):
    recent = RecentOffsets()
    recent.to_json(offset)
    moved = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(offset.offsets, st.integers(0, 2**63 - 1))))
    later = replace(offset, offsets={**offset.offsets, **moved})
    assert json.dumps(recent.to_json(later)) == json.dumps(to_json(later))
    assert json.dumps(RecentOffsets().to_json(offset)) == json.dumps(recent.to_json(offset))  # is as it was


@given(stream_offsets(), stream_offsets() | first_ends())
def test_a_document_after_another_one_of_other_logs_is_made_anew(offset, other):
    recent = RecentOffsets()
    recent.to_json(offset)
    assert json.dumps(recent.to_json(other)) == json.dumps(to_json(other))


def test_nothing_is_made_for_idle_partitions():
    """Counted by identity: of 200 topics one is busy, and the documents share the entries of the other 199."""
    ids = {f"t{n}": uuid.UUID(int=n + 1) for n in range(200)}
    begin = StreamOffset({TP(topic, p): 5 for topic in ids for p in range(50)}, ids, {TP(t, 0): 3 for t in ids})
    listed = StreamOffset({**begin.offsets, TP("t7", 4): 9}, dict(ids), dict(begin.leader_epochs))
    recent = RecentOffsets()
    before = recent.to_json(begin)
    end = advanced(begin, listed.offsets, listed)
    assert end.leader_epochs is begin.leader_epochs
    assert end.topic_ids is begin.topic_ids
    after = recent.to_json(end)
    assert {topic for topic in after if after[topic] is not before[topic]} == {"t7"}
    assert (before["t7"]["4"], after["t7"]["4"]) == (5, 9)
