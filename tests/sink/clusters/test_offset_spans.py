"""Compares the translation of a source's offset to the target's with a log that is written record by record."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_inputs import examples

from kafkasource.errors import KafkaSourceError
from kafkasource.mirror.offset_map import added, decoded, encoded, translate
from kafkasource.sink.clusters.offset_spans import HandedOver, Mapped, OffsetSpan, StoredAt, extended, gathered, merged
from kafkasource.types import TopicPartition

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("east.orders", 0)


def mapped(offsets, batches, *, chunks=(), handed_before=None):
    """What a task knows that was handed `offsets` in Arrow batches of `chunks` rows; stored: first offset, records."""
    handed, stored = handed_before or HandedOver(), StoredAt()
    place = 0
    for size in [*chunks, len(offsets)]:
        part = offsets[place : place + size]
        place += size
        if part:
            handed.add(SOURCE.topic, TARGET.topic, pa.array(part, pa.int64()), None, [(0, 0, len(part))])
    for first, records in batches:
        stored.add(first, records)
    return handed.spans({TARGET: stored})


@st.composite
def mirrored_logs(draw):
    """A partition's way through some micro-batches: (source offset, target offset) of each record, and the map made of
    it. Source offsets have holes; at the target other records, markers and batches written twice lie between. The map
    lacks some micro-batches, of which a part was discarded or whose writer died before it wrote the map."""
    holes = draw(st.booleans())
    pairs, known = [], None
    source = draw(st.integers(0, 5))
    target = draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, 8))):
        offsets, batches = [], []
        lacking = known is not None and draw(st.booleans())
        for _ in range(draw(st.integers(1, 4))):
            target += draw(st.sampled_from((0, 0, 0, 1, 3)))
            count = draw(st.integers(1, 6))
            batches.append((target, count))
            for number in range(count):
                source += draw(st.sampled_from((0, 0, 1, 4))) if holes else 0
                offsets.append(source)
                if not lacking or draw(st.booleans()):
                    pairs.append((source, target + number))
                source += 1
            target += count
        cuts = draw(st.lists(st.integers(1, 5), max_size=4))
        if not lacking:
            known = extended(known, mapped(offsets, batches, chunks=cuts)[SOURCE])
        target += draw(st.sampled_from((0, 0, 1, 2)))
    return pairs, known


def first_at_target(pairs, offset):
    """The target offset of the first record at or after this source offset; None: no such record has come yet."""
    return min((target for source, target in pairs if source >= offset), default=None)


@given(log=mirrored_logs())
@settings(max_examples=examples(100), deadline=None)
def test_who_goes_on_at_the_translated_offset_misses_no_record(log):
    pairs, known = log
    for offset in range(pairs[0][0], pairs[-1][0] + 2):
        found = translate({SOURCE: known}, SOURCE, offset)
        true = first_at_target(pairs, offset)
        if true is not None:
            assert found.offset <= true
        elif not found.behind:
            assert all(target < found.offset for source, target in pairs)
        if found.exact and not found.behind:
            read_again = [source for source, target in pairs if target >= found.offset and source < offset]
            assert read_again == []


@given(log=mirrored_logs(), most=st.integers(1, 4))
@settings(deadline=None)
def test_spans_that_are_joined_for_want_of_room_still_let_nobody_miss_a_record(log, most):
    pairs, known = log
    fewer = {SOURCE: Mapped(known.target_topic, tuple(merged(known.spans, most)))}
    assert len(fewer[SOURCE].spans) <= most
    for offset in range(pairs[0][0], pairs[-1][0] + 1):
        assert translate(fewer, SOURCE, offset).offset <= first_at_target(pairs, offset)


def test_spans_that_are_joined_over_records_that_the_map_does_not_know_let_nobody_miss_these():
    """Of the source's 10 to 19 only 19 was stored, at 10; another writer's records follow. The map does not know."""
    before = mapped(list(range(10)), [(0, 10)])[SOURCE]
    known = extended(before, mapped(list(range(20, 30)), [(30, 10)])[SOURCE])
    one = {SOURCE: Mapped(TARGET.topic, tuple(merged(known.spans, 1)))}
    for fewer in ({SOURCE: known}, one):
        assert [translate(fewer, SOURCE, offset).offset <= 10 for offset in range(10, 20)] == [True] * 10
    assert [translate(one, SOURCE, offset).offset for offset in (0, 9, 29, 30)] == [0, 0, 20, 40]


def test_a_mirror_without_holes_is_one_exact_span_however_long_it_runs():
    known = None
    for batch in range(1000):
        first = batch * 10
        known = extended(known, mapped(list(range(first, first + 10)), [(first + 7, 4), (first + 11, 6)])[SOURCE])
    assert known.spans == (OffsetSpan(0, 10_000, 7, 10_007, 7),)
    assert translate({SOURCE: known}, SOURCE, 4711).offset == 4718


def test_after_a_thousand_transactions_a_reader_reads_few_records_twice_and_none_if_it_is_near_the_end():
    known = None
    for batch in range(1000):  # each leaves a marker behind its ten records
        known = extended(known, mapped(list(range(batch * 10, batch * 10 + 10)), [(batch * 11, 10)])[SOURCE])
    assert len(known.spans) <= 64
    newest = translate({SOURCE: known}, SOURCE, 9_999)
    assert (newest.offset, newest.exact) == (999 * 11 + 9, True)
    for batch in (0, 1, 500, 900, 990, 998):
        found = translate({SOURCE: known}, SOURCE, batch * 10 + 5)
        read_twice = batch * 11 + 5 - found.offset
        assert 0 <= read_twice <= (999 - batch) * 10 / 50  # one in fifty of those that are yet to be read


def test_what_was_not_stored_whole_is_not_mapped():
    assert mapped([0, 1, 2], [(0, 2)]) == {SOURCE: Mapped(TARGET.topic, ())}
    assert mapped([0, 1, 2], [(0, 2), (None, 1)]) == {SOURCE: Mapped(TARGET.topic, ())}


def test_producers_that_share_a_partition_are_one_span_that_knows_its_ends_only():
    even = mapped([0, 2, 4, 6], [(10, 2), (14, 2)])
    odd = mapped([1, 3, 5, 7], [(12, 2), (16, 2)])
    known = gathered([even, odd])[SOURCE]
    assert known.spans == (OffsetSpan(0, 8, 10, 18, None),)
    assert translate({SOURCE: known}, SOURCE, 5).offset == 10
    assert translate({SOURCE: known}, SOURCE, 8).offset == 18


def test_a_partition_that_one_of_several_producers_has_not_stored_whole_is_not_mapped():
    """What the others know is not enough: record 15 of the one that discards lies below all of theirs."""
    theirs = mapped([*range(10), *range(20, 30)], [(55, 20)])
    discarding = mapped(list(range(10, 20)), [(50, 5)])
    for parts in ([theirs, discarding], [discarding, theirs]):
        assert gathered(parts) == {SOURCE: Mapped(TARGET.topic, ())}
    known = extended(None, mapped([0], [(0, 1)])[SOURCE])
    assert extended(known, gathered([theirs, discarding])[SOURCE]) == known


def test_a_batch_that_was_written_again_counts_where_it_was_written_last():
    known = mapped([0, 1, 2, 3], [(0, 4)])[SOURCE]
    again = extended(known, mapped([2, 3, 4], [(4, 3)])[SOURCE])
    assert translate({SOURCE: again}, SOURCE, 2).offset == 4
    assert translate({SOURCE: again}, SOURCE, 1).offset == 1
    assert translate({SOURCE: again}, SOURCE, 5).offset == 7


def test_a_source_topic_that_was_made_anew_begins_the_map_anew():
    known = mapped(list(range(100)), [(0, 100)])[SOURCE]
    anew = extended(known, mapped([0, 1], [(100, 2)])[SOURCE])
    assert translate({SOURCE: anew}, SOURCE, 1).offset == 101
    assert translate({SOURCE: anew}, SOURCE, 50).offset == 102


def test_what_the_map_does_not_know_is_not_guessed():
    known = {SOURCE: mapped([10, 11], [(0, 2)])[SOURCE]}
    assert translate(known, SOURCE, 9) is None
    assert translate(known, TopicPartition("orders", 1), 10) is None
    assert translate(known, SOURCE, 20).behind == 8


def test_rows_of_several_partitions_in_one_batch_are_told_apart_by_their_order():
    handed, stored = HandedOver(), {TopicPartition("t", 0): StoredAt(), TopicPartition("t", 1): StoredAt()}
    order = memoryview(bytearray(b"".join(n.to_bytes(4, "little") for n in (0, 2, 1, 3)))).cast("i")
    handed.add("t", "t", pa.array([5, 70, 6, 71], pa.int64()), order, [(0, 0, 2), (1, 2, 4)])
    stored[TopicPartition("t", 0)].add(0, 2)
    stored[TopicPartition("t", 1)].add(0, 2)
    found = handed.spans(stored)
    assert found[TopicPartition("t", 0)].spans == (OffsetSpan(5, 7, 0, 2, -5),)
    assert found[TopicPartition("t", 1)].spans == (OffsetSpan(70, 72, 0, 2, -70),)


@given(log=mirrored_logs())
@settings(deadline=None)
def test_a_record_of_the_map_reads_back_as_it_was(log):
    known = log[1]
    key, value = encoded(SOURCE, known)
    assert decoded(key.encode(), value.encode()) == (SOURCE, known)
    assert decoded(key.encode(), None) == (SOURCE, None)


@pytest.mark.parametrize("value", ["[]", "5", '"x"', "{", '{"target": "t", "spans": [], "left_out": 5}'])
def test_a_record_that_no_mirror_wrote_is_an_error_that_names_it(value):
    key, _ = encoded(SOURCE, Mapped("t", ()))
    with pytest.raises(KafkaSourceError, match=r"cannot read a record of the offset map: key .*orders"):
        decoded(key.encode(), value.encode())


def test_what_was_left_out_while_a_target_refused_a_topic_is_said_once_when_it_takes_records_again(caplog):
    """Over restarts of the mirror: the map in the target keeps it."""

    def kept(one):
        return decoded(*(each.encode() for each in encoded(SOURCE, one)))[1]

    known = kept(added(None, SOURCE, mapped(range(5), [(0, 5)])[SOURCE], "b:1"))
    for first in (5, 7):
        parts = [{SOURCE: Mapped(TARGET.topic, (), (first, first + 1))}, {SOURCE: Mapped(TARGET.topic, (), (6, 8))}]
        known = kept(added(known, SOURCE, gathered(parts)[SOURCE], "b:1"))
    assert known == Mapped(TARGET.topic, (OffsetSpan(0, 5, 0, 5, 0),), (5, 8))
    assert caplog.messages == []
    known = kept(added(known, SOURCE, mapped(range(8, 10), [(5, 2)])[SOURCE], "b:1"))
    (said,) = caplog.messages
    assert said.startswith("topic east.orders at b:1 takes records again. Records of orders-0 from offset 5 to 7 were")
    assert known.left_out is None
    assert translate({SOURCE: known}, SOURCE, 6).offset == 5  # the next that is there
    added(known, SOURCE, mapped([10], [(7, 1)])[SOURCE], "b:1")
    assert len(caplog.messages) == 1


def test_no_offset_is_translated_where_all_are_left_out():
    assert translate({SOURCE: Mapped(TARGET.topic, (), (0, 8))}, SOURCE, 3) is None
