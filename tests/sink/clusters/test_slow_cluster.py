"""When a cluster that does not block is waited for, and when something is done about it."""

import pytest
from sink_fakes import FakeClock

from kafkasource.sink.clusters.deliveries import Ledger
from kafkasource.sink.clusters.slow_cluster import Health, Queue, QueueStep, excess, step
from kafkasource.types import Discarded, TopicPartition, Written


def queue(size, silent_ms=0.0, patience_ms=1000.0, allowance_ms=0.0):
    return Queue(size, 50, 100, silent_ms, patience_ms, allowance_ms)


@pytest.mark.parametrize(
    ("own", "others", "wanted"),
    [
        (queue(100, silent_ms=9e9), [], QueueStep.GO_ON),  # at the high watermark, not above
        (queue(101), [], QueueStep.WAIT),  # alone it holds up nobody
        (queue(101), [queue(51)], QueueStep.WAIT),  # the others have something to send
        (queue(101), [queue(51), queue(0)], QueueStep.WAIT),  # one has
        (queue(101), [queue(50), queue(0)], QueueStep.ACT),
        (queue(101, allowance_ms=1), [queue(50), queue(0)], QueueStep.HOLD_UP),
        (queue(101, silent_ms=1000, allowance_ms=1), [queue(50)], QueueStep.ACT),
        (queue(101, silent_ms=1000), [queue(100)], QueueStep.ACT),
        (queue(101, silent_ms=999), [queue(101)], QueueStep.WAIT),
        (queue(101, patience_ms=0), [queue(100)], QueueStep.ACT),  # known to be dead
    ],
)
def test_who_is_above_the_high_watermark_is_waited_for_unless_it_holds_up_the_others(own, others, wanted):
    assert step(own, others) is wanted


def test_what_is_dropped_is_all_above_the_low_watermark():
    assert excess(queue(130)) == 80
    assert excess(queue(20)) == 0


def test_a_cluster_is_silent_from_when_an_answer_was_due():
    clock = FakeClock()
    health = Health(1000, clock)
    clock.now_ms += 60_000  # nothing was sent
    health.handed_over(100, nothing_before=True)  # a batch lingers for so long
    assert health.silent_ms == -100
    clock.now_ms += 1100
    health.handed_over(100, nothing_before=False)
    assert health.silent_ms == 1000
    health.answered()
    assert health.silent_ms == 0
    health.handed_over(60_000, nothing_before=True)
    health.flushed()
    clock.now_ms += 10
    assert health.silent_ms == 10


def test_a_batch_that_lingered_for_longer_than_an_answer_may_take_owes_none_when_it_is_sent_at_last():
    clock = FakeClock()
    health = Health(1000, clock)
    health.handed_over(60_000, nothing_before=True)
    health.answered()  # another batch was full, and went before it
    clock.now_ms += 5000
    health.flushed()
    assert health.silent_ms == 0


def test_a_dead_cluster_is_waited_for_once_in_ten_times_as_long_or_when_it_answers():
    clock = FakeClock()
    health = Health(1000, clock)
    assert (health.dead, health.patience_ms) == (False, 1000)
    health.waited_in_vain()
    assert (health.dead, health.patience_ms) == (True, 0)
    clock.now_ms += 9_999
    health.handed_over(0, nothing_before=False)
    assert health.dead
    clock.now_ms += 5_000
    assert not health.dead
    assert health.silent_ms > 10_000
    health.handed_over(0, nothing_before=False)  # what was sent long ago may still be under way
    assert health.silent_ms == 0
    health.waited_in_vain()
    health.answered()
    assert not health.dead


def test_the_log_tells_once_that_a_cluster_is_gone_and_that_it_is_back(caplog):
    health = Health(1000, FakeClock(), "west")
    health.waited_in_vain()
    health.waited_in_vain()
    health.answered()
    health.answered()
    assert [record.message for record in caplog.records] == [
        "cluster 'west' acknowledged nothing for 1000 ms: not waited for",
        "cluster 'west' answers again",
    ]


def test_others_may_be_held_up_for_a_while_and_then_for_a_tenth_of_the_time():
    clock = FakeClock()
    health = Health(1000, clock)
    clock.now_ms += 60_000
    assert health.allowance_ms == 1000
    health.held_up(1030)
    assert health.allowance_ms == -30
    clock.now_ms += 500
    assert health.allowance_ms == 20


def test_what_was_handed_over_and_not_acknowledged_was_discarded():
    ledger, tp = Ledger(), TopicPartition
    ledger.hand_over("t", {0: 4, 1: 1}, 10.0)
    ledger.hand_over("t", {0: 6}, 20.0)
    ledger.hand_over("u", {0: 3}, 5.0)
    written = {tp("t", 0): Written(5, 999), tp("u", 0): Written(3, 999)}
    assert ledger.discarded(written) == {tp("t", 0): Discarded(5, 80), tp("t", 1): Discarded(1, 10)}
