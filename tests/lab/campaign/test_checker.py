"""The campaign's checker is silent on a history in which all is well, and each rule finds what it is there for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from histories import IN, MIRROR, OUT, good, histories, with_log
from hypothesis import given
from hypothesis import strategies as st

from lab.campaign.checker import (
    RULES,
    Batch,
    Copy,
    Glimpse,
    History,
    Outcome,
    Passed,
    Record,
    Translation,
    Wait,
    Written,
    check,
)

COMMITTED, ABORTED, UNKNOWN = Outcome


def found(history):
    return {rule for rule, count in check(history).counts.items() if count}


@pytest.fixture
def history():
    """Twelve records, of which the fifth and sixth were aborted."""
    return good([COMMITTED] * 4 + [ABORTED] * 2 + [COMMITTED] * 6)


@given(histories)
def test_where_all_is_well_no_rule_finds_anything(history):
    assert check(history).findings == {}


@given(histories, st.data())
def test_any_committed_record_that_is_missing_in_its_topic_is_lost(history, data):
    there = [each for each in history.written if each.outcome is COMMITTED]
    if there:
        gone = data.draw(st.sampled_from(there)).value
        records = [record for record in history.logs[IN] if record.value != gone]
        assert check(with_log(history, IN, records)).counts["lost"] == 1


@given(histories, st.sampled_from([OUT, MIRROR]), st.data())
def test_any_record_that_a_copy_lacks_is_lost_and_any_that_it_has_twice_is_doubled(history, log, data):
    if records := history.logs[log]:
        place = data.draw(st.integers(0, len(records) - 1))
        assert check(with_log(history, log, records[:place] + records[place + 1 :])).counts["lost"] == 1
        again = records[place]._replace(offset=1000)
        assert check(with_log(history, log, [*records, again])).counts["doubled"] == 1


def test_a_record_of_an_unknown_transaction_may_be_there_or_not(history):
    for there in (True, False):
        written = [each._replace(outcome=UNKNOWN) if each.value == b"a-1" else each for each in history.written]
        changed = replace(history, written=written)
        if not there:
            for log in (IN, OUT, MIRROR):
                changed = with_log(changed, log, [record for record in changed.logs[log] if record.value != b"a-1"])
        assert check(changed).counts["lost"] == 0


@pytest.mark.parametrize(("left_out", "lost"), [(None, 3), (0, 3), (2, 1), (3, 0), (9, 0)])
def test_a_copy_lacks_no_more_records_than_its_query_said_it_left_out(history, left_out, lost):
    copies = [copy._replace(left_out=left_out) if copy.target == OUT else copy for copy in history.copies]
    changed = with_log(replace(history, copies=copies), OUT, history.logs[OUT][3:])
    assert check(changed).counts["lost"] == lost


def passing(given, said_lost, removed_below=4):
    written = [Written("p", b"k", n, b"%d" % n, "short", 0, n, COMMITTED) for n in range(8)]
    records = [Record(0, n, b"k", b"%d" % n) for n in given]
    passed = Passed("short", "given", {0: said_lost}, {0: removed_below})
    return check(History(written, {"given": records}, passed=[passed]))


@pytest.mark.parametrize(
    ("given", "said_lost", "lost"),
    [
        (range(8), [], 0),
        (range(3, 8), [(0, 3)], 0),
        (range(3, 8), [(0, 2)], 1),
        (range(3, 8), [], 3),
        (range(6, 8), [(0, 6)], 1),  # two of these were still there
        ([0, 1, 2, 3, 3, 4, 5, 6, 7], [], 0),
    ],
)
def test_what_a_reader_lacks_of_a_topic_that_loses_records_it_said_was_lost_and_no_more(given, said_lost, lost):
    report = passing(given, said_lost)
    assert report.counts["lost"] == lost
    assert report.counts["doubled"] == (1 if list(given).count(3) == 2 else 0)


def test_at_least_once_may_repeat_a_record_and_may_not_lose_one(history):
    copies = [copy._replace(once=False) for copy in history.copies]
    records = history.logs[OUT]
    twice = [*records, *(record._replace(offset=record.offset + 100) for record in records)]
    assert found(replace(with_log(history, OUT, twice), copies=copies)) == set()
    assert "lost" in found(replace(with_log(history, OUT, twice[1 : len(records)]), copies=copies))


def test_a_record_that_a_producer_wrote_once_is_doubled_where_its_topic_has_it_twice(history):
    again = history.logs[IN][0]._replace(offset=1000)
    assert "doubled" in found(with_log(history, IN, [*history.logs[IN], again]))


def test_an_aborted_record_that_is_read_is_found_in_its_topic_and_in_copies(history):
    (aborted, _) = (each for each in history.written if each.outcome is ABORTED)
    for log in (IN, OUT, MIRROR):
        record = Record(aborted.partition, 1000, aborted.key, aborted.value, aborted.headers)
        assert "aborted" in found(with_log(history, log, [*history.logs[log], record]))


def test_a_value_that_nobody_wrote_is_found(history):
    for log in (IN, OUT, MIRROR):
        phantom = with_log(history, log, [*history.logs[log], Record(0, 1000, b"a", b"a-?")])
        assert found(phantom) - {"lost"} == {"unwritten"}  # in the topic it was not copied either


def test_two_records_of_a_key_that_changed_places_are_reordered(history):
    def swapped(log):
        first, second = (at for at, record in enumerate(log) if record.value in (b"a-0", b"a-2"))
        values = {first: log[second].value, second: log[first].value}
        return [record._replace(value=values.get(at, record.value)) for at, record in enumerate(log)]

    assert found(with_log(history, OUT, swapped(history.logs[OUT]))) == {"reordered"}


def test_records_of_two_keys_or_two_producers_have_no_order():
    written = [
        Written(producer, key, number, b"%s-%s-%d" % (producer.encode(), key, number), IN, 0, None, COMMITTED)
        for producer in "pq"
        for key in (b"a", b"b")
        for number in (0, 1)
    ]
    later = [each for each in written if each.number == 1]
    earlier = [each for each in written if each.number == 0]
    mixed = [*reversed(earlier), *later]
    records = [Record(0, at, each.key, each.value) for at, each in enumerate(mixed)]
    assert found(History(written, {IN: records})) == set()


def test_an_acknowledged_record_at_another_offset_or_partition_is_misplaced(history):
    first, *rest = history.logs[IN]
    for moved in (first._replace(offset=900), first._replace(partition=1, offset=900)):
        assert check(with_log(history, IN, [*rest, moved])).counts["misplaced"] >= 1


def test_a_copy_in_another_partition_than_promised_is_misplaced(history):
    for log in (OUT, MIRROR):
        first, *rest = history.logs[log]
        moved = first._replace(partition=1 - first.partition, offset=-1)
        assert "misplaced" in found(with_log(history, log, [moved, *rest]))


def test_a_key_in_two_partitions_is_misplaced_where_the_partitioner_is_not_known(history):
    copies = [copy._replace(partition_of=None) for copy in history.copies]
    assert found(replace(history, copies=copies)) == set()
    *rest, last = history.logs[OUT]
    moved = last._replace(partition=1 - last.partition, offset=900)
    assert "misplaced" in found(replace(with_log(history, OUT, [*rest, moved]), copies=copies))


def test_what_a_reader_gave_at_another_offset_than_the_topic_has_it_is_misplaced(history):
    copies = [*history.copies, Copy("follow", IN, "seen", once=True, same_partition=True, same_offset=True)]
    seen = list(history.logs[IN])
    assert found(replace(with_log(history, "seen", seen), copies=copies)) == set()
    seen[0] = seen[0]._replace(offset=77)
    assert found(replace(with_log(history, "seen", seen), copies=copies)) == {"misplaced"}


@pytest.mark.parametrize("log", [IN, OUT, MIRROR])
def test_another_key_is_found(history, log):
    *rest, last = history.logs[log]
    assert "altered" in found(with_log(history, log, [*rest, last._replace(key=b"z")]))


@pytest.mark.parametrize("log", [IN, MIRROR])
def test_headers_that_are_not_those_that_were_written_are_found(history, log):
    *rest, last = history.logs[log]
    assert "altered" in found(with_log(history, log, [*rest, last._replace(headers=())]))


def test_a_micro_batch_of_which_a_moment_of_rest_saw_a_part_is_torn(history):
    """Its records of one partition were visible, and those of the other were not."""
    whole = history.glimpses[-1].ends
    for ends in ({0: whole[0]}, {0: whole[0], 1: whole[1] - 1}):
        torn = Glimpse("atomic", 15, ends, {}, at_rest=True)
        assert found(replace(history, glimpses=[torn])) == {"torn"}
        assert found(replace(history, glimpses=[torn._replace(at_rest=False)])) == set()


def test_a_micro_batch_of_which_a_record_is_nowhere_is_torn_and_the_record_lost(history):
    records = history.logs[OUT][:-1]
    assert {"torn", "lost"} <= found(with_log(history, OUT, records))


def test_a_batch_that_no_moment_saw_at_all_is_whole(history):
    unseen = Glimpse("atomic", 15, {0: 0, 1: 0}, {}, at_rest=True)
    assert found(replace(history, glimpses=[unseen], batches=[Batch("atomic", 0, {0: (0, 4)})])) == set()


@given(histories, st.data())
def test_a_map_that_is_one_offset_too_high_skips_and_one_too_low_repeats(history, data):
    copied = {record.offset for record in history.logs[MIRROR] if record.partition == 0}
    asked = [each for each in history.translations if each.partition == 0 and each.target_offset in copied]
    if asked:
        one = data.draw(st.sampled_from(asked))
        too_high = replace(history, translations=[one._replace(target_offset=one.target_offset + 1)])
        assert found(too_high) == {"map skips"}
        too_low = one._replace(target_offset=one.target_offset - 1)
        repeats = too_low.target_offset in copied
        assert found(replace(history, translations=[too_low])) == ({"map repeats"} if repeats else set())
        assert found(replace(history, translations=[too_low._replace(exact=False)])) == set()


def test_a_map_may_lead_to_the_later_of_two_copies(history):
    """At least once: a batch that was written again lies behind its first copy."""
    copies = [copy._replace(once=False) for copy in history.copies]
    records = history.logs[MIRROR]
    shift = 100
    twice = [*records, *(record._replace(offset=record.offset + shift) for record in records)]
    again = [each._replace(target_offset=each.target_offset + shift) for each in history.translations]
    assert found(replace(with_log(history, MIRROR, twice), copies=copies, translations=again)) == set()
    beyond = Translation("mirror", 0, 0, shift + 1, exact=False)
    assert found(replace(with_log(history, MIRROR, twice), copies=copies, translations=[beyond])) == {"map skips"}


def test_a_group_that_is_ahead_of_what_was_copied_is_found(history):
    """Partition 0 of the source has keys a and c, which go to partition 1 of the copy."""
    one_visible = Glimpse("atomic", 15, {1: 1}, {0: 1})
    assert found(replace(history, glimpses=[one_visible])) == set()
    assert found(replace(history, glimpses=[one_visible._replace(committed={0: 2})])) == {"group ahead"}
    assert found(replace(history, glimpses=[one_visible._replace(committed={0: 2}), one_visible])) == {"group ahead"}


def test_a_wait_that_took_longer_than_promised_or_has_no_end_is_a_stall(history):
    assert found(replace(history, waits=[Wait("w", 100, 105, 5)])) == set()
    assert found(replace(history, waits=[Wait("w", 100, 106, 5)])) == {"stalled"}
    assert found(replace(history, waits=[Wait("w", 100, None, 5)])) == {"stalled"}


def test_all_findings_are_counted_and_the_first_are_told_with_their_place(history):
    report = check(with_log(history, OUT, []), most=3)
    assert report.counts["lost"] == len(history.logs[IN])
    assert len(report.findings["lost"]) == 3
    assert report.findings["lost"][0].text.startswith("in-0 offset 0: atomic did not copy b'a-0'")
    assert set(report.counts) == set(RULES)
    assert report.total == sum(report.counts.values())
