"""Logs the way of a batch at DEBUG, in the words of Kafka's Java producer (its TRACE level).

A reader who knows the logs of KafkaProducer, RecordAccumulator, Sender and NetworkClient finds the same steps here, in
this order. The logger `kafkasource.kafka.cluster` writes those in the middle column.

    task's thread                     sender thread, connections             sender thread, batches
    Starting the Kafka producer       Starting Kafka producer I/O thread
    Requesting metadata update for
                                      Initiating / Completed connection to
                                      Sending metadata request
                                      Updated cluster metadata version
    Sending records
    Allocating a new
    Waking up the sender
                                                                             Drained batch
                                                                             Nodes with data ready to send
                                                                             Created 1 produce requests
                                                                             Sent produce request
                                                                             Received produce response from
                                                                             Produced messages to
    Flushing accumulated records

A line stands for a batch, a request or an Arrow batch of rows, never for a record, and no line shows the contents of a
record. With a level above DEBUG each function only tests the level. One warning stands among them: `still_retrying`.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kafkasource.errors import few
from kafkasource.kafka.producer.config import SILENT_MS
from kafkasource.types import TopicPartition

if TYPE_CHECKING:
    from kafkasource.kafka.network.metadata import Metadata
    from kafkasource.kafka.producer.batch import ProducerBatch
    from kafkasource.kafka.producer.request import Answer, ProduceRequest

log = logging.getLogger("kafkasource.sink")

_NAMED = 20  # partitions in a line
_PRODUCER = struct.Struct(">qhi")  # id, epoch, base sequence: in the header of record batch v2
_PRODUCER_POS = 43


def sending(topic: str, spans: Sequence[tuple[int, int, int]]) -> None:
    """Rows of one topic are about to be appended; a span is a partition and [first, last) of its rows."""
    if log.isEnabledFor(logging.DEBUG):
        counts = [f"{last - first} to {topic}-{partition}" for partition, first, last in spans]
        log.debug("Sending records to topic %s: %s", topic, few(counts, _NAMED))


def allocating(size: int, topic: str, partition: int) -> None:
    log.debug("Allocating a new %d byte message buffer for topic %s partition %d", size, topic, partition)


def added(batches: Iterable[ProducerBatch]) -> None:
    """New batches wait to be sent."""
    if log.isEnabledFor(logging.DEBUG):
        for batch in batches:
            tp = batch.topic_partition
            log.debug(
                "Waking up the sender since topic %s partition %d is either full or getting a new batch",
                tp.topic,
                tp.partition,
            )


def created(metadata: Metadata, node_id: int, request: ProduceRequest, batches: Sequence[ProducerBatch]) -> None:
    """A produce request for these encoded batches is made, and will be sent next."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    for batch in batches:
        tp, encoded = batch.topic_partition, batch.encoded
        assert encoded is not None
        log.debug("Drained batch %s: %d records in %d bytes", tp, batch.record_count, len(encoded))
        if batch.attempts <= 1 and batch.sequenced:
            log.debug(
                "Assigned producerId %d and producerEpoch %d to batch with base sequence %d being sent to partition %s",
                *_PRODUCER.unpack_from(encoded, _PRODUCER_POS),
                tp,
            )
    log.debug("Nodes with data ready to send: [%s]", metadata.node(node_id))
    data = [f"{batch.topic_partition}: {batch.size} bytes" for batch in batches]
    log.debug(
        "Created 1 produce requests: [(transactionalId=%s, acks=%d, timeout=%d, {%s})]",
        request.transactional_id,
        request.acks,
        request.timeout_ms,
        few(data, _NAMED),
    )


def sent(node_id: int) -> None:
    log.debug("Sent produce request to node %d", node_id)


def received(node_id: int, error: BaseException | None, batches: Sequence[ProducerBatch]) -> None:
    """A produce request has ended, with a response or without."""
    if error is None:
        log.debug("Received produce response from node %d", node_id)
    elif log.isEnabledFor(logging.DEBUG):
        names = few([batch.topic_partition for batch in batches], _NAMED)
        log.debug("Cancelled produce request to node %d for %s: %s", node_id, names, error)


def produced(answer: Answer) -> None:
    """A batch is stored as `acks` demands."""
    log.debug(
        "Produced messages to topic-partition %s with base offset %s (%d records)",
        answer.batch.topic_partition,
        "unknown" if answer.base_offset is None else answer.base_offset,
        answer.batch.record_count,
    )


def retrying(batch: ProducerBatch, retries: int, error: BaseException) -> None:
    log.debug(
        "Got error produce response on topic-partition %s, retrying (%d attempts left). Error: %s",
        batch.topic_partition,
        retries - batch.attempts + 1,
        error,
    )


def still_retrying(batch: ProducerBatch, waited_ms: float, timeout_ms: int) -> None:
    """Brokers have refused a batch for some time. Warns of the first batch of a task for which that is so."""
    if waited_ms >= SILENT_MS and not batch.delivery.told_of_retries:
        batch.delivery.told_of_retries = True
        log.warning(
            "records for %s are not acknowledged after %d ms and %d attempts: %s. The sink sends them again until "
            "%d ms are over ('kafka.delivery.timeout.ms')",
            batch.topic_partition,
            waited_ms,
            batch.attempts,
            batch.last_error,
            timeout_ms,
        )


def splitting(batch: ProducerBatch, error: BaseException) -> None:
    log.debug(
        "Got error produce response on topic-partition %s, splitting and retrying. Error: %s",
        batch.topic_partition,
        error,
    )


def setting_aside(batch: ProducerBatch, count: int, error: BaseException) -> None:
    log.debug(
        "Got error produce response on topic-partition %s, making dead letters of %d of %d records. Error: %s",
        batch.topic_partition,
        count,
        batch.record_count,
        error,
    )


def gave_up(tp: TopicPartition, error: BaseException) -> None:
    log.debug("Produced messages to topic-partition %s with error: %s", tp, error)


def expired(count: int) -> None:
    """Some batches waited longer than `delivery.timeout.ms`."""
    if count:
        log.debug("Expired %d batches in accumulator", count)
