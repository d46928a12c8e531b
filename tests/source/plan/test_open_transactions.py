"""What a query is told of transactions that hold it back."""

import uuid

import confluent_kafka
import pytest

from kafkasource.errors import DeadlineExceeded
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.source.plan.open_transactions import OpenTransactions
from kafkasource.types import IsolationLevel
from kafkasource.types import TopicPartition as TP

T0, T1 = TP("t", 0), TP("t", 1)


class Logs:
    """Partitions as (last stable offset, high watermark), watched through a clock that the test moves."""

    def __init__(self, **logs):
        self.logs = {TP("t", int(name[1:])): ends for name, ends in logs.items()}
        self.now = 0.0
        self.asked = []
        self.watch = OpenTransactions(lambda: self.now)

    def high_watermarks(self, partitions):
        self.asked.append((self.now, partitions))
        return {tp: self.logs[tp][1] for tp in partitions}

    def run(self, seconds):
        """A listing a second."""
        for _ in range(seconds):
            self.watch.watch({tp: lso for tp, (lso, _) in self.logs.items()}, self.high_watermarks)
            self.now += 1


def test_an_offset_that_is_held_for_a_minute_is_told_once_with_both_ends_and_what_to_do(caplog):
    logs = Logs(p0=(5, 9), p1=(3, 3))
    logs.run(70)
    assert caplog.messages == []
    logs.run(600)
    (message,) = caplog.messages
    for part in ("t-0", "last stable offset has been 5", "high watermark (now 9)", "kafka-transactions.sh"):
        assert part in message
    assert "--topic t --partition 0 --start-offset 5" in message


def test_it_is_told_again_when_the_offset_moves_and_sticks_again(caplog):
    logs = Logs(p0=(5, 9))
    logs.run(100)
    logs.logs[T0] = (9, 12)
    logs.run(100)
    assert [message.count("has been 5") + 2 * message.count("has been 9") for message in caplog.messages] == [1, 2]


def test_a_transaction_that_opens_after_a_long_quiet_is_given_its_minute(caplog):
    logs = Logs(p0=(5, 5))
    logs.run(1000)
    logs.logs[T0] = (5, 9)
    logs.run(59)
    logs.logs[T0] = (9, 9)
    logs.run(300)
    assert caplog.messages == []


def test_nothing_is_asked_of_logs_that_move_and_once_a_minute_of_those_that_are_quiet():
    logs = Logs(p0=(0, 0), p1=(0, 0))
    for second in range(601):
        logs.logs[T0] = (second, second + 5)
        logs.run(1)
    assert {tp for _, asked in logs.asked for tp in asked} == {T1}
    assert len(logs.asked) == 10


def test_a_failed_question_never_fails_the_query(caplog):
    seconds = iter(range(200))
    watch = OpenTransactions(lambda: next(seconds))

    def fails(partitions):
        raise DeadlineExceeded("no leader")

    for _ in range(200):
        watch.watch({T0: 5}, fails)
    assert caplog.messages == []


@pytest.mark.broker
def test_a_transaction_left_open_on_a_broker_is_told_and_its_commit_ends_that(kafka_broker, kafka_topic, caplog):
    topic = kafka_topic(partitions=2)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka_broker.bootstrap_servers, "transactional.id": uuid.uuid4().hex}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(3):
        producer.produce(topic, value=b"%d" % number, partition=1)
    producer.flush(30)
    seconds = iter(range(0, 1000, 10))
    watch = OpenTransactions(lambda: next(seconds))
    with Cluster(ClientConfig.of(kafka_broker.bootstrap_servers)) as cluster:

        def ends(partitions, isolation_level=IsolationLevel.READ_UNCOMMITTED):
            listed = cluster.offsets.list(dict.fromkeys(partitions, -1), isolation_level)
            return {tp: one.offset for tp, one in listed.items()}

        both = [TP(topic, 0), TP(topic, 1)]
        for _ in range(12):
            watch.watch(ends(both, IsolationLevel.READ_COMMITTED), ends)
        (message,) = caplog.messages
        assert f"{topic}-1" in message
        assert "last stable offset has been 0" in message
        assert "high watermark (now 3)" in message
        producer.commit_transaction(30)
        for _ in range(20):
            watch.watch(ends(both, IsolationLevel.READ_COMMITTED), ends)
        assert len(caplog.messages) == 1
