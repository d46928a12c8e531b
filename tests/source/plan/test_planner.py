"""Cases and conditions of the JVM connector (KafkaMicroBatchSourceSuite, KafkaOffsetReader), and beyond it what topic
ids and leader epochs tell (KIP-320).
"""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.errors import DataLoss, KafkaSourceError
from kafkasource.kafka.fetch import loss
from kafkasource.source.plan.offsets import StreamOffset
from kafkasource.source.plan.planner import advanced, check_available_now, plan, questions
from kafkasource.source.plan.subscription import Assign, SubscribePattern, SubscribeTopics
from kafkasource.types import OffsetRange
from kafkasource.types import TopicPartition as TP

T0, T1, T2, T3 = (TP("t", number) for number in range(4))
OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)
partitions = st.builds(TP, st.just("t"), st.integers(0, 30))


def planned(start, end, earliest):
    return plan(StreamOffset(start), StreamOffset(end), earliest, {})


def at(offsets, topic_id=None, epochs=()):
    return StreamOffset(offsets, {"t": topic_id} if topic_id and offsets else {}, dict(epochs))


def test_one_range_per_partition_in_order():
    assert planned({T1: 1, T0: 5}, {T0: 7, T1: 2}, {}).ranges == [OffsetRange(T0, 5, 7), OffsetRange(T1, 1, 2)]


def test_empty_ranges_make_no_task():
    made = planned({T0: 5, T1: 5}, {T0: 5, T1: 6}, {})
    assert (made.ranges, made.losses) == ([OffsetRange(T1, 5, 6)], [])


def test_a_new_partition_is_read_from_its_beginning():
    made = planned({T0: 5}, {T0: 5, T1: 4}, {T1: 0})
    assert (made.ranges, made.losses) == ([OffsetRange(T1, 0, 4)], [])


def test_a_range_carries_the_identity_of_its_log_to_the_task():
    made = plan(at({T0: 5}, OLD, {T0: 3}), at({T0: 7}, OLD, {T0: 3}), {})
    assert made.ranges == [OffsetRange(T0, 5, 7, leader_epoch=3, topic_id=OLD)]


@pytest.mark.parametrize(
    ("start", "end", "new", "condition", "text", "ranges"),
    [
        (
            {},
            {T1: 9},
            {T1: 5},
            loss.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO,
            "Added partition t-1 starts from 5 instead of 0.",
            [OffsetRange(T1, 5, 9)],
        ),
        ({}, {T1: 9}, {}, loss.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS, "t-1. They may have been deleted.", []),
        ({T0: 3, T1: 1}, {T1: 2}, {}, loss.PARTITIONS_DELETED, "t-0 have been deleted.", [OffsetRange(T1, 1, 2)]),
        ({T0: 8}, {T0: 3}, {}, loss.PARTITION_OFFSET_CHANGED, "Partition t-0 offset was changed from 8 to 3", []),
    ],
)
def test_what_cannot_be_read_is_a_named_loss(start, end, new, condition, text, ranges):
    made = planned(start, end, new)
    assert [found.condition for found in made.losses] == [condition]
    assert text in made.losses[0].text
    assert made.ranges == ranges


@given(
    st.dictionaries(partitions, st.integers(0, 100)),
    st.dictionaries(partitions, st.integers(0, 100)),
    st.dictionaries(partitions, st.integers(0, 100)),
    st.dictionaries(partitions, st.integers(0, 100)),
    st.sampled_from([None, OLD, NEW]),
)
def test_every_partition_is_read_empty_or_reported(start, end, earliest, epoch_ends, topic_id):
    begin, until = at(start, OLD, dict.fromkeys(start, 0)), at(end, topic_id, dict.fromkeys(end, 1))
    epoch_ends = {tp: offset for tp, offset in epoch_ends.items() if tp in questions(begin, until).epochs}
    made = plan(begin, until, earliest, epoch_ends)
    read = {r.topic_partition: r for r in made.ranges}
    told = " ".join(found.condition for found in made.losses)
    recreated = topic_id == NEW and start and end
    assert ("TOPIC_RECREATED" in told) == bool(recreated)
    for tp, last in end.items():
        first = earliest.get(tp) if recreated or tp not in start else start[tp]
        if tp in epoch_ends:
            first = min(first, epoch_ends[tp])
        if first is None:
            assert "INITIAL_OFFSET_NOT_FOUND" in told
        elif first < last:
            assert (read[tp].start_offset, read[tp].end_offset) == (first, last)
        else:
            assert tp not in read
            assert last == first or "PARTITION_OFFSET_CHANGED" in told or "LOG_TRUNCATED" in told
    assert ("PARTITIONS_DELETED" in told) == bool(not recreated and start.keys() - end.keys())


ORDERS, BILLS = TP("orders", 0), TP("bills", 0)


@pytest.mark.parametrize(
    ("subscription", "reads"),
    [
        (SubscribeTopics(("bills",)), "Subscribe[bills]"),
        (Assign((BILLS,)), "Assign[bills-0]"),
        (SubscribePattern("^b"), "SubscribePattern[^b]"),
    ],
)
def test_the_checkpoint_of_a_query_that_read_something_else_is_named_as_the_reason(subscription, reads):
    (lost,) = plan(StreamOffset({ORDERS: 3}), StreamOffset({BILLS: 9}), {BILLS: 0}, subscription=subscription).losses
    assert lost.condition == loss.PARTITIONS_DELETED
    assert f"The checkpoint is of a query that read orders-0, and this one reads {reads}" in lost.text
    assert "a checkpointLocation of its own" in lost.text
    add = "orders-0" if isinstance(subscription, Assign) else "orders"
    assert f"or let it read {add}, too (option {subscription.option!r})" in lost.text
    with pytest.raises(DataLoss, match="does not read all that its checkpoint has") as error:
        loss.report([lost], fail_on_data_loss=True)
    for wrong in ("deleted,", "deleted.", "Describe"):
        assert wrong not in str(error.value)


@pytest.mark.parametrize(
    ("subscription", "hidden"),
    [(SubscribeTopics(("t",)), False), (Assign((T0, T1)), False), (SubscribePattern("t"), True)],
)
def test_a_partition_that_the_query_reads_and_that_is_gone_was_deleted(subscription, hidden):
    (lost,) = plan(StreamOffset({T0: 3, T1: 1}), StreamOffset({T1: 1}), {}, subscription=subscription).losses
    assert "Partitions t-0 have been deleted." in lost.text
    assert (loss.UNSEEN in lost.text) == hidden  # asked for by name, a broker refuses a hidden topic


# What only identities show.


def test_a_recreated_topic_is_a_loss_also_where_the_new_one_is_longer_and_is_read_from_its_beginning():
    begin, until = at({T0: 5, T1: 5}, OLD), at({T0: 50, T1: 5, T2: 4}, NEW)
    assert questions(begin, until).earliest == {T0, T1, T2}
    made = plan(begin, until, {T0: 0, T1: 2, T2: 0})
    assert [(r.topic_partition, r.start_offset, r.end_offset) for r in made.ranges] == [
        (T0, 0, 50),
        (T1, 2, 5),
        (T2, 0, 4),
    ]
    assert {r.topic_id for r in made.ranges} == {NEW}
    (found,) = made.losses
    assert found.condition == "TOPIC_RECREATED"
    assert str(OLD) in found.text
    assert str(NEW) in found.text


def test_a_recreated_topic_with_fewer_partitions_is_one_loss():
    made = plan(at({T0: 5, T1: 5}, OLD), at({T0: 2}, NEW), {T0: 0})
    assert [found.condition for found in made.losses] == ["TOPIC_RECREATED"]
    assert [(r.start_offset, r.end_offset) for r in made.ranges] == [(0, 2)]


@pytest.mark.parametrize(("before", "now"), [(None, NEW), (OLD, None), (None, None)])
def test_a_topic_whose_id_is_not_known_is_taken_for_the_same(before, now):
    made = plan(at({T0: 5}, before), at({T0: 50}, now), {})
    assert (made.losses, [r.start_offset for r in made.ranges]) == ([], [5])


def test_only_partitions_under_a_later_leader_are_asked_where_their_epoch_ends():
    begin = at({T0: 5, T1: 5, T2: 5, T3: 5}, OLD, {T0: 1, T1: 1, T2: 1})
    until = at({T0: 9, T1: 9, T2: 5, T3: 9}, OLD, {T0: 1, T1: 2, T2: 2, T3: 2})
    asked = questions(begin, until)
    assert (asked.epochs, asked.earliest) == ({T1: 1, T2: 1}, set())


def test_where_there_are_no_ids_an_epoch_that_falls_shows_another_topic_of_the_name():
    """An epoch cannot fall within one topic. Kafka 2.4 to 2.7, later ones with an IBP below 2.8."""
    begin, until = at({T0: 50, T1: 50}, None, {T0: 5, T1: 0}), at({T0: 80, T1: 9}, None, {T0: 0, T1: 0})
    assert questions(begin, until) == ({T0, T1}, {})
    made = plan(begin, until, {T0: 0, T1: 0})
    assert [(r.topic_partition, r.start_offset, r.end_offset) for r in made.ranges] == [(T0, 0, 80), (T1, 0, 9)]
    (found,) = made.losses
    assert found.condition == "TOPIC_RECREATED"
    assert "the leader epoch of t-0 was 5 and is 0 now" in found.text


def test_with_the_same_id_an_older_epoch_is_old_news_and_does_not_replace_the_one_in_the_offset():
    begin, listed = at({T0: 5}, OLD, {T0: 5}), at({T0: 9}, OLD, {T0: 4})
    assert advanced(begin, {T0: 9}, listed) == at({T0: 9}, OLD, {T0: 5})
    assert plan(begin, listed, {}).losses == []


def test_a_log_truncated_and_grown_to_the_very_offset_is_news_that_is_read_from_the_cut():
    begin, listed = at({T0: 5, T1: 5}, OLD, {T0: 1, T1: 1}), at({T0: 5, T1: 5}, OLD, {T0: 2, T1: 2})
    assert advanced(begin, listed.offsets, listed) is None
    end = advanced(begin, listed.offsets, listed, {T0})
    assert end == at({T0: 5, T1: 5}, OLD, {T0: 2, T1: 1})
    made = plan(begin, end, {}, {T0: 3})
    assert [(r.start_offset, r.end_offset, r.leader_epoch) for r in made.ranges] == [(3, 5, 2)]
    assert [found.condition for found in made.losses] == ["LOG_TRUNCATED"]
    assert advanced(end, listed.offsets, listed, {T0}) is None


def test_an_epoch_that_ends_behind_what_was_read_is_no_loss():
    made = plan(at({T0: 5}, OLD, {T0: 1}), at({T0: 9}, OLD, {T0: 2}), {}, {T0: 5})
    assert (made.losses, made.ranges) == ([], [OffsetRange(T0, 5, 9, leader_epoch=2, topic_id=OLD)])


@pytest.mark.parametrize(("end", "ranges"), [(9, [(3, 9)]), (4, [(3, 4)]), (3, []), (2, [])])
def test_a_truncated_log_is_a_loss_that_names_the_range_and_is_read_from_where_it_was_cut(end, ranges):
    made = plan(at({T0: 5}, OLD, {T0: 1}), at({T0: end}, OLD, {T0: 4}), {}, {T0: 3})
    (found,) = made.losses
    assert found.condition == "LOG_TRUNCATED"
    assert "[3, 5)" in found.text
    assert "epoch 1 " in found.text
    assert "epoch 4 " in found.text
    assert [(r.start_offset, r.end_offset) for r in made.ranges] == ranges


# The end of a micro-batch.


def test_nothing_new_is_no_offset_though_a_leader_changed_or_an_id_became_known():
    assert advanced(at({T0: 5}, None, {T0: 1}), {T0: 5}, at({T0: 5}, OLD, {T0: 2})) is None


def test_a_recreated_topic_is_news_though_no_offset_moved():
    assert advanced(at({T0: 5}, OLD), {T0: 5}, at({T0: 5}, NEW)) == at({T0: 5}, NEW)


def test_a_partition_that_moves_takes_the_epoch_of_the_listing_and_one_that_stands_keeps_its_own():
    begin = at({T0: 5, T1: 5, T2: 5}, OLD, {T0: 1, T1: 1})
    listed = at({T0: 9, T1: 5, T2: 5, T3: 4}, OLD, {T0: 3, T1: 3, T2: 3, T3: 3})
    end = advanced(begin, {T0: 7, T1: 5, T2: 5, T3: 2}, listed)
    assert end == at({T0: 7, T1: 5, T2: 5, T3: 2}, OLD, {T0: 3, T1: 1, T2: 3, T3: 3})


def test_what_vanished_leaves_nothing_behind():
    begin = StreamOffset({T0: 5, TP("gone", 0): 5}, {"t": OLD, "gone": NEW}, {T0: 1, TP("gone", 0): 1})
    assert advanced(begin, {T0: 5}, at({T0: 5}, OLD, {T0: 1})) == at({T0: 5}, OLD, {T0: 1})


# Trigger.AvailableNow. The conditions are the JVM connector's.


def test_a_batch_within_the_goal_of_the_run_is_good():
    check_available_now({T0: 3, T1: 5}, {T0: 5, T1: 5}, {T0: 9, T1: 5, T2: 1})


@pytest.mark.parametrize(
    ("end", "frozen", "latest", "condition", "named"),
    [
        ({T0: 3}, {T0: 5, T1: 5}, {T0: 5}, "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED", "t-1"),
        ({T0: 6}, {T0: 5}, {T0: 9}, "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED", "t-0"),
        (
            {T0: 3, T1: 3},
            {T0: 5, T1: 5},
            {T0: 5},
            "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
            "t-1",
        ),
        (
            {T0: 3},
            {T0: 5},
            {T0: 2},
            "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW",
            "t-0",
        ),
    ],
)
def test_end_offsets_that_vanished_fail_the_run_by_name(end, frozen, latest, condition, named):
    with pytest.raises(KafkaSourceError, match=rf"\[{condition}\].*Trigger\.AvailableNow.*: {named}\.") as caught:
        check_available_now(end, frozen, latest)
    assert "restart your query" in str(caught.value)
    assert ("the right Describe" in str(caught.value)) == condition.startswith("LOST_TOPIC_PARTITIONS")
