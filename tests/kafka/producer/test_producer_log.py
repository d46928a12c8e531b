"""A record can be followed from the task's hands to its acknowledgement by the words of the Java producer's log."""

import logging
import re

import plain_producer
import pytest
from fake_broker import CLOSE, Error, FakeKafka, Request, serve

from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.metadata import Metadata
from kafkasource.kafka.producer import log as producer_log
from kafkasource.kafka.protocol.apis import METADATA, PRODUCE

SECRET = b"what the record holds"


def written_with(kafka, pieces=(1,), **written):
    """Write pieces of rows, each once the one before is acknowledged."""
    with serve(kafka) as address:
        servers = "{}:{}".format(*address)
        producer = plain_producer.producer(servers, **{"kafka.linger.ms": "0"} | written)
        try:
            for count in pieces:
                with producer.delivery() as delivery:
                    plain_producer.append(producer, delivery, "test", [SECRET] * count)
        finally:
            producer.close()


def assert_in_order(messages, *patterns):
    rest = iter(messages)
    for pattern in patterns:
        if not any(re.search(pattern, message) for message in rest):
            raise AssertionError(f"no {pattern!r} at its place in\n" + "\n".join(messages))


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.DEBUG, "kafkasource")
    return caplog


def test_one_record_is_followed_from_the_metadata_to_its_offset(log):
    """The stations, and their order, of the Java producer's log at TRACE."""
    written_with(FakeKafka(topics={"test": 1}))
    assert_in_order(
        log.messages,
        r"^Starting the Kafka producer",
        r"^Requesting metadata update for topic test",
        r"^Waking up Sender thread for metadata update",
        r"^Sending metadata request \{topics=\['test'\]\} to node -?1",
        r"^Updated cluster metadata version \d+ to Cluster\(.*nodes = \[127.0.0.1:\d+ \(id: 1 rack: None\)\], "
        r"partitions = \[Partition\(topic = test, partition = 0, leader = 1, replicas = \[1\], isr = \[1\]\)\]\)",
        r"^Sending records to topic test: 1 to test-0",
        r"^Allocating a new \d+ byte message buffer for topic test partition 0",
        r"^Waking up the sender since topic test partition 0 is either full or getting a new batch",
        r"^Drained batch test-0: 1 records in \d+ bytes",
        r"^Assigned producerId 1 and producerEpoch 0 to batch with base sequence 0 being sent to partition test-0",
        r"^Nodes with data ready to send: \[127\.0\.0\.1:\d+ \(node 1\)\]",
        r"^Created 1 produce requests: \[\(transactionalId=None, acks=-1, timeout=\d+, \{test-0: \d+ bytes\}\)\]",
        r"^Sent produce request to node 1",
        r"^Received produce response from node 1",
        r"^Produced messages to topic-partition test-0 with base offset 100 \(1 records\)",
    )
    assert_in_order(
        log.messages,
        r"^Initiating connection to node -1 at 127\.0\.0\.1:\d+",
        "^Completed connection to node -1",
        r"^Sending metadata request \{topics=\['test'\]\}",
    )
    assert_in_order(log.messages, "^ProducerId set to 1 with epoch 0", "^Drained batch test-0")
    assert_in_order(log.messages, "^Kafka producer started", "^Flushing", "^Shutdown of Kafka producer I/O thread")


def test_a_second_batch_asks_for_no_metadata_and_follows_in_sequence(log):
    written_with(FakeKafka(topics={"test": 1}), pieces=(3, 2))
    first = next(i for i, message in enumerate(log.messages) if message.startswith("Produced messages"))
    assert not any("metadata" in message.lower() for message in log.messages[first:])
    assert_in_order(
        log.messages[first + 1 :], "2 to test-0", "base sequence 3 being sent", r"Produced messages.*\(2 records\)"
    )


def test_a_retry_is_told_with_its_error_and_the_attempts_left(log):
    kafka = FakeKafka(topics={"test": 1})
    kafka.fault(PRODUCE, Error(6))
    written_with(kafka, **{"kafka.retries": "5", "kafka.retry.backoff.ms": "1"})
    assert_in_order(
        log.messages,
        "^Received produce response from node 1",
        r"^Got error produce response on topic-partition test-0, retrying \(5 attempts left\)\. Error: .*NOT_LEADER",
        "^Drained batch test-0",
        "^Produced messages to topic-partition test-0 with base offset 100",
    )
    assert sum(message.startswith("Assigned producerId") for message in log.messages) == 1


def test_a_lost_request_is_told(log):
    kafka = FakeKafka(topics={"test": 1})
    kafka.fault(PRODUCE, CLOSE)
    written_with(kafka, **{"kafka.retry.backoff.ms": "1", "kafka.reconnect.backoff.ms": "1"})
    assert_in_order(log.messages, "^Cancelled produce request to node 1 for test-0: ", "^Got error produce response")


def test_no_line_shows_what_a_record_holds(log):
    written_with(FakeKafka(topics={"test": 2}), pieces=(50,))
    assert SECRET.decode() not in log.text


def test_lines_stand_for_batches_not_for_records(log):
    written_with(FakeKafka(topics={"test": 1}), pieces=(10,))
    before = len(log.messages)
    written_with(FakeKafka(topics={"test": 1}), pieces=(1000,))
    assert len(log.messages) - before < before + 10


def test_above_debug_nothing_is_made_ready_for_the_log(caplog):
    caplog.set_level(logging.INFO, "kafkasource")

    class Untouchable:
        def __getattribute__(self, name):
            raise AssertionError(f"{name} was looked at for a line nobody reads")

        def __iter__(self):
            raise AssertionError("iterated for a line nobody reads")

    untouchable = Untouchable()
    producer_log.sending("t", untouchable)
    producer_log.added(untouchable)
    producer_log.created(untouchable, 1, untouchable, untouchable)
    producer_log.received(1, OSError(), untouchable)


def test_a_line_of_many_partitions_stays_short(log):
    producer_log.sending("t", [(partition, 0, 1) for partition in range(1000)])
    kafka = FakeKafka(topics={"t": 1000})
    metadata = Metadata(ClientConfig.of("localhost:9092"))
    metadata.update(kafka.answer(Request(1, METADATA, 12, {"topics": [{"name": "t"}]}, None)), 0)
    assert str(metadata).endswith(
        "Partition(topic = t, partition = 49, leader = 1, replicas = [1], isr = [1]) and 950 more])"
    )
    assert log.messages == [
        "Sending records to topic t: " + ", ".join(f"1 to t-{n}" for n in range(20)) + " and 980 more"
    ]
