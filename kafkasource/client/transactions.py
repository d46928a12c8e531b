"""Transactions (KIP-98), and their two dialects: what `transaction.version` is in the cluster decides which is spoken.

- 1 (and brokers that know no such feature): partitions and groups are added to a transaction before they are written
  to. The producer keeps its epoch from one transaction to the next.
- 2 (KIP-890, by default from Kafka 4.0 on): Produce v12 and TxnOffsetCommit v5 add them by themselves, and EndTxn v5
  answers with the epoch of the next transaction.

A transaction must be ended in the dialect it was begun in, above all when the answer was lost and it is asked again: a
broker that has committed with v5 answers the same request in v4 with PRODUCER_FENCED, as if it had not. So every call
takes the dialect as `tv`, and whoever begins asks `transaction_version` once and keeps the answer with the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

from kafkasource.client.calls import checked
from kafkasource.client.connection import Body, software_version
from kafkasource.client.coordinators import GROUP, TRANSACTION, CoordinatorCaller
from kafkasource.client.leaders import by_topic, indexes_by_topic
from kafkasource.errors import BrokerError, TopicAuthorizationFailed, UnsupportedApiVersion, error_for
from kafkasource.protocol.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    TXN_OFFSET_COMMIT,
)
from kafkasource.protocol.messages.add_partitions_to_txn import LAST_CLIENT_VERSION
from kafkasource.types import ProducerId, TopicPartition

TransactionVersion: TypeAlias = Literal[1, 2]

_OPERATION_NOT_ATTEMPTED = 55

# The versions of each dialect, both inclusive.
_END_TXN: dict[int, tuple[int, int]] = {1: (0, 4), 2: (5, 5)}
_TXN_OFFSET_COMMIT: dict[int, tuple[int, int]] = {1: (0, 4), 2: (5, 5)}

_INIT_NAMES_HOLDER = 3  # from this version of InitProducerId on (KIP-360)


class TransactionCaller(CoordinatorCaller):
    """What `Cluster` knows of producers and their transactions. See the module."""

    def transaction_version(self) -> TransactionVersion:
        """The dialect of transactions begun now. Asked anew each time: an operator may raise it while we run."""
        return version_in(self.call_any(API_VERSIONS, features_body()))

    def init_producer_id(
        self,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        held_by: ProducerId | None = None,
    ) -> ProducerId:
        """A producer id: any broker's for an idempotent producer, the coordinator's for a transactional one.

        The latter aborts what is open under the transactional id and fences whoever began it. With `held_by` only where
        that producer holds the id, else ProducerFenced (KIP-360; brokers from 2.5 on, others: UnsupportedApiVersion).
        While a transaction is ongoing, brokers compare the producer ids alone, not the epochs.
        """
        body = init_body(transactional_id, transaction_timeout_ms, held_by)
        if transactional_id is None:
            return producer_id_of(self.call_any(INIT_PRODUCER_ID, body))
        return producer_id_of(self.call_coordinator(TRANSACTION, transactional_id, INIT_PRODUCER_ID, body))

    # Dialect 1 only.

    def add_partitions_to_txn(
        self, transactional_id: str, producer: ProducerId, partitions: Iterable[TopicPartition]
    ) -> None:
        """To be done before the first batch of each partition is sent."""
        body = add_partitions_body(transactional_id, producer, partitions)
        self.call_coordinator(
            TRANSACTION,
            transactional_id,
            ADD_PARTITIONS_TO_TXN,
            body,
            max_version=LAST_CLIENT_VERSION,
            check=check_added_partitions,
        )

    def add_offsets_to_txn(self, transactional_id: str, producer: ProducerId, group: str) -> None:
        """To be done before `txn_offset_commit`."""
        body = {**_of(transactional_id, producer), "group_id": group}
        self.call_coordinator(TRANSACTION, transactional_id, ADD_OFFSETS_TO_TXN, body)

    # Both dialects.

    def txn_offset_commit(
        self,
        transactional_id: str,
        producer: ProducerId,
        group: str,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        tv: int,
    ) -> None:
        """Offsets with a text beside each (4096 bytes by default), visible once the transaction is committed."""

        def row(tp: TopicPartition) -> dict[str, Any]:
            offset, text = offsets[tp]
            return {"partition_index": tp.partition, "committed_offset": offset, "committed_metadata": text}

        body = {**_of(transactional_id, producer), "group_id": group, "topics": by_topic(offsets, row)}
        first, last = _TXN_OFFSET_COMMIT[tv]
        self.call_coordinator(
            GROUP, group, TXN_OFFSET_COMMIT, _from(first, body), max_version=last, check=check_committed_offsets
        )

    def end_txn(self, transactional_id: str, producer: ProducerId, commit: bool, tv: int) -> ProducerId:
        """Commit or abort; the producer id and epoch for the next transaction, which in dialect 1 are the same.

        Asked again, in the same dialect, until the answer is definite. Raises InvalidTxnState where nothing was open or
        the opposite was done, ProducerFenced or InvalidProducerEpoch where somebody has taken over or the broker's
        patience (the transaction's timeout) had ended, and DeadlineExceeded where it may be either way.
        """
        first, last = _END_TXN[tv]
        body = _from(first, {**_of(transactional_id, producer), "committed": commit})
        answer = self.call_coordinator(TRANSACTION, transactional_id, END_TXN, body, max_version=last)
        return producer if answer["producer_id"] < 0 else producer_id_of(answer)

    def end_txns(
        self, transactions: Iterable[tuple[str, ProducerId]], commit: bool, tv: int
    ) -> dict[str, BrokerError | None]:
        """The same for many at once, pipelined to their coordinators. By transactional id: None, or why it failed.

        Raises DeadlineExceeded where the outcome of one is not known in time; others may have ended by then.
        """
        first, last = _END_TXN[tv]
        bodies = {name: _from(first, {**_of(name, producer), "committed": commit}) for name, producer in transactions}
        answers = self.ask_each(TRANSACTION, END_TXN, bodies, max_version=last)
        return {name: each if isinstance(each, BrokerError) else None for name, each in answers.items()}


def features_body() -> dict[str, Any]:
    """Of an ApiVersions request."""
    return {"client_software_name": "kafkasource", "client_software_version": software_version()}


def version_in(answer: Mapping[str, Any]) -> TransactionVersion:
    """The dialect, as an answer to ApiVersions tells."""
    features = answer["finalized_features"]
    level = max((row["max_version_level"] for row in features if row["name"] == "transaction.version"), default=0)
    return 2 if level >= 2 else 1


def init_body(transactional_id: str | None, transaction_timeout_ms: int, held_by: ProducerId | None = None) -> Body:
    """Of an InitProducerId request."""
    body = {"transactional_id": transactional_id, "transaction_timeout_ms": transaction_timeout_ms}
    if held_by is None:
        return body
    held = {**body, **held_by._asdict()}

    def held_body(version: int) -> Mapping[str, Any]:
        if version < _INIT_NAMES_HOLDER:
            raise UnsupportedApiVersion(f"InitProducerId v{version} cannot name the producer that holds the id")
        return held

    return held_body


def add_partitions_body(
    transactional_id: str, producer: ProducerId, partitions: Iterable[TopicPartition]
) -> dict[str, Any]:
    """Of an AddPartitionsToTxn request in the versions for clients (`max_version=LAST_CLIENT_VERSION`)."""
    topics = [{"name": name, "partitions": found} for name, found in indexes_by_topic(partitions).items()]
    return {
        **{f"v3_and_below_{field}": value for field, value in _of(transactional_id, producer).items()},
        "v3_and_below_topics": topics,
    }


def check_added_partitions(answer: dict[str, Any], what: str) -> dict[str, Any]:
    """Raise the error that kept partitions from being added; one of them keeps all."""
    errors = [
        error_for(row["partition_error_code"], f"{what}, {topic['name']}-{row['partition_index']}")
        for topic in answer["results_by_topic_v3_and_below"]
        for row in topic["results_by_partition"]
        if row["partition_error_code"]
    ]
    if errors:
        raise min(errors, key=lambda error: (error.code == _OPERATION_NOT_ATTEMPTED, error.retriable))
    return checked(answer, what)


def check_committed_offsets(answer: dict[str, Any], what: str) -> dict[str, Any]:
    """Raise the first error, which names its partition: permission for a topic may be what is missing."""
    for topic in answer["topics"]:
        for row in topic["partitions"]:
            if row["error_code"]:
                context = f"{what}, {topic['name']}-{row['partition_index']}"
                if row["error_code"] == TopicAuthorizationFailed.CODE:
                    context += (
                        " (grant Read on it: with exactly_once the decision record is offsets of the topics that are "
                        "written, and who commits offsets must be able to read)"
                    )
                raise error_for(row["error_code"], context)
    return answer


def _of(transactional_id: str, producer: ProducerId) -> dict[str, Any]:
    return {"transactional_id": transactional_id, **producer._asdict()}


def producer_id_of(answer: Mapping[str, Any]) -> ProducerId:
    """The producer that an answer, or a row of one, names."""
    return ProducerId(answer["producer_id"], answer["producer_epoch"])


def _from(first: int, body: Mapping[str, Any]) -> Callable[[int], Mapping[str, Any]]:
    """The body, in no version before the first of its dialect."""

    def checked_body(version: int) -> Mapping[str, Any]:
        if version < first:
            raise UnsupportedApiVersion(
                f"this transaction was begun with transaction.version 2, which needs version {first} of the request;"
                f" the broker serves {version} at most"
            )
        return body

    return checked_body
