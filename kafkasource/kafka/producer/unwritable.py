"""Records that cannot be written to their topic, as rows for the topic of dead letters (`badRecords=topic:NAME`).

A broker refuses some records for what is in them, one by one: one that is larger than the topic's max.message.bytes,
one without a key for a compacted topic, one with a timestamp out of bounds (the answer names them: KIP-467). It stores
nothing of their batch. The sender takes them out, and sends the others again in the batch's place.

So sequences would have a gap, and the broker would refuse all that comes behind. Kafka's Java producer moves the
batches behind up in a transaction and takes a new epoch otherwise; librdkafka ends the transaction, or takes a new
epoch; franz-go fails all records that wait for the partition. This sink moves up in both cases: a new epoch would end
the task's transaction, and two of one partition would not keep its order.

A batch behind may be on its way with its old sequence. The broker refuses it (OUT_OF_ORDER_SEQUENCE_NUMBER), and it
goes again with its new one. That is certain only for an answer that says so. If a connection ends instead, a copy with
the old sequence may still reach the broker, and could be stored beside the new one. Then the task fails, and runs
again.
"""

from __future__ import annotations

from kafkasource.errors import BrokerError
from kafkasource.kafka import counters
from kafkasource.kafka.producer import log as producer_log
from kafkasource.kafka.producer.producer_id import Identity
from kafkasource.kafka.producer.queues import PartitionQueues
from kafkasource.kafka.producer.request import Answer
from kafkasource.types import TopicPartition


def set_aside(answer: Answer, queues: PartitionQueues, identity: Identity | None) -> bool:
    """Take the records that the broker refused out of their batch, and hand them to the task. Are any left in it?
    Otherwise the caller settles it.

    `identity`: that of the next batches. Raises CorruptRecordBatch as `PartitionQueues.take_out` does.
    """
    batch, error, dead_letters = answer.batch, answer.error, answer.batch.delivery.dead_letters
    assert isinstance(error, BrokerError)
    assert dead_letters is not None
    words = {number: text or answer.words for number, text in answer.refused.items()} or {0: answer.words}
    columns, some_left = queues.take_out(batch, words)
    producer_log.setting_aside(batch, len(words), error)
    count(queues.config.cluster_name, batch.topic_partition, error.name, len(words))
    if identity is not None and identity.producer_id == batch.producer_id:
        identity.give_back(batch.topic_partition, len(words))
    reasons = {number: f"{error.name}: {text or error.doc}" for number, text in words.items()}
    letters = dead_letters.letters_of(batch.topic_partition, columns, reasons)
    batch.delivery.set_aside(batch.topic_partition, letters, batches=0 if some_left else 1)
    return some_left


def count(cluster: str, tp: TopicPartition, reason: str, records: int = 1) -> None:
    """`reason`: Kafka's name of the error, or of the setting."""
    counters.count("kafkasource_dead_letters_total", records, cluster, tp.topic, reason)
