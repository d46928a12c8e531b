"""What the end of a produce request means for each of its batches. Decisions only: the sender carries them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kafkasource.errors import (
    BrokerError,
    ConcurrentTransactions,
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaSourceError,
    MessageTooLarge,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    ProtocolError,
    RecordListTooLarge,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    error_for,
)
from kafkasource.sink.producer.batch import ProducerBatch
from kafkasource.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one batch: stored (no error), or not, or nobody knows (the errors of the way)."""

    batch: ProducerBatch
    error: BaseException | None = None
    base_offset: int | None = None  # None where the broker did not say

    @property
    def last_offset(self) -> int | None:
        """Inclusive."""
        return None if self.base_offset is None else self.base_offset + self.batch.record_count - 1


class Fate(Enum):
    STORED = "stored"
    RETRY = "retry"
    SPLIT = "split"
    GIVE_UP = "give up"


def answers_of(
    body: Mapping[str, Any], error: BaseException | None, batches: Sequence[ProducerBatch], node_id: int
) -> Iterator[Answer]:
    """One answer per batch of a request that ended with this body, or with this error. An empty body: acks=0."""
    if error is not None or not body:
        yield from (Answer(batch, error) for batch in batches)
        return
    told = {
        TopicPartition(topic["name"], partition["index"]): partition
        for topic in body["responses"]
        for partition in topic["partition_responses"]
    }
    for batch in batches:
        where = f"produce to {batch.topic_partition} on node {node_id}"
        answer = told.get(batch.topic_partition)
        if answer is None:
            missing = ProtocolError(f"{where}: the broker's response does not speak of the partition")
            missing.retriable = True
            yield Answer(batch, missing)
        elif answer["error_code"] == 0:
            offset = answer["base_offset"]
            yield Answer(batch, None, offset if offset >= 0 else None)
        else:
            yield Answer(batch, error_for(answer["error_code"], where + _detail(answer)))


def fate_of(answer: Answer, *, is_next: bool, retries: int) -> Fate:
    """What to do with a batch that its task still wants in time.

    `is_next`: every batch that was sent to the partition before it has its final answer. While one has not, a
    sequence out of order says no more than that the one before is still missing: it is sent again first. Otherwise it
    may mean a batch that the broker stored and has forgotten (it remembers five), which nobody may send as new.
    """
    error = answer.error
    if error is None or isinstance(error, DuplicateSequenceNumber):  # stored by an earlier attempt, where is forgotten
        return Fate.STORED
    if isinstance(error, (MessageTooLarge, RecordListTooLarge)) and answer.batch.record_count > 1:
        return Fate.SPLIT  # refused whole, so nothing of it is stored; no attempt is counted, as in Java
    retriable = getattr(error, "retriable", False) or (isinstance(error, OutOfOrderSequenceNumber) and not is_next)
    return Fate.RETRY if retriable and answer.batch.attempts <= retries else Fate.GIVE_UP


_ENDED = (
    "it was aborted from elsewhere: by another attempt of the task, by another query with the same "
    "'transactionalIdPrefix', or by the brokers after 'kafka.transaction.timeout.ms'"
)
_OF_TRANSACTIONS: dict[type[BrokerError], str] = {
    InvalidProducerEpoch: f"the transaction is fenced: {_ENDED}",
    ProducerFenced: f"the transaction is fenced: {_ENDED}",
    InvalidTxnState: f"the transaction is not open any more: {_ENDED}",
    TransactionAbortable: f"the transaction is not open any more, or not for this topic-partition: {_ENDED}",
    TransactionalIdAuthorizationFailed: "it may not be used",
    ConcurrentTransactions: "the coordinator is still finishing the id's last transaction",
    OutOfOrderSequenceNumber: "records of the transaction are missing before these, or another task wrote to the "
    "topic-partition in the same transaction ('atomicBatch'=true wants one task for each: repartition by it)",
}


def of_transaction(error: BaseException, transactional_id: str) -> BaseException:
    """What it means for a transaction, where that can be said."""
    if not isinstance(error, BrokerError) or type(error) not in _OF_TRANSACTIONS:
        return error
    what = f"transactional id {transactional_id!r}: {_OF_TRANSACTIONS[type(error)]}"
    return type(error)(error.code, f"{error.context}, {what}")


def explained(error: BaseException, batch: ProducerBatch) -> BaseException:
    """What to do about it, where the error itself cannot know."""
    transaction = batch.delivery.transaction
    if transaction is not None and type(error) in _OF_TRANSACTIONS:
        return of_transaction(error, transaction.transactional_id)
    if isinstance(error, MessageTooLarge):
        records = "a batch of one record" if batch.record_count == 1 else f"a batch of {batch.record_count} records"
        return MessageTooLarge(
            error.code,
            f"{error.context}: {records} in {batch.size} bytes; raise the topic's max.message.bytes, or shrink it "
            "by 'kafka.compression.type' (several records: also by 'kafka.batch.size')",
        )
    return error if isinstance(error, KafkaSourceError) else KafkaSourceError(f"{type(error).__name__}: {error}")


def _detail(answer: Mapping[str, Any]) -> str:
    """What the broker says beyond the code (KIP-467): its text and which records, never their content."""
    text = ""
    if answer.get("record_errors"):
        indexes = [entry["batch_index"] for entry in answer["record_errors"][:20]]
        text += f", records {indexes} of the batch"
    if answer.get("error_message"):
        text += f" ({answer['error_message'][:500]!r})"
    return text
