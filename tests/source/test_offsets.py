"""The offsets in a checkpoint."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.errors import KafkaSourceError
from kafkasource.source.offsets import from_json, to_json
from kafkasource.types import TopicPartition as TP

topics = st.text("abcXYZ019._-", min_size=1, max_size=20)
offset_maps = st.dictionaries(
    st.builds(TP, topics, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1), min_size=1, max_size=20
)


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
