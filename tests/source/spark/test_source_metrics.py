"""What the fetcher counts is what came over the wire and went to Spark, on brokers in this process."""

import pytest
from fetch_rig import ROWS_PER_BATCH, Rig, record_batch

from kafkasource import metrics
from kafkasource.errors import ConnectionLost, error_for
from kafkasource.kafka.fetch.fetcher import PartitionFetcher
from kafkasource.kafka.fetch.partition import LogBounds


@pytest.fixture
def counted():
    """`counted(metric)`: since the test began."""

    def now(metric):
        snapshot = metrics.process_counts().snapshot()
        if metric == "kafkasource_fetch_latency_seconds":
            return sum(snapshot.histograms.get((metric, ()), ((), 0.0))[0])
        return snapshot.counters.get((metric, ("t",)), 0)

    names = ("records_read_total", "bytes_read_total", "fetch_latency_seconds", "fetch_retries_total")
    before = {name: now(f"kafkasource_{name}") for name in (*names, "offsets_skipped_total")}
    return lambda name: now(f"kafkasource_{name}") - before[name]


def test_records_bytes_and_a_latency_for_each_fetch(counted):
    rig = Rig()
    assert len(rig.read(0, 100)) == 100
    assert counted("records_read_total") == 100
    assert counted("bytes_read_total") >= 100 // ROWS_PER_BATCH * len(record_batch(0))
    assert counted("fetch_latency_seconds") == len(rig.fetches())
    assert counted("fetch_retries_total") == 0


def test_a_range_within_a_batch_counts_only_its_records(counted):
    assert Rig().read(13, 17) == [13, 14, 15, 16]
    assert counted("records_read_total") == 4


def failing_once(monkeypatch, error):
    """Makes one answer of the rig's brokers an error."""
    rig = Rig()
    receive = PartitionFetcher._next_response
    left = [error]

    def next_response(self):
        if left:
            raise left.pop()
        return receive(self)

    monkeypatch.setattr(PartitionFetcher, "_next_response", next_response)
    return rig


def test_a_fetch_that_failed_is_one_retry(monkeypatch, counted):
    assert len(failing_once(monkeypatch, ConnectionLost("reset")).read(0, 20)) == 20
    assert counted("fetch_retries_total") == 1
    assert counted("records_read_total") == 20


def test_offsets_that_are_gone_are_counted_where_that_is_tolerated(monkeypatch, counted):
    rig = failing_once(monkeypatch, error_for(1))
    monkeypatch.setattr("kafkasource.kafka.fetch.partition.ClusterPartition.bounds", lambda self: LogBounds(40, 100))
    assert len(rig.read(0, 100, fail_on_data_loss=False)) == 60
    assert counted("offsets_skipped_total") == 40
