"""A producer with the settings that the sink gives it, and rows of values alone."""

import pyarrow as pa

from kafkasource import options
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.producer.partitioner import Partitioner
from kafkasource.kafka.producer.producer import Producer
from kafkasource.kafka.producer.rows import Rows


def config(servers, **written):
    return ProducerConfig.from_options(options.parse({"kafka.bootstrap.servers": servers} | written, "sink"))


def producer(servers="localhost:1", client=None, **written):
    return Producer(config(servers, **written), client=client)


def append(producer, delivery, topic, values, partition=None):
    chosen = None if partition is None else pa.array([partition] * len(values), pa.int32())
    rows = Rows(topic, len(values), None, pa.array(values, pa.binary()), None, chosen, None)
    producer.append(rows, Partitioner(producer.config.batch_bytes), delivery)
