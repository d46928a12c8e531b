"""The sender's counters match what it did, on a client with a prepared answer for each request."""

import pytest
from sink_fakes import T0, T1, Rig

from kafkasource import metrics

NOT_LEADER, TOO_LARGE = 6, 10


@pytest.fixture
def counted(request):
    """`counted(metric)` since the test began, under a cluster's name that no other test has; and that name."""
    cluster = request.node.name

    def count(metric):
        snapshot = metrics.process_counts().snapshot()
        if metric in ("kafkasource_produce_latency_seconds",):
            return snapshot.histograms[metric, (cluster,)]
        return snapshot.counters.get((metric, (cluster, "t")), 0)

    return count


@pytest.fixture
def rig(request):
    return lambda **settings: Rig(cluster_name=request.node.name, **settings)


def test_records_bytes_and_latency_of_what_is_acknowledged(rig, counted):
    rig = rig()
    delivery = rig.sender.begin()
    rig.append(delivery, T0, count=10)
    _, sent = rig.send(T1, count=5, delivery=delivery)
    rig.clock.now_ms += 30
    rig.answer(sent)
    assert counted("kafkasource_records_written_total") == 15
    assert counted("kafkasource_bytes_written_total") == sum(len(batch) for batch in sent.batches.values())
    counts, total = counted("kafkasource_produce_latency_seconds")
    assert (sum(counts), total) == (1, pytest.approx(0.03))


def test_a_batch_sent_again_is_one_retry_and_its_records_count_once(rig, counted):
    rig = rig()
    _, first = rig.send(count=3)
    rig.answer(first, codes=NOT_LEADER)
    rig.clock.now_ms += rig.config.retry_backoff_ms
    (second,) = rig.turn()
    rig.answer(second)
    assert counted("kafkasource_produce_retries_total") == 1
    assert counted("kafkasource_records_written_total") == 3


def test_a_batch_that_is_too_large_is_one_split(rig, counted):
    rig = rig()
    _, sent = rig.send(count=30)
    rig.answer(sent, codes=TOO_LARGE)
    assert counted("kafkasource_batches_split_total") == 1
    assert counted("kafkasource_produce_retries_total") == 0


@pytest.mark.parametrize("leader", [1, None])
def test_a_batch_that_is_too_late_is_one_expired_in_flight_and_waiting(leader, rig, counted):
    rig = rig(leaders={T0: leader, T1: 1}, delivery_timeout_ms=1000)
    rig.append(rig.sender.begin(), T0)
    sent = rig.turn()
    rig.clock.now_ms += 1000
    if sent:
        sent[0].answer(codes={T0: NOT_LEADER})
    rig.turn()
    assert counted("kafkasource_batches_expired_total") == 1
    assert counted("kafkasource_records_written_total") == 0
