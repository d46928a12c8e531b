"""A producer that is closed has sent what tasks handed over, and tells the truth about the rest."""

import pyarrow as pa
import pytest
from sink_fakes import T0, AcknowledgingClient

from kafkasource import options
from kafkasource.errors import ClientClosed
from kafkasource.sink.columns import Rows
from kafkasource.sink.config import ProducerConfig
from kafkasource.sink.partitioner import Partitioner
from kafkasource.sink.producer import Producer


class SilentClient(AcknowledgingClient):
    """Of a broker that takes everything and answers nothing."""

    def poll(self, timeout_ms):
        self.woken.wait(timeout_ms / 1000)
        self.woken.clear()


def producer_with(client):
    written = {"kafka.bootstrap.servers": "localhost:1", "kafka.linger.ms": "60000"}
    return Producer(ProducerConfig.from_options(options.parse(written, "sink")), client=client)


def append(producer, delivery, count=3):
    rows = Rows("t", count, None, pa.array([b"v"] * count, pa.binary()), None, None, None)
    producer.append(rows, Partitioner(1024), delivery)


def test_what_lingers_is_sent_and_acknowledged():
    producer = producer_with(AcknowledgingClient({T0: 1}))
    delivery = producer.sender.begin()
    append(producer, delivery)
    producer.close()
    assert delivery.records == 3
    assert producer.pool.available_bytes == producer.pool.total_bytes


def test_a_task_that_has_given_its_last_row_hears_of_its_success():
    producer = producer_with(AcknowledgingClient({T0: 1}))
    delivery = producer.sender.begin()
    append(producer, delivery)
    delivery.flushing = True
    producer.close()
    delivery.wait(lambda: False)
    assert delivery.records == 3


def test_a_task_that_has_more_rows_hears_that_the_producer_is_closed():
    producer = producer_with(AcknowledgingClient({T0: 1}))
    delivery = producer.sender.begin()
    append(producer, delivery)
    producer.close()
    with pytest.raises(ClientClosed):
        append(producer, delivery)
    with pytest.raises(ClientClosed):
        delivery.wait(lambda: False)


@pytest.mark.parametrize("flushing", [False, True])
def test_what_is_not_acknowledged_in_the_time_given_fails_its_task(flushing):
    client = SilentClient({T0: 1})
    producer = producer_with(client)
    delivery = producer.sender.begin()
    append(producer, delivery)
    delivery.flushing = flushing
    producer.close(timeout_ms=1)
    with pytest.raises(ClientClosed):
        delivery.wait(lambda: False)
    assert client.closed


def test_nobody_waits_for_a_task_that_has_failed():
    producer = producer_with(SilentClient({T0: 1}))
    delivery = producer.sender.begin()
    append(producer, delivery)
    delivery.fail(ZeroDivisionError())
    producer.close()
    assert not producer.usable
