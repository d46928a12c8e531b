"""What the driver asks the cluster, and how often."""

import uuid

import pytest
from fake_cluster import FakeCluster

from kafkasource import options
from kafkasource.errors import ConnectionLost, DeadlineExceeded, TopicAuthorizationFailed
from kafkasource.source.offset_reader import OffsetReader
from kafkasource.source.offsets import StreamOffset
from kafkasource.source.subscription import parse_subscription
from kafkasource.types import TopicPartition as TP

T0, T1, T2 = (TP("t", number) for number in range(3))


class Sleeps(list):
    """Instead of sleeping: how long was asked for, in seconds; and what happens meanwhile."""

    meanwhile = staticmethod(lambda: None)

    def __call__(self, seconds):
        self.append(seconds)
        self.meanwhile()


def reader(cluster, sleep=None, **given):
    subscription = {} if {"subscribePattern", "assign"} & given.keys() else {"subscribe": "t"}
    given = {"kafka.bootstrap.servers": "nowhere:1"} | subscription | given
    parsed = options.parse(given, "source")
    made = OffsetReader.from_options(cluster, parse_subscription(parsed), parsed)
    made._sleep = sleep if sleep is not None else Sleeps()
    return made


def test_ends_of_logs_come_with_the_epochs_of_the_leaders_that_told_them():
    cluster = FakeCluster(t=[(0, 5), (2, 9)])
    cluster.epochs = {T0: 3}
    assert reader(cluster).latest([T0, T1]) == ({T0: 5, T1: 9}, {T0: 3})


def test_a_log_that_ends_below_what_was_read_is_asked_again_until_it_does_not():
    cluster, sleep = FakeCluster(t=[(0, 3)]), Sleeps()
    sleep.meanwhile = lambda: cluster.logs.update(t=[(0, 8)])
    found = reader(cluster, sleep, **{"fetchOffset.retryIntervalMs": "700"}).latest([T0], known={T0: 8})
    assert found.offsets == {T0: 8}
    assert sleep == [0.7]


@pytest.mark.parametrize("attempts", [1, 3, 4])
def test_a_log_that_stays_backwards_is_taken_as_it_is_after_the_last_attempt(attempts):
    cluster, sleep = FakeCluster(t=[(0, 3)]), Sleeps()
    asked = reader(cluster, sleep, **{"fetchOffset.numRetries": str(attempts)})
    assert asked.latest([T0], known={T0: 8}).offsets == {T0: 3}
    assert len(cluster.listed) == attempts
    assert sleep == [1.0] * (attempts - 1)  # the JVM connector's default


def test_a_failure_that_may_pass_is_asked_again_and_then_succeeds_or_is_raised():
    # KafkaOffsetReaderSuite: three attempts, of which the third succeeds, or whose last error is thrown.
    cluster = FakeCluster(t=[(0, 3)])
    cluster.errors = [ConnectionLost("first"), ConnectionLost("second")]
    assert reader(cluster).earliest([T0]) == {T0: 0}
    cluster.errors = [ConnectionLost("first"), ConnectionLost("second"), ConnectionLost("third")]
    with pytest.raises(ConnectionLost, match="third"):
        reader(cluster).earliest([T0])


@pytest.mark.parametrize("error", [DeadlineExceeded("60 s"), TopicAuthorizationFailed(29, "t")])
def test_what_will_not_pass_is_raised_at_once(error):
    cluster, sleep = FakeCluster(t=[(0, 3)]), Sleeps()
    cluster.errors = [error]
    with pytest.raises(type(error)):
        reader(cluster, sleep).latest([T0])
    assert not sleep


def test_a_partition_that_was_deleted_meanwhile_is_missing_in_every_answer():
    cluster = FakeCluster(t=[(0, 5), (2, 9)])
    asked = reader(cluster)
    assert asked.earliest([T0, T1, T2]) == {T0: 0, T1: 2}
    assert asked.latest([T0, T2]).offsets == {T0: 5}
    assert asked.offsets_for_times({T2: 1000}) == {}
    assert asked.epoch_ends({T1: 0, T2: 0}) == {T1: 9}


def test_an_offset_by_time_is_the_first_record_not_older_or_none():
    cluster = FakeCluster(t=[(0, 3), (0, 3)])
    cluster.timestamps = {T0: [1000, 2000, 3000], T1: [10, 20, 30]}
    assert reader(cluster).offsets_for_times({T0: 1001, T1: 1001}) == {T0: 1, T1: None}


def test_where_a_group_stands_is_none_where_it_committed_nothing():
    cluster = FakeCluster(t=[(0, 3), (0, 3)])
    cluster.committed = {("g", T0): 2, ("other", T1): 1}
    assert reader(cluster).committed("g", [T0, T1]) == {T0: 2, T1: None}


def test_an_epoch_that_the_leader_does_not_know_says_nothing():
    cluster = FakeCluster(t=[(0, 5)])
    cluster.ends_of_epochs = {(T0, 7): None}
    assert reader(cluster).epoch_ends({T0: 7}) == {}


def test_a_partition_read_already_is_not_believed_gone_because_one_broker_lags_behind():
    cluster, sleep = FakeCluster(t=[(0, 5)]), Sleeps()
    sleep.meanwhile = lambda: cluster.logs.update(t=[(0, 5), (0, 5)])
    assert reader(cluster, sleep).assigned(StreamOffset({T0: 1, T1: 1})) == {T0, T1}
    assert sleep == [1.0]


def test_another_topic_id_is_not_believed_because_one_broker_lags_behind():
    cluster, sleep, topic_id = FakeCluster(t=[(0, 5)]), Sleeps(), uuid.uuid4()
    cluster.topic_ids["t"] = uuid.uuid4()
    sleep.meanwhile = lambda: cluster.topic_ids.update(t=topic_id)
    assert reader(cluster, sleep).assigned(StreamOffset({T0: 1}, {"t": topic_id})) == {T0}
    assert sleep == [1.0]


@pytest.mark.parametrize("subscription", [{"subscribePattern": "t"}, {"assign": '{"t":[0,1]}'}, {"subscribe": "t"}])
def test_a_partition_that_stays_gone_is_believed_gone(subscription):
    cluster, sleep = FakeCluster(t=[(0, 5)]), Sleeps()

    assert reader(cluster, sleep, **subscription).assigned(StreamOffset({T0: 1, T1: 1})) == {T0}
    assert sleep == [1.0, 1.0]


def test_a_partition_that_is_not_subscribed_any_more_is_not_asked_for_again():
    sleep = Sleeps()
    assert reader(FakeCluster(t=[(0, 5)]), sleep).assigned(StreamOffset({T0: 1, TP("left", 0): 1})) == {T0}
    assert not sleep


def test_high_watermarks_are_those_of_readers_without_transactions():
    cluster = FakeCluster(t=[(0, 5)])
    assert reader(cluster, **{"kafka.isolation.level": "read_committed"}).high_watermarks([T0]) == {T0: 5}
    assert cluster.isolation_levels == {"read_uncommitted"}
