"""read_committed: what Fetch's list of aborted transactions hides. The expected rows follow Java's CompletedFetch."""

from __future__ import annotations

import pytest
from record_wire import TRANSACTIONAL, batch, marker, record

from kafkasource.errors import CorruptRecordBatch
from kafkasource.kafka.records.batches import decode, decode_all

RANGE = {"topic": "t", "partition": 0, "start_offset": 0, "end_offset": 1 << 62}


def sent(base_offset, producer_id, count=1, transactional=True, codec="none"):
    return batch(
        [record(i, value=b"%d" % producer_id) for i in range(count)],
        base_offset,
        attributes=TRANSACTIONAL if transactional else 0,
        producer=(producer_id, 0, base_offset),
        codec=codec,
    )


def offsets(data, aborted, **changes):
    decoded = decode(data, **{**RANGE, **changes}, aborted_transactions=aborted)
    return [o for arrow in decoded.batches for o in arrow["offset"].to_pylist()]


LOG = (
    sent(0, 1)
    + sent(1, 2, count=2)
    + sent(3, 1)
    + marker(4, 1, commit=False)
    + sent(5, 2)
    + marker(6, 2, commit=True)
    + sent(7, 1)
    + marker(8, 1, commit=True)
    + sent(9, 1, transactional=False)
)


@pytest.mark.parametrize("aborted", [None, (), []])
def test_control_batches_are_never_rows(aborted):
    assert offsets(LOG, aborted) == [0, 1, 2, 3, 5, 7, 9]


def test_an_aborted_transaction_is_hidden_up_to_its_marker_and_its_producer_goes_on():
    assert offsets(LOG, [(1, 0)]) == [1, 2, 5, 7, 9]


def test_a_control_batch_at_the_end_moves_the_next_offset():
    assert decode(marker(4, 1, commit=True), **{**RANGE, "start_offset": 4}).next_offset == 5


def test_a_fetch_from_the_middle_of_an_aborted_transaction_hides_its_rest():
    tail = LOG[len(sent(0, 1)) :]
    assert offsets(tail, [(1, 0)], start_offset=1) == [1, 2, 5, 7, 9]


def test_two_aborted_transactions_of_one_producer_are_told_apart():
    log = (
        sent(0, 1)
        + marker(1, 1, commit=False)
        + sent(2, 1)
        + marker(3, 1, commit=True)
        + sent(4, 1)
        + marker(5, 1, commit=False)
    )
    assert offsets(log, [(1, 0), (1, 4)]) == [2]
    assert offsets(log, [(1, 4), (1, 0)]) == [2]


def test_a_marker_of_a_later_version_ends_its_transaction_as_java_reads_it():
    """ControlRecordType.parse takes the type of any version, and refuses those below 0."""
    log = sent(0, 1) + marker(1, 1, commit=False, version=1) + sent(2, 1)
    assert offsets(log, [(1, 0)]) == [2]
    with pytest.raises(CorruptRecordBatch, match="a control record without its key"):
        offsets(sent(0, 1) + marker(1, 1, commit=False, version=-1), [(1, 0)])


def test_records_sent_outside_transactions_are_never_hidden():
    assert offsets(sent(0, 1, transactional=False), [(1, 0)]) == [0]


def test_pieces_hand_on_which_transactions_are_still_open():
    log = sent(0, 1, 50, codec="gzip") + marker(50, 1, commit=False) + sent(51, 2, 50, codec="gzip")
    log += sent(101, 1, 50, codec="gzip") + sent(151, 3, 50, codec="gzip") + marker(201, 1, commit=True)
    log += marker(202, 3, commit=False) + sent(203, 3, 50, codec="gzip")
    for limit in (600, 1200, 1 << 20):
        pieces = list(decode_all(log, **RANGE, aborted_transactions=[(1, 0), (3, 151)], max_decompressed_bytes=limit))
        found = [o for piece in pieces for arrow in piece.batches for o in arrow["offset"].to_pylist()]
        assert found == [*range(51, 151), *range(203, 253)]
        assert len(pieces) > 1 or limit > 1200


def test_an_aborted_batch_is_not_even_decompressed():
    broken = batch([record()], attributes=TRANSACTIONAL, producer=(1, 0, 0), codec="gzip", section=b"not gzip at all")
    assert offsets(broken, [(1, 0)]) == []
