"""Fetches over lines that carry little: the real fetcher and client, in the network's own time.

A line carries `mbit` to all connections together; the task uses records up at once, so its fetches grow as large as
they may. A connection that is opened anew has lost a fetch to `request.timeout.ms`.
"""

import pytest
from fetch_rig import fetch_settings
from thin_line import BigLog, ThinNet, WindowNet

from kafkasource.errors import DeadlineExceeded, RequestTimeout
from kafkasource.kafka.fetch.budget import FetchBudget
from kafkasource.kafka.fetch.fetcher import PartitionFetcher
from kafkasource.kafka.fetch.line import LEAST_BYTES, Bandwidth
from kafkasource.kafka.fetch.partition import ClusterPartition
from kafkasource.kafka.fetch.planned_log import PlannedLog
from kafkasource.kafka.fetch.task import in_order
from kafkasource.types import OffsetRange, TopicPartition

MIB = 1 << 20
MBIT = 125_000  # bytes per second
BATCH_BYTES = 16_000  # about; ten records each
UNHARMED = 2  # connections: the bootstrap server's and the broker's


def read(net, *sizes, cluster=None, spark_s=0.0, **given):
    """Read so many offsets of each partition, as one task, of which Spark takes `spark_s` over each batch; the seconds
    that it took."""
    settings = fetch_settings(**given)
    cluster = cluster or net.cluster()
    ranges = [OffsetRange(TopicPartition("t", n), 0, size) for n, size in enumerate(sizes)]
    partitions = [(one, ClusterPartition(cluster, PlannedLog(cluster, one), settings)) for one in ranges]
    budget = FetchBudget(settings)

    def sleep(seconds):
        net.now += seconds

    fetchers = [PartitionFetcher(one, settings, each, budget, lambda: net.now, sleep) for one, each in partitions]
    begun = net.now
    rows = 0
    for batch in in_order(fetchers, lambda: net.now):
        rows += batch.num_rows
        sleep(spark_s)
    assert rows == sum(sizes)
    return net.now - begun


def a_log_of(megabytes):
    """A log, and the offsets that it has."""
    batches = megabytes * 1_000_000 // BATCH_BYTES
    return BigLog(batches), 10 * batches


@pytest.mark.parametrize(("mbit", "megabytes"), [(2, 50), (1, 20), (0.4, 10)])
def test_a_thin_line_is_read_as_fast_as_one_fetch_at_a_time_and_without_a_timeout(mbit, megabytes):
    took = {}
    for read_ahead in (1, 8):
        log, offsets = a_log_of(megabytes)
        net = ThinNet(log, mbit * MBIT)
        took[read_ahead] = read(net, offsets, read_ahead=read_ahead)
        assert len(net.opened) == UNHARMED
    assert took[8] <= took[1]
    assert took[8] <= 1.1 * megabytes * 8 / mbit


def test_a_line_too_thin_for_one_fetch_of_the_ordinary_size_costs_one_timeout():
    log, offsets = a_log_of(5)
    net = ThinNet(log, 0.2 * MBIT)
    assert read(net, offsets) <= 1.1 * 5 * 8 / 0.2 + 31
    assert len(net.opened) == UNHARMED + 1
    assert max(net.sizes()[1:]) <= 0.2 * MBIT * 30 / 2


@pytest.mark.parametrize("mbit", [2, 1])
def test_ranges_begun_together_before_anything_is_known_of_the_line_fit_into_it(mbit):
    net = ThinNet(BigLog(62, partitions=12), mbit * MBIT)
    took = read(net, *[620] * 12)  # rather a MB each
    assert len(net.opened) == UNHARMED
    assert took <= 1.15 * 12 * 62 * BATCH_BYTES / (mbit * MBIT)


@pytest.mark.parametrize("mbit", [2, 1])
def test_answers_that_wait_for_their_turn_leave_no_crumbs_to_the_range_that_is_read(mbit):
    """All leaders are known, so fetches of later ranges are answered long before the task gets to them."""
    net = ThinNet(BigLog(62, partitions=12), mbit * MBIT)
    cluster = net.cluster()
    cluster.topics.describe(["t"])
    for number in range(12):
        cluster.leaders.of(TopicPartition("t", number))
    took = read(net, *[620] * 12, cluster=cluster)
    assert len(net.opened) == UNHARMED
    assert took <= 1.25 * 12 * 62 * BATCH_BYTES / (mbit * MBIT)


def test_small_ranges_are_begun_together_before_anything_is_known_of_the_line():
    """Each of them a round trip would be 20 of them; so it is 3, as many as 8 at a time take."""
    net = ThinNet(BigLog(1, value_bytes=100, partitions=20), 10_000 * MBIT, round_trip_s=0.1)
    cluster = net.cluster()
    cluster.topics.describe(["t"])
    cluster.leaders.of(TopicPartition("t", 0))
    assert read(net, *[10] * 20, cluster=cluster) < 0.5


def test_fetches_grow_again_when_the_line_does():
    log, offsets = a_log_of(60)
    net = ThinNet(log, 1 * MBIT)
    net.later(60, lambda: setattr(net, "bytes_per_s", 1000 * MBIT))
    read(net, offsets, max_partition_bytes=MIB)
    thin = sum(size < 2 * MIB for size in net.sizes())
    assert net.sizes()[-3:] == [8 * MIB] * 3
    assert len(net.sizes()) - thin <= 60 // 8 + 4


def test_a_line_that_becomes_thin_costs_one_timeout():
    log, offsets = a_log_of(40)
    net = ThinNet(log, 100 * MBIT)
    net.later(1.2, lambda: setattr(net, "bytes_per_s", 1 * MBIT))
    took = read(net, offsets, max_partition_bytes=MIB)
    assert max(net.sizes()) == 8 * MIB
    assert len(net.opened) <= UNHARMED + 1
    assert took <= 1.1 * 40 * 8 / 1 + 31


def test_a_long_thick_line_is_filled_from_the_second_fetch_on():
    log, offsets = a_log_of(50)
    net = ThinNet(log, 1000 * MBIT, round_trip_s=0.15)
    seconds = read(net, offsets, max_partition_bytes=MIB)
    assert seconds <= 50 * 8 / 1000 + 9 * 0.15 + 1  # a round trip for each 8 MiB, and the first ones
    assert net.sizes()[2:] == [8 * MIB] * len(net.sizes()[2:])


def test_the_next_task_knows_the_line_already():
    log, offsets = a_log_of(5)
    net = ThinNet(log, 0.2 * MBIT)
    cluster = net.cluster()
    read(net, offsets, cluster=cluster)
    before = len(net.opened)
    read(net, offsets, cluster=cluster)
    assert len(net.opened) == before


def test_a_batch_that_the_line_cannot_carry_in_time_is_an_error_that_says_what_to_do():
    net = ThinNet(BigLog(3, value_bytes=5_000_000, rows=1), 1 * MBIT)  # 40 s for each batch
    with pytest.raises(DeadlineExceeded, match=r"first record batch that is larger comes whole") as error:
        read(net, 3)
    assert "'kafka.request.timeout.ms'" in str(error.value)
    assert "t-0" in str(error.value)
    assert read(net, 3, poll_timeout_ms=200_000, cluster=net.cluster(request_timeout_ms=60_000)) <= 3 * 41


# What a line is known by.


def line(speed=None):
    found = Bandwidth(request_timeout_s=30)
    if speed is not None:
        found.came(speed, speed, took_s=1, waited_s=1)
    return found


def test_a_third_of_the_requests_time_is_what_may_be_under_way():
    assert line().carries_bytes is None
    assert line(speed=100_000).carries_bytes == 1_000_000
    assert line(speed=1).carries_bytes == LEAST_BYTES


@pytest.mark.parametrize(("size", "waited_s"), [(10, 60), (1000, 1)], ids=["nothing was there", "the task was slow"])
def test_an_answer_that_was_slow_for_another_reason_does_not_make_the_line_thin(size, waited_s):
    for known in (None, 100_000):
        found = line(known)
        before = found.carries_bytes
        found.came(size, asked_bytes=1000, took_s=60, waited_s=waited_s)
        assert found.carries_bytes == before


def test_a_line_that_seems_faster_is_believed_step_by_step():
    found = line(speed=100_000)
    found.came(100, 1000, took_s=0, waited_s=0)
    assert found.carries_bytes == 2_000_000


def test_a_timeout_halves_what_may_be_under_way_or_takes_what_had_come():
    error, other = RequestTimeout("late"), RequestTimeout("late again")
    found = line(speed=100_000)
    found.timed_out(800_000, error)
    found.timed_out(800_000, error)  # of another fetch on the same connection
    assert found.carries_bytes == 400_000
    other.received_bytes = 300_000
    found.timed_out(400_000, other)
    assert found.carries_bytes == 100_000


def test_what_fetches_side_by_side_ask_for_is_bounded_by_the_line():
    budget = FetchBudget(fetch_settings(max_partition_bytes=MIB, read_ahead=8, most_fetch_bytes=50 * MIB))
    budget.used_up(100 * MIB, 1.0)
    for _ in range(8):
        if budget.may_begin(2 * MIB):
            budget.sent(budget.next_size(9.0, 2 * MIB))
    assert budget.in_flight_bytes <= 2 * MIB


def test_while_spark_has_the_rows_the_time_of_no_fetch_runs():
    """A mirror to a slow target, say: the answers for the task's other ranges wait in sockets that nobody reads."""
    asked = []
    for spark_s in (1.0, 40.0):
        net = WindowNet(BigLog(62, partitions=8), 256 << 10)
        read(net, *[620] * 8, spark_s=spark_s)
        assert len(net.opened) == UNHARMED
        asked.append(net.sizes())
    assert asked[0] == asked[1]
