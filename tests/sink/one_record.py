"""Writes one record with a sender as in a task, on a network whose clock is moved by waiting."""

from dataclasses import replace

import plain_producer
from sink_fakes import T0, columns

from kafkasource.kafka.producer.accumulator import RecordAccumulator
from kafkasource.kafka.producer.client import Wakeup
from kafkasource.kafka.producer.pool import BufferPool
from kafkasource.kafka.producer.queues import PartitionQueues
from kafkasource.kafka.producer.sender import Sender
from kafkasource.kafka.records.builder import BatchBuilder

IN_TIME_S = 120  # delivery.timeout.ms


def write_a_record(net, transaction=None, **client_settings):
    """Seconds until it was acknowledged. Raises the delivery's error."""
    config = replace(plain_producer.config("bootstrap:9092"), linger_ms=0)
    client = net.client(**client_settings)

    def clock_ms():
        return net.now * 1000

    queues = PartitionQueues(config, BufferPool(config.buffer_memory_bytes, config.batch_bytes), BatchBuilder)
    sender = Sender(config, queues, client, Wakeup(client), clock_ms=clock_ms)
    delivery, began = sender.begin(transaction), net.now
    accumulator = RecordAccumulator(config, queues, clock_ms, lambda: None)
    accumulator.append("t", columns(1), None, [(T0.partition, 0, 1)], delivery)
    while not delivery.records and not delivery.failed and net.now < began + IN_TIME_S:
        sender.run_once()
    client.close()
    delivery.raise_if_failed()
    assert delivery.records == 1
    return net.now - began
