"""Transactions (KIP-98): one's own, and those of others as an operator and a restarted writer see them (KIP-664).

There are two dialects; `transaction.version` of the cluster decides which one a new transaction speaks.

- 1 (and brokers that know no such feature): partitions and groups are added to a transaction before they are written
  to. The producer keeps its epoch from one transaction to the next.
- 2 (KIP-890, by default from Kafka 4.0 on): Produce v12 and TxnOffsetCommit v5 add them, and EndTxn v5 answers with the
  epoch of the next transaction.

A transaction must be ended in the dialect it was begun in, above all when the answer was lost and the request is sent
again: a broker that has committed with v5 answers the same request in v4 with PRODUCER_FENCED, as if it had not. So
every call takes the dialect as `version`, and a writer asks for it once and keeps the answer with the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from kafkasource.errors import (
    BrokerError,
    KafkaSourceError,
    OperationNotAttempted,
    TransactionalIdNotFound,
    UnsupportedApiVersion,
    error_for,
)
from kafkasource.kafka.cluster.caller import Caller, checked
from kafkasource.kafka.cluster.groups import check_committed, committed_rows
from kafkasource.kafka.cluster.routing import GROUP, TRANSACTION, Coordinators, Leaders, indexes_by_topic
from kafkasource.kafka.cluster.transaction_listing import (
    ONGOING,
    DescribedTransaction,
    Listed,
    ListedTransaction,
    Listing,
    described,
)
from kafkasource.kafka.network.connection import RequestBody, software_version
from kafkasource.kafka.protocol.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    OFFSET_FETCH,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    Api,
)
from kafkasource.kafka.protocol.messages.add_partitions_to_txn import LAST_CLIENT_VERSION
from kafkasource.kafka.protocol.schema import Body, Fields
from kafkasource.types import ProducerId, TopicPartition, known

__all__ = [
    "ONGOING",
    "ActiveProducer",
    "Ahead",
    "DescribedTransaction",
    "Listed",
    "ListedTransaction",
    "TransactionVersion",
    "Transactions",
    "lacking",
]

TransactionVersion: TypeAlias = Literal[1, 2]

# The versions of each dialect, both inclusive.
_END_TXN: dict[int, tuple[int, int]] = {1: (0, 4), 2: (5, 5)}
_TXN_OFFSET_COMMIT: dict[int, tuple[int, int]] = {1: (0, 4), 2: (5, 5)}

_SINCE_DIALECT_2: dict[int, int] = {PRODUCE.key: 12, TXN_OFFSET_COMMIT.key: 5, END_TXN.key: 5}
"""API keys, and the versions that dialect 2 needs."""

_NEEDED: dict[Api, int] = {
    FIND_COORDINATOR: 1,  # of a transactional id
    INIT_PRODUCER_ID: 0,
    ADD_PARTITIONS_TO_TXN: 0,
    ADD_OFFSETS_TO_TXN: 0,
    PRODUCE: 3,
    TXN_OFFSET_COMMIT: 0,
    END_TXN: 0,
    OFFSET_FETCH: 2,  # all offsets of a group
}
"""What a transaction with offsets needs in dialect 1, and the first versions."""

_INIT_NAMES_HOLDER = 3  # from this version of InitProducerId on (KIP-360)


class ActiveProducer(NamedTuple):
    """A producer that a partition's leader remembers."""

    producer: ProducerId
    last_sequence: int | None  # of its last record here
    last_timestamp_ms: int | None  # when that was
    txn_start_offset: int | None  # of the transaction that is open here; readers of read_committed stop before it


@dataclass(frozen=True)
class Ahead:
    """Answers to the questions of `Transactions.ahead`. Each function waits for its answer, or asks again."""

    version: Callable[[], TransactionVersion]
    open_transactions: Callable[[], Listed]


class Transactions:
    """Questions to the coordinators of transactions."""

    def __init__(self, caller: Caller, leaders: Leaders, coordinators: Coordinators) -> None:
        self._caller = caller
        self._leaders = leaders
        self._coordinators = coordinators

    # One's own, in both dialects.

    def version(self) -> TransactionVersion:
        """Ask for the dialect of transactions that begin now. Asks each time: an operator may raise it while we run."""
        return _version_in(self._caller.call_any(API_VERSIONS, _features_body()))

    def init_producer_id(
        self,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        held_by: ProducerId | None = None,
    ) -> ProducerId:
        """A producer id: any broker's for an idempotent producer, the coordinator's for a transactional one.

        The coordinator aborts an open transaction under the transactional id and fences the producer that began it.
        With `held_by` only where that producer holds the id, else ProducerFenced (KIP-360; brokers from 2.5 on, others:
        UnsupportedApiVersion). While a transaction is ongoing, brokers compare the producer ids alone, not the epochs.
        """
        body = _init_body(transactional_id, transaction_timeout_ms, held_by)
        if transactional_id is None:
            return _producer_in(self._caller.call_any(INIT_PRODUCER_ID, body))
        return _producer_in(self._coordinators.ask(TRANSACTION, transactional_id, INIT_PRODUCER_ID, body))

    def init_producer_ids(
        self,
        transactional_ids: Iterable[str],
        transaction_timeout_ms: int = 60_000,
        held_by: Mapping[str, ProducerId] = MappingProxyType({}),
    ) -> dict[str, ProducerId | BrokerError]:
        """Call `init_producer_id` for many ids, pipelined to their coordinators: aborts and fences open
        transactions."""
        bodies: dict[str, RequestBody] = {
            name: _init_body(name, transaction_timeout_ms, held_by.get(name)) for name in transactional_ids
        }
        answers = self._coordinators.ask_each(TRANSACTION, INIT_PRODUCER_ID, bodies)
        return {name: each if isinstance(each, BrokerError) else _producer_in(each) for name, each in answers.items()}

    def commit_offsets(
        self,
        transactional_id: str,
        producer: ProducerId,
        group: str,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        version: int,
    ) -> None:
        """Offsets with a text beside each (4096 bytes by default), visible once the transaction is committed.

        In dialect 1 only after `add_offsets`.
        """
        body = {**_of(transactional_id, producer), "group_id": group, "topics": committed_rows(offsets)}
        first, last = _TXN_OFFSET_COMMIT[version]
        self._coordinators.ask(
            GROUP, group, TXN_OFFSET_COMMIT, _from(first, body), max_version=last, check=check_committed
        )

    def end(self, transactional_id: str, producer: ProducerId, commit: bool, version: int) -> ProducerId:
        """Commit or abort; the producer id and epoch for the next transaction, which in dialect 1 are the same.

        Sent again, in the same dialect, until the answer is definite. Raises InvalidTxnState where nothing was open or
        the opposite was done, ProducerFenced or InvalidProducerEpoch where another producer has taken over or the
        transaction's timeout had ended it, and DeadlineExceeded where it may be either way.
        """
        first, last = _END_TXN[version]
        body = _from(first, {**_of(transactional_id, producer), "committed": commit})
        answer = self._coordinators.ask(TRANSACTION, transactional_id, END_TXN, body, max_version=last)
        return producer if answer["producer_id"] < 0 else _producer_in(answer)

    def end_each(
        self, transactions: Iterable[tuple[str, ProducerId]], commit: bool, version: int
    ) -> dict[str, BrokerError | None]:
        """`end` of many at once, pipelined to their coordinators. By transactional id: None, or why it failed.

        Raises DeadlineExceeded where the outcome of one is not known in time; others may have ended by then.
        """
        first, last = _END_TXN[version]
        bodies = {name: _from(first, {**_of(name, producer), "committed": commit}) for name, producer in transactions}
        answers = self._coordinators.ask_each(TRANSACTION, END_TXN, bodies, max_version=last)
        return {name: each if isinstance(each, BrokerError) else None for name, each in answers.items()}

    # One's own, in dialect 1 only.

    def add_partitions(self, transactional_id: str, producer: ProducerId, partitions: Iterable[TopicPartition]) -> None:
        """To be done before the first batch of each partition is sent."""
        self._coordinators.ask(
            TRANSACTION,
            transactional_id,
            ADD_PARTITIONS_TO_TXN,
            add_partitions_body(transactional_id, producer, partitions),
            max_version=LAST_CLIENT_VERSION,
            check=check_added_partitions,
        )

    def add_offsets(self, transactional_id: str, producer: ProducerId, group: str) -> None:
        """To be done before `commit_offsets`."""
        body = {**_of(transactional_id, producer), "group_id": group}

        def check(answer: Body, what: str) -> Body:
            return checked(answer, f"{what}, group {group!r}")

        self._coordinators.ask(TRANSACTION, transactional_id, ADD_OFFSETS_TO_TXN, body, check=check)

    # All that there are. Brokers from 3.0 on.

    def list(self, prefix: str, states: Collection[str] = (ONGOING,)) -> Sequence[ListedTransaction]:
        """Transactions whose id begins with `prefix`, by id; of all states where none is named. Asks every broker.

        Leaves out, without a word, what the ACLs (Describe on the transactional id) do not let us see.
        """
        return Listing(self._caller, prefix, states, patient=True).result().transactions

    def list_reachable(self, prefix: str, states: Collection[str] = (ONGOING,)) -> Listed:
        """The same of the brokers that can be reached within seconds, and which cannot."""
        return Listing(self._caller, prefix, states, patient=False).result()

    def ahead(self, prefix: str, transactional_id: str, groups: Iterable[str]) -> Ahead:
        """Ask in one go for the dialect, the brokers, the open transactions under the prefix, and the coordinators.

        No question depends on the answer to another, so this takes one round trip, and none where the caller has
        something else to ask meanwhile. Waits only for coordinators that are not known: the next request needs them.
        """
        caller = self._caller
        with caller.lock:
            node_id, _ = caller.network.least_loaded()
            if node_id is None or not caller.metadata.nodes():
                return Ahead(self.version, lambda: self.list_reachable(prefix))
            lookups = self._coordinators.look_up(node_id, {TRANSACTION: [transactional_id], GROUP: [*groups]})
            features = caller.send(node_id, API_VERSIONS, _features_body())
            brokers = caller.network.refresh_metadata(node_id, [])
            listing = Listing(caller, prefix, (ONGOING,), patient=False)
            sent = listing.ask(caller.config.request_timeout_ms)
        caller.wait(*lookups)

        def version() -> TransactionVersion:
            caller.wait(features)
            try:
                return _version_in(checked(features.result(), API_VERSIONS.name))
            except KafkaSourceError:
                return self.version()

        def open_transactions() -> Listed:
            caller.wait(brokers, *sent.values())
            return listing.result(sent)

        return Ahead(version, open_transactions)

    def describe(
        self, transactional_ids: Iterable[str], without: Collection[int] = ()
    ) -> dict[str, DescribedTransaction | None]:
        """Each transaction's state, from its coordinator. None: no such id, or it expired (7 days after its last use).

        Ids whose coordinators are among the nodes of `without` are left out.
        """
        names: Sequence[str] = [*transactional_ids]
        if without:
            names = self._not_coordinated_by(names, without)
        bodies: dict[str, RequestBody] = {name: {"transactional_ids": [name]} for name in names}
        found: dict[str, DescribedTransaction | None] = {}
        for name, answer in self._coordinators.ask_each(TRANSACTION, DESCRIBE_TRANSACTIONS, bodies).items():
            if isinstance(answer, TransactionalIdNotFound):
                found[name] = None
            elif isinstance(answer, BrokerError):
                raise answer
            else:
                found[name] = described(answer, name)
        return found

    def _not_coordinated_by(self, names: Sequence[str], without: Collection[int]) -> Sequence[str]:
        found = self._coordinators.of_each(TRANSACTION, names)
        return [name for name in names if not isinstance(found[name], BrokerError) and found[name] not in without]

    def describing(self, transactional_id: str) -> Callable[[], DescribedTransaction | None]:
        """Ask now for a transaction's state. Call the returned function later: it waits for the answer.

        The answer shows a state after this call; None: no such id, or no answer came. Blocks only while the coordinator
        is not known.
        """
        node_id = self._coordinators.of(TRANSACTION, transactional_id)
        pending = self._caller.send(node_id, DESCRIBE_TRANSACTIONS, {"transactional_ids": [transactional_id]})

        def answer() -> DescribedTransaction | None:
            self._caller.wait(pending)
            try:
                with self._caller.reading(DESCRIBE_TRANSACTIONS):
                    found = checked(pending.result(), f"DescribeTransactions of {transactional_id!r}")
            except KafkaSourceError as error:
                if not error.retriable and not isinstance(error, TransactionalIdNotFound):
                    raise
                return None
            return described(found, transactional_id)

        return answer

    def abort(self, transactional_id: str) -> DescribedTransaction:
        """Abort the open transaction of an id, fence its producer, and return it. Never invents a transactional id.

        A producer that still uses the id fails from now on. Raises TransactionalIdNotFound.
        """
        found = self.describe([transactional_id])[transactional_id]
        if found is None:
            raise error_for(TransactionalIdNotFound.CODE, repr(transactional_id))
        self.init_producer_id(transactional_id, found.timeout_ms)
        return found

    def producers(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Sequence[ActiveProducer]]:
        """Ask the leaders (2.8 or newer) which producers write to partitions, and whose transaction is open there."""

        def body(led: Sequence[TopicPartition], left_ms: float) -> RequestBody:
            topics = indexes_by_topic(led).items()
            return {"topics": [{"name": name, "partition_indexes": indexes} for name, indexes in topics]}

        def active(_tp: TopicPartition, row: Body) -> Sequence[ActiveProducer]:
            return [_active(each) for each in row["active_producers"]]

        return self._leaders.ask(DESCRIBE_PRODUCERS, [*partitions], body, active)


def lacking(supports: Callable[[Api, int], bool]) -> list[str]:
    """The APIs that a transaction with offsets needs and the brokers do not offer. `supports`: as of a `Cluster`."""
    return [api.name for api, version in _NEEDED.items() if not supports(api, version)]


def add_partitions_body(transactional_id: str, producer: ProducerId, partitions: Iterable[TopicPartition]) -> Fields:
    """The body of an AddPartitionsToTxn request in the versions for clients (`max_version=LAST_CLIENT_VERSION`)."""
    topics = [{"name": name, "partitions": found} for name, found in indexes_by_topic(partitions).items()]
    return {
        **{f"v3_and_below_{field}": value for field, value in _of(transactional_id, producer).items()},
        "v3_and_below_topics": topics,
    }


def check_added_partitions(answer: Body, what: str) -> Body:
    """Raise the error that kept partitions from being added; one of them keeps all."""
    errors = [
        error_for(row["partition_error_code"], f"{what}, {topic['name']}-{row['partition_index']}")
        for topic in answer["results_by_topic_v3_and_below"]
        for row in topic["results_by_partition"]
        if row["partition_error_code"]
    ]
    if errors:
        raise min(errors, key=lambda error: (isinstance(error, OperationNotAttempted), error.retriable))
    return checked(answer, what)


def _features_body() -> Fields:
    """An ApiVersions request: the answer has the features of the cluster."""
    return {"client_software_name": "kafkasource", "client_software_version": software_version()}


def _version_in(answer: Fields) -> TransactionVersion:
    """The dialect, by the features in an answer to ApiVersions. Dialect 2 only where its requests are served, too."""
    features = answer["finalized_features"]
    level = max((row["max_version_level"] for row in features if row["name"] == "transaction.version"), default=0)
    served = {row["api_key"]: row["max_version"] for row in answer["api_keys"]}
    can = all(served.get(key, -1) >= version for key, version in _SINCE_DIALECT_2.items())
    return 2 if level >= 2 and can else 1


def _init_body(transactional_id: str | None, transaction_timeout_ms: int, held_by: ProducerId | None) -> RequestBody:
    body = {"transactional_id": transactional_id, "transaction_timeout_ms": transaction_timeout_ms}
    if held_by is None:
        return body
    held = {**body, **held_by._asdict()}

    def held_body(version: int) -> Fields:
        if version < _INIT_NAMES_HOLDER:
            raise UnsupportedApiVersion(f"InitProducerId v{version} cannot name the producer that holds the id")
        return held

    return held_body


def _from(first: int, body: Fields) -> Callable[[int], Fields]:
    """The body, in no version before the first of its dialect."""

    def checked_body(version: int) -> Fields:
        if version < first:
            raise UnsupportedApiVersion(
                f"this transaction was begun with transaction.version 2, which needs version {first} of the request;"
                f" the broker serves {version} at most"
            )
        return body

    return checked_body


def _of(transactional_id: str, producer: ProducerId) -> Fields:
    return {"transactional_id": transactional_id, **producer._asdict()}


def _producer_in(answer: Fields) -> ProducerId:
    """The producer that an answer, or a row of one, names."""
    return ProducerId(answer["producer_id"], answer["producer_epoch"])


def _active(row: Fields) -> ActiveProducer:
    return ActiveProducer(
        _producer_in(row),
        known(row["last_sequence"]),
        known(row["last_timestamp"]),
        known(row["current_txn_start_offset"]),
    )
