"""A real broker ends each session after four seconds: clients renew it on the same connection, in the middle of work.

They do so after half of a session, not shortly before its end (`test_session` has these figures): else a busy machine
could be late, and the broker would close the connection, rightly.
"""

import itertools
import pickle
import threading
import time
import uuid
from contextlib import closing, suppress

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient, NewTopic
from link_events import watch_links
from pyspark.sql.types import BinaryType, StructField, StructType
from secured_brokers import SESSION_MS, confluent_properties
from transaction_fakes import FakeContext

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.group.member import GroupMember
from kafkasource.kafka.network import session
from kafkasource.kafka.network.connection import Connection
from kafkasource.kafka.network.states import LinkEvent
from kafkasource.options import parse
from kafkasource.reader import Reader
from kafkasource.sink import writer as writer_module
from kafkasource.sink.clusters import targets
from kafkasource.sink.writer import BatchWriter
from kafkasource.types import TopicPartition
from kafkasource.writer import Writer

pytestmark = pytest.mark.broker

SESSION_S, DEADLINE_S = SESSION_MS / 1000, 120
ENDS = (LinkEvent.LOST, LinkEvent.BROKER_CLOSED, LinkEvent.RENEWAL_LOST, LinkEvent.REFUSED, LinkEvent.ATTEMPT_FAILED)
SCHEMA = StructType([StructField("value", BinaryType())])


class Renewals:
    def __init__(self):
        self.renewed = []  # the connections, once for each time
        self._ended = []  # the port, and how a connection ended that the client did not close itself

    def ended(self, secured):
        """Of this cluster's listener: clients that other tests have left may still look for brokers that are gone."""
        ports = {int(address.rpartition(":")[2]) for address in secured.bootstrap_servers("REAUTH").split(",")}
        return [event for port, event in self._ended if port in ports]


@pytest.fixture
def renewals(monkeypatch):
    """What all clients of this process do."""
    seen = Renewals()
    monkeypatch.setattr(session, "_FIRST", 0.5)
    monkeypatch.setattr(session, "_SPREAD", 0.0)
    again = Connection.authenticate_again

    def authenticate_again(connection, authentication):
        seen.renewed.append(connection)
        return again(connection, authentication)

    def on(link, event, error):
        if event in ENDS:
            seen._ended.append((link.port, event))

    monkeypatch.setattr(Connection, "authenticate_again", authenticate_again)
    watch_links(monkeypatch, on)
    return seen


def options_of(secured, mechanism, **more):
    given = secured.client_properties("REAUTH", mechanism, "alice")
    return {f"kafka.{name}": text for name, text in given.items()} | more


def committed(secured, topic, count):
    """As librdkafka reads it."""
    theirs = {**confluent_properties(secured, "SASL_SSL", "PLAIN", "alice"), "group.id": "g", "log_level": 0}
    with closing(confluent_kafka.Consumer({**theirs, "isolation.level": "read_committed"})) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        found = consumer.consume(count, timeout=60)
        found += consumer.consume(1, timeout=1)  # what is there twice
    return [int(message.value()) for message in found]


class EndOfNumbers(Exception):
    pass


class Numbers:
    """Small batches of numbers, some hundred a second, until sessions have been renewed often enough."""

    def __init__(self, renewed):
        self._renewed, self.start_s = renewed, time.monotonic()
        self.written = 0  # by those that have ended

    def _enough(self):
        passed_s = time.monotonic() - self.start_s
        return passed_s > DEADLINE_S or (len(self._renewed) >= 12 and passed_s > 2.5 * SESSION_S)

    def batches(self):
        for first in itertools.count(0, 10):
            if self._enough():
                self.written = first
                return
            yield pa.record_batch({"value": [b"%d" % number for number in range(first, first + 10)]})
            time.sleep(0.02)  # else it is a test of speed


def write(secured, topic, numbers):
    with Writer(options_of(secured, "PLAIN", topic=topic, createTopic="partitions=1")) as writer:
        for batch in numbers.batches():
            writer.write(batch)


def write_once(secured, topic, numbers):
    """All in one transaction, as Spark calls the writer."""
    given = {"deliveryGuarantee": "exactly_once", "transactionalIdPrefix": topic, "createTopic": "partitions=1"}
    writer = BatchWriter(targets.parse(options_of(secured, "SCRAM-SHA-512", topic=topic, **given)), SCHEMA)
    message = pickle.loads(pickle.dumps(writer)).write(numbers.batches())
    writer.commit([message])


def follow(secured, topic, numbers, writers):
    """The numbers that a reader gets, until the writers have ended and it has all."""
    followed = []

    def rest(seconds):
        """The reader has all that is there."""
        if not any(thread.is_alive() for thread in writers) and len(followed) >= numbers.written:
            raise EndOfNumbers
        assert time.monotonic() - numbers.start_s < 2 * DEADLINE_S
        time.sleep(seconds)

    with Reader(options_of(secured, "SCRAM-SHA-512", subscribe=topic, startingOffsets="earliest")) as reader:
        while topic not in [found.name for found in reader.cluster.topics.list()]:
            assert time.monotonic() - numbers.start_s < DEADLINE_S
        with suppress(EndOfNumbers):
            for batch in reader.follow(poll_s=0.01, sleep=rest):
                followed += map(int, batch.column("value").to_pylist())
    return followed


def test_sessions_are_renewed_on_the_same_connections_and_no_record_is_lost_doubled_or_moved(
    each_secured_broker, renewals, monkeypatch
):
    """A writer, a reader that follows it, and a transaction that is open over two sessions, all at once."""
    secured, topic, once = each_secured_broker.secured, *(f"t-{uuid.uuid4().hex[:10]}" for _ in range(2))
    monkeypatch.setattr(writer_module.TaskContext, "get", lambda: FakeContext())  # type: ignore[attr-defined]
    plain, in_transaction = Numbers(renewals.renewed), Numbers(renewals.renewed)
    writers = [
        threading.Thread(target=write, args=(secured, topic, plain)),
        threading.Thread(target=write_once, args=(secured, once, in_transaction)),
    ]
    for thread in writers:
        thread.start()
    followed = follow(secured, topic, plain, writers)
    for thread in writers:
        thread.join()
    assert followed == list(range(plain.written))
    assert committed(secured, topic, plain.written) == followed
    assert committed(secured, once, in_transaction.written) == list(range(in_transaction.written))
    assert len(renewals.renewed) >= 12
    assert time.monotonic() - plain.start_s > 2.5 * SESSION_S
    assert renewals.ended(secured) == []


class Theirs:
    """A member of librdkafka's, which keeps its partitions and holds up a rebalance while nobody polls it."""

    def __init__(self, servers, group, topic):
        given = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
        given |= {"partition.assignment.strategy": "range", "enable.auto.commit": False, "heartbeat.interval.ms": 200}
        self._consumer = confluent_kafka.Consumer(given)
        self._consumer.subscribe([topic])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._consumer.close()

    @property
    def share(self):
        """After a poll."""
        self._consumer.poll(0.05)
        return {(each.topic, each.partition) for each in self._consumer.assignment()}

    def commit(self, offset):
        where = [confluent_kafka.TopicPartition(*each, offset) for each in self.share]
        self._consumer.commit(offsets=where, asynchronous=False)


def wait_for(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline


def test_a_member_joins_though_its_session_ends_while_the_coordinator_holds_its_join_group(
    each_secured_broker, renewals
):
    """The coordinator answers the JoinGroup after the session's end. The member then logs in again, and goes on."""
    secured, topic = each_secured_broker.secured, f"t-{uuid.uuid4().hex[:10]}"
    servers, group = secured.bootstrap_servers("PLAINTEXT"), f"{topic}-group"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 4)])[topic].result(60)
    given = parse(options_of(secured, "SCRAM-SHA-512"), "source")

    def state():
        return admin.describe_consumer_groups([group])[group].result(60).state

    with Theirs(servers, group, topic) as theirs, Cluster(ClientConfig.from_options(given)) as cluster:
        wait_for(lambda: len(theirs.share) == 4)
        theirs.commit(5)
        with GroupMember(cluster, group, [topic], assignors=["range"], heartbeat_interval_ms=200) as ours:
            wait_for(lambda: state() is ConsumerGroupState.PREPARING_REBALANCING)  # it holds our JoinGroup now
            time.sleep(SESSION_S + 0.5)  # of the broker's clock
            assert (state(), ours.joined) == (ConsumerGroupState.PREPARING_REBALANCING, False)
            assert renewals.renewed == []
            changes = []
            wait_for(lambda: len(theirs.share) == 2 and (changes.append(ours.poll(0.05)) or ours.joined))
            wait_for(lambda: changes.append(ours.poll(0.05)) or len(ours.assignment) == 2)
            mine, others = ours.assignment, {TopicPartition(*each) for each in theirs.share}
            assert len(mine | others) == 4
            assert cluster.groups.committed_offsets(group, mine) == dict.fromkeys(mine, 5)
            ours.commit(dict.fromkeys(mine, 6))
            assert len(renewals.renewed) >= 1
            assert not any(each.lost or each.revoked for each in changes)
    assert renewals.ended(secured) == []
    with Cluster(ClientConfig.of(servers)) as cluster:
        expected = dict.fromkeys(mine, 6) | dict.fromkeys(others, 5)
        assert cluster.groups.committed_offsets(group, expected) == expected
