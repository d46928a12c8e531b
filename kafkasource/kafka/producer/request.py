"""One Produce request: its contents for a broker, and the outcome for each of its batches.

Its contents depend on the version that its connection has negotiated. Batches are built as record batches v2, which
brokers take from Produce v3 on (Kafka 0.11). An older broker gets the same records as a message set. This module
converts them when the request is written, because only then the version is certain. A retry may meet a broker that was
upgraded meanwhile, so it decides again. If the broker's format has no place for something in a batch, this module
refuses that batch alone, before any of it is sent: nothing is dropped silently.

`outcome_of` decides what the end of a request means, and the sender carries that out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from kafkasource.errors import (
    BrokerError,
    ConcurrentTransactions,
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaSourceError,
    MessageTooLarge,
    OutOfOrderSequenceNumber,
    PartitionUnanswered,
    ProducerFenced,
    RecordListTooLarge,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    UnknownProducerId,
    UnsupportedApiVersion,
    UnsupportedRecordFormat,
    error_for,
)
from kafkasource.kafka.producer.batch import ProducerBatch
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.protocol.schema import Body, Fields
from kafkasource.kafka.records.compression import ZSTD
from kafkasource.kafka.records.down_conversion import down_convert
from kafkasource.types import TopicPartition

_OF_CODECS = (43, 76)  # UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_COMPRESSION_TYPE
_MAGIC_1, _MAGIC_2, _ZSTD = 2, 3, 7  # the first versions with timestamps (KIP-32), record batches (KIP-98), zstd


class ProduceRequest:
    """The body, for `NetworkClient.send`. For the sender thread. `refused` has the batches that were left out."""

    def __init__(self, batches: Sequence[ProducerBatch], config: ProducerConfig, node_id: int) -> None:
        transaction = batches[0].delivery.transaction
        self.transactional_id = None if transaction is None else transaction.transactional_id
        self.acks, self.timeout_ms = config.acks, config.request_timeout_ms
        self.lost_idempotence = False  # a batch had a sequence, which the broker's format cannot hold
        self._idempotence_demanded = config.idempotence_demanded
        self.refused: dict[ProducerBatch, KafkaSourceError] = {}
        self._batches = batches
        self._node_id = node_id

    def __call__(self, version: int) -> Body:
        """Raises the error of the first batch if all are refused."""
        topics: dict[str, list[dict[str, object]]] = {}
        for batch in self._batches:
            tp = batch.topic_partition
            try:
                records = batch.encoded if version >= _ZSTD else self._for_older(batch, version)
            except KafkaSourceError as error:
                self.refused[batch] = error
            else:
                topics.setdefault(tp.topic, []).append({"index": tp.partition, "records": records})
        if not topics:
            raise next(iter(self.refused.values()))
        return {
            "transactional_id": self.transactional_id,
            "acks": self.acks,
            "timeout_ms": self.timeout_ms,
            "topic_data": [{"name": name, "partition_data": data} for name, data in topics.items()],
        }

    def _for_older(self, batch: ProducerBatch, version: int) -> bytes | memoryview | None:
        builder = batch.builder
        if builder.codec == ZSTD:
            raise self._lack(batch, version, "zstd", _ZSTD, "2.1", "another 'kafka.compression.type'")
        if version >= _MAGIC_2:
            return batch.encoded
        if self.transactional_id is not None:
            raise self._lack(batch, version, "transactions", _MAGIC_2, "0.11", "'deliveryGuarantee'=at_least_once")
        if version < _MAGIC_1 and batch.delivery.has_timestamps:
            raise self._lack(batch, version, "timestamps", _MAGIC_1, "0.10", "a DataFrame without column 'timestamp'")
        if batch.sequenced and self._idempotence_demanded:
            raise self._lack(batch, version, "idempotence", _MAGIC_2, "0.11", "without 'kafka.enable.idempotence'=true")
        self.lost_idempotence |= batch.sequenced
        magic = 0 if version < _MAGIC_1 else 1
        assert batch.encoded is not None
        try:
            return down_convert(
                batch.encoded, magic, codec=builder.codec, level=builder.level, max_bytes=builder.estimated_size
            )
        except UnsupportedRecordFormat:  # among the sink's data only headers can raise this
            lack = self._lack(batch, version, "headers", _MAGIC_2, "0.11", "a DataFrame without column 'headers'")
            raise lack from None

    def _lack(
        self, batch: ProducerBatch, version: int, feature: str, first: int, release: str, remedy: str
    ) -> UnsupportedApiVersion:
        return UnsupportedApiVersion(
            f"records for {batch.topic_partition} cannot be written with {feature}: that needs Kafka {release} "
            f"(Produce v{first}), and node {self._node_id} serves Produce up to v{version}. Write {remedy}"
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The result for one batch: stored (no error), not stored, or not known (errors of the connection)."""

    batch: ProducerBatch
    error: BaseException | None = None
    base_offset: int | None = None  # None where the broker did not say
    log_start_offset: int = -1  # -1: the broker did not say it, as one of Kafka 0.11
    words: str = ""  # the broker's, about the whole batch (KIP-467)
    refused: Mapping[int, str] = field(default_factory=dict)  # records that sank the batch, by number, and why

    @property
    def last_offset(self) -> int | None:
        """Inclusive."""
        return None if self.base_offset is None else self.base_offset + self.batch.record_count - 1


def nothing_stored(error: BaseException | None) -> bool:
    """Whether the broker says that it has stored nothing of the batch, and will not.

    Most errors leave that open: a leader that steps down says NOT_LEADER_OR_FOLLOWER also of a batch in its log.
    """
    return isinstance(error, BrokerError) and error.row.nothing_stored


def refuses_record(error: BaseException | None) -> bool:
    """Whether the broker refuses the batch for one record: as a dead letter it lets the others pass."""
    return isinstance(error, BrokerError) and error.row.refuses_record


class Outcome(Enum):
    """The step that the sender takes with a batch whose request has ended."""

    STORED = "stored"
    RETRY = "retry"
    RENEW = "retry under a new producer id"
    SPLIT = "split"
    SET_ASIDE = "set the refused records aside"
    GIVE_UP = "give up"


def answers_of(
    body: Fields, error: BaseException | None, batches: Sequence[ProducerBatch], node_id: int
) -> Iterator[Answer]:
    """One result for each batch of a request that ended with this body, or with this error. An empty body: acks=0."""
    if error is not None or not body:
        yield from (Answer(batch, error) for batch in batches)
        return
    by_partition = {
        TopicPartition(topic["name"], partition["index"]): partition
        for topic in body["responses"]
        for partition in topic["partition_responses"]
    }
    for batch in batches:
        where = f"produce to {batch.topic_partition} on node {node_id}"
        answer = by_partition.get(batch.topic_partition)
        if answer is None:
            yield Answer(batch, PartitionUnanswered(f"{where}: the broker's response does not speak of the partition"))
        elif answer["error_code"] == 0:
            offset = answer["base_offset"]
            yield Answer(batch, None, offset if offset >= 0 else None)
        else:
            error = error_for(answer["error_code"], where + _detail(answer))
            start = answer.get("log_start_offset", -1)
            yield Answer(batch, error, None, start, answer.get("error_message") or "", _refused(answer, batch))


def outcome_of(answer: Answer, *, is_next: bool, is_alone: bool, retries: int) -> Outcome:
    """Decide about a batch that its task still wants and whose time is not over.

    `is_next`: every batch that was sent to the partition before this batch has its final answer. Without it, a sequence
    out of order only means that an earlier batch is missing, which is sent again first. With it, the broker may have
    stored the batch and forgotten it (it remembers five), so it must not be sent as new.
    `is_alone`: every other batch that was sent to the partition, before or after this batch, has its final answer.
    """
    error = answer.error
    if error is None or isinstance(error, DuplicateSequenceNumber):  # an earlier attempt stored it
        return Outcome.STORED
    if isinstance(error, (MessageTooLarge, RecordListTooLarge)) and answer.batch.record_count > 1:
        return Outcome.SPLIT  # refused whole, so nothing of it is stored; no attempt is counted, as in Java
    if refuses_record(error) and answer.batch.has_dead_letters:
        return Outcome.SET_ASIDE if answer.refused or answer.batch.record_count == 1 else Outcome.SPLIT
    if answer.batch.records_gone:  # it goes again with its new sequence, which does not count as an attempt
        return Outcome.RETRY if nothing_stored(error) else Outcome.GIVE_UP
    if is_alone and retries > 0 and _has_forgotten_producer(answer):
        return Outcome.RENEW
    if is_next and answer.batch.behind_gap and isinstance(error, OutOfOrderSequenceNumber):
        # Refused, so its one copy is not stored: as Java's producer, which then takes another epoch.
        return Outcome.GIVE_UP if answer.batch.unanswered else Outcome.RENEW
    retriable = getattr(error, "retriable", False) or (isinstance(error, OutOfOrderSequenceNumber) and not is_next)
    if isinstance(error, UnknownProducerId):
        # No batch can be missing before sequence 0, and a broker that has stored the batch recognizes the same bytes.
        retriable = answer.batch.base_sequence == 0
    return Outcome.RETRY if retriable and answer.batch.attempts <= retries else Outcome.GIVE_UP


def _has_forgotten_producer(answer: Answer) -> bool:
    """Does the broker not know the producer any more, because retention deleted all that it wrote to the partition?

    Brokers before Kafka 2.4 forget it then. Those of 0.11 say "out of order", and not where the log starts. Only for a
    batch without a transaction that no broker has stored: this was its one attempt. Records that its task has stored
    there must have been below the log's start. Otherwise they may be lost, and the task must write them again.
    """
    batch, error = answer.batch, answer.error
    if not isinstance(error, UnknownProducerId) and not (
        isinstance(error, OutOfOrderSequenceNumber) and answer.log_start_offset < 0
    ):
        return False
    if batch.delivery.transaction is not None or not batch.sequenced or batch.base_sequence == 0:
        return False
    if batch.attempts != 1 or batch.unanswered:
        return False
    stored = batch.delivery.written.get(batch.topic_partition)
    return stored is None or (stored.last_offset is not None and stored.last_offset < answer.log_start_offset)


_ENDED = (
    "it was aborted from elsewhere: by another attempt of the task, by another query with the same "
    "'transactionalIdPrefix', or by the brokers after 'kafka.transaction.timeout.ms'"
)
_OF_TRANSACTIONS: dict[type[BrokerError], str] = {
    InvalidProducerEpoch: f"the transaction is fenced: {_ENDED}",
    ProducerFenced: f"the transaction is fenced: {_ENDED}",
    InvalidTxnState: f"the transaction has ended: {_ENDED}",
    TransactionAbortable: f"the transaction has ended, or is not for this topic-partition: {_ENDED}",
    TransactionalIdAuthorizationFailed: "it may not be used",
    ConcurrentTransactions: "the coordinator is still finishing the id's last transaction",
    OutOfOrderSequenceNumber: "records of the transaction are missing before these; or a restarted broker, which knows "
    "only the last batch, has these already; or another task wrote to the topic-partition in the same transaction "
    "('atomicBatch'=true needs one task for each partition: repartition by it)",
}


def of_transaction(error: BaseException, transactional_id: str) -> BaseException:
    """The same error, with its meaning for a transaction, if that is known."""
    if not isinstance(error, BrokerError) or type(error) not in _OF_TRANSACTIONS:
        return error
    what = f"transactional id {transactional_id!r}: {_OF_TRANSACTIONS[type(error)]}"
    return error.at(f"{error.context}, {what}")


def explained(error: BaseException, batch: ProducerBatch) -> BaseException:
    """Advice for the user that the error itself cannot give."""
    transaction, dead_letters = batch.delivery.transaction, batch.delivery.dead_letters
    of_one_record = refuses_record(error)
    if isinstance(error, BrokerError) and (batch.records_gone or (batch.has_dead_letters and of_one_record)):
        return error.at(
            f"{error.context}: it is unknown whether a broker stored an earlier attempt of this batch or of a later "
            "one, so no record can leave the partition as a dead letter. The task must run again"
        )
    lost_answer = batch.unanswered and transaction is None  # else `of_transaction` has more to say
    if isinstance(error, OutOfOrderSequenceNumber) and (batch.behind_gap or lost_answer):
        why = "earlier records were given up" if batch.behind_gap else "a restarted broker knows only the last batch"
        return error.at(
            f"{error.context}: {why}, and it is unknown whether a broker stored an earlier attempt of these records. "
            "The task must run again"
        )
    if dead_letters is not None and isinstance(error, BrokerError) and of_one_record:
        return error.at(
            f"{error.context}: a dead letter in a batch of {batch.size} bytes. The topic of 'badRecords' must take "
            "every record: raise its max.message.bytes and message.timestamp.before.max.ms and .after.max.ms, and "
            "leave its cleanup.policy at delete"
        )
    if transaction is not None and type(error) in _OF_TRANSACTIONS:
        return of_transaction(error, transaction.transactional_id)
    if isinstance(error, MessageTooLarge):
        records = "a batch of one record" if batch.record_count == 1 else f"a batch of {batch.record_count} records"
        return error.at(
            f"{error.context}: {records} in {batch.size} bytes; raise the topic's max.message.bytes, or shrink it "
            "by 'kafka.compression.type' (several records: also by 'kafka.batch.size')"
        )
    if isinstance(error, BrokerError) and error.code in _OF_CODECS and batch.builder.codec:
        return error.at(
            f"{error.context}: the batch is compressed, and some servers do not take every codec; set "
            "'kafka.compression.type' to gzip or none"
        )
    return error if isinstance(error, KafkaSourceError) else KafkaSourceError(f"{type(error).__name__}: {error}")


def _refused(answer: Fields, batch: ProducerBatch) -> dict[int, str]:
    """The records that the broker names, without numbers that the batch does not have."""
    return {
        entry["batch_index"]: entry["batch_index_error_message"] or ""
        for entry in answer.get("record_errors") or ()
        if 0 <= entry["batch_index"] < batch.record_count
    }


def _detail(answer: Fields) -> str:
    """The broker's details beyond the code (KIP-467): its text and the numbers of the records, never their contents."""
    text = ""
    if answer.get("record_errors"):
        indexes = [entry["batch_index"] for entry in answer["record_errors"][:20]]
        text += f", records {indexes} of the batch"
    if answer.get("error_message"):
        text += f" ({answer['error_message'][:500]!r})"
    return text
