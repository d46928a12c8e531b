"""The transaction coordinators of `FakeKafka`, in both dialects.

How they answer was seen on Kafka 3.9.2 and 4.3.1, where tests/kafka/cluster/test_transaction_facts.py looks
again.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED = 47, 48, 49, 90
NOT_COORDINATOR, UNSTABLE_OFFSET_COMMIT, TRANSACTIONAL_ID_NOT_FOUND = 16, 88, 105
OFFSET_METADATA_TOO_LARGE, INVALID_TRANSACTION_TIMEOUT, TRANSACTION_ABORTABLE = 12, 50, 120

LAST_EPOCH = 32_766
"""The last one that a coordinator gives out, seen on both releases: another producer id with epoch 0 comes after it."""

_BATCH_PRODUCER = struct.Struct(">qhii")  # id, epoch, base sequence, record count, from byte 43 of a record batch v2


@dataclass
class FakeTransaction:
    """What its coordinator knows of a transactional id."""

    producer_id: int
    epoch: int = 0
    state: str = "Empty"
    timeout_ms: int = 60_000
    partitions: set[tuple[str, int]] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    offsets: dict[tuple[str, str, int], tuple[int, str]] = field(default_factory=dict)  # visible once committed
    before: tuple[int, int] | None = None  # id and epoch that the last end raised: whoever asks again has these


class FakeTransactions:
    """Base of `FakeKafka`. A test looks at `transactions`, and may let time end one with `time_out`."""

    topics: dict[str, Any]  # FakeKafka's

    def __init__(self) -> None:
        self.transaction_version = 2  # as finalized in the cluster
        self.transaction_max_timeout_ms = 900_000
        self.transactions: dict[str, FakeTransaction] = {}
        self.coordinator = 1  # of every group and transactional id ...
        self.coordinators: dict[str, int] = {}  # ... but these
        self.committed: dict[tuple[str, str, int], int] = {}
        self.committed_metadata: dict[tuple[str, str, int], str] = {}
        self._producer_ids = 0

    def coordinator_of(self, key: str) -> int:
        return self.coordinators.get(key, self.coordinator)

    def time_out(self, transactional_id: str) -> None:
        """What the coordinator does once transaction.timeout.ms is over."""
        txn = self.transactions[transactional_id]
        assert txn.state == "Ongoing"
        self._end(txn, commit=False)
        txn.before = (txn.producer_id, txn.epoch) if self.transaction_version >= 2 else None
        txn.epoch += 1  # even to the one behind the last, which only fences

    def _end(self, txn: FakeTransaction, commit: bool) -> None:
        if commit:
            for key, (offset, text) in txn.offsets.items():
                self.committed[key], self.committed_metadata[key] = offset, text
        txn.state = "CompleteCommit" if commit else "CompleteAbort"
        txn.partitions.clear()
        txn.groups.clear()
        txn.offsets.clear()

    def _new_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    def _raise_epoch(self, txn: FakeTransaction) -> None:
        if txn.epoch < LAST_EPOCH:
            txn.epoch += 1
        else:
            txn.producer_id, txn.epoch = self._new_producer_id(), 0

    def _init_producer_id(self, request: Any) -> dict:
        name = request.body["transactional_id"]
        if name is None:
            return {"error_code": 0, "producer_id": self._new_producer_id(), "producer_epoch": 0}
        code = 0
        if request.node_id != self.coordinator_of(name):
            code = NOT_COORDINATOR
        elif request.body["transaction_timeout_ms"] > self.transaction_max_timeout_ms:
            code = INVALID_TRANSACTION_TIMEOUT
        if code:
            return {"error_code": code, "producer_id": -1, "producer_epoch": -1}
        txn = self.transactions.get(name)
        if txn is None:
            txn = self.transactions[name] = FakeTransaction(self._new_producer_id())
        else:
            if txn.state == "Ongoing":
                self._end(txn, commit=False)
                txn.epoch += 1  # as above
            self._raise_epoch(txn)
            txn.state, txn.before = "Empty", None
        txn.timeout_ms = request.body["transaction_timeout_ms"]
        return {"error_code": 0, "producer_id": txn.producer_id, "producer_epoch": txn.epoch}

    def _found(self, node_id: int, name: str, producer_id: int, epoch: int) -> tuple[FakeTransaction | None, int]:
        """The transaction that a producer may add to, or why not."""
        txn = self.transactions.get(name)
        if node_id != self.coordinator_of(name):
            return None, NOT_COORDINATOR
        if txn is None or txn.producer_id != producer_id:
            return None, INVALID_PRODUCER_ID_MAPPING
        if txn.epoch != epoch:
            return None, PRODUCER_FENCED
        return txn, 0

    def _add_partitions_to_txn(self, request: Any) -> dict:
        body = {name.removeprefix("v3_and_below_"): value for name, value in request.body.items()}
        txn, code = self._found(request.node_id, body["transactional_id"], body["producer_id"], body["producer_epoch"])
        unknown = {
            (topic["name"], partition)
            for topic in body["topics"]
            for partition in topic["partitions"]
            if topic["name"] not in self.topics or partition >= len(self.topics[topic["name"]].leaders)
        }
        if txn is not None and not unknown:
            txn.state = "Ongoing"
            txn.partitions.update((topic["name"], each) for topic in body["topics"] for each in topic["partitions"])

        def row(name: str, partition: int) -> dict:
            found = code or (0 if not unknown else 3 if (name, partition) in unknown else 55)
            return {"partition_index": partition, "partition_error_code": found}

        topics = [
            {"name": topic["name"], "results_by_partition": [row(topic["name"], each) for each in topic["partitions"]]}
            for topic in body["topics"]
        ]
        return {"results_by_topic_v3_and_below": topics}

    def _add_offsets_to_txn(self, request: Any) -> dict:
        body = request.body
        txn, code = self._found(request.node_id, body["transactional_id"], body["producer_id"], body["producer_epoch"])
        if txn is not None:
            txn.state = "Ongoing"
            txn.groups.add(body["group_id"])
        return {"error_code": code}

    def _txn_offset_commit(self, request: Any) -> dict:
        body = request.body
        name, group = body["transactional_id"], body["group_id"]
        txn, code = self._found(self.coordinator_of(name), name, body["producer_id"], body["producer_epoch"])
        code = {PRODUCER_FENCED: INVALID_PRODUCER_EPOCH}.get(code, code)
        if request.node_id != self.coordinator_of(group):
            txn, code = None, NOT_COORDINATOR
        elif txn is not None and request.version < 5 and group not in txn.groups:
            txn, code = None, TRANSACTION_ABORTABLE if request.version >= 4 else INVALID_TXN_STATE

        def row(topic: str, asked: dict) -> dict:
            index, text = asked["partition_index"], asked["committed_metadata"] or ""
            found = code
            if not found and (topic not in self.topics or index >= len(self.topics[topic].leaders)):
                found = 3
            if not found and len(text.encode()) > 4096:
                found = OFFSET_METADATA_TOO_LARGE
            if not found and txn is not None:
                txn.state = "Ongoing"
                txn.groups.add(group)
                txn.offsets[group, topic, index] = asked["committed_offset"], text
            return {"partition_index": index, "error_code": found}

        return {
            "topics": [
                {"name": topic["name"], "partitions": [row(topic["name"], asked) for asked in topic["partitions"]]}
                for topic in body["topics"]
            ]
        }

    def _end_txn(self, request: Any) -> dict:
        code, txn = self._end_as_asked(request)
        if code or txn is None or request.version < 5:
            return {"error_code": code}
        return {"error_code": 0, "producer_id": txn.producer_id, "producer_epoch": txn.epoch}

    def _end_as_asked(self, request: Any) -> tuple[int, FakeTransaction | None]:
        body = request.body
        name, commit, raises = body["transactional_id"], body["committed"], request.version >= 5
        txn = self.transactions.get(name)
        if request.node_id != self.coordinator_of(name):
            return NOT_COORDINATOR, None
        asks = body["producer_id"], body["producer_epoch"]
        again = raises and txn is not None and txn.before == asks and txn.state != "Ongoing"
        if txn is None or (txn.producer_id != body["producer_id"] and not again):
            return INVALID_PRODUCER_ID_MAPPING, None
        if not again and body["producer_epoch"] != txn.epoch:
            return PRODUCER_FENCED if request.version >= 2 else INVALID_PRODUCER_EPOCH, None
        if txn.state == "Ongoing":
            self._end(txn, commit)
            txn.before = asks if raises else None
            if raises:
                self._raise_epoch(txn)
            return 0, txn
        same = txn.state == ("CompleteCommit" if commit else "CompleteAbort") and again == raises
        return (0 if same else INVALID_TXN_STATE), txn

    def _describe_transactions(self, request: Any) -> dict:
        def row(name: str) -> dict:
            txn = self.transactions.get(name)
            if request.node_id != self.coordinator_of(name) or txn is None:
                code = TRANSACTIONAL_ID_NOT_FOUND if txn is None else NOT_COORDINATOR
                return {"error_code": code, "transactional_id": name}
            return {
                "error_code": 0,
                "transactional_id": name,
                "transaction_state": txn.state,
                "transaction_timeout_ms": txn.timeout_ms,
                "transaction_start_time_ms": 1_700_000_000_000 if txn.state == "Ongoing" else -1,
                "producer_id": txn.producer_id,
                "producer_epoch": txn.epoch,
                "topics": [{"topic": topic, "partitions": [index]} for topic, index in sorted(txn.partitions)],
            }

        return {"transaction_states": [row(name) for name in request.body["transactional_ids"]]}

    def _list_transactions(self, request: Any) -> dict:
        states = request.body["state_filters"]
        rows = [
            {"transactional_id": name, "producer_id": txn.producer_id, "transaction_state": txn.state}
            for name, txn in self.transactions.items()
            if self.coordinator_of(name) == request.node_id and (not states or txn.state in states)
        ]
        return {"error_code": 0, "transaction_states": rows}

    def _describe_producers(self, request: Any) -> dict:
        def row(topic: str, index: int) -> dict:
            active = [
                {"producer_id": txn.producer_id, "producer_epoch": txn.epoch, "coordinator_epoch": 0}
                | {"current_txn_start_offset": 100, "last_sequence": 0, "last_timestamp": 1}
                for txn in self.transactions.values()
                if (topic, index) in txn.partitions
            ]
            code = 0 if self.topics[topic].leaders[index] == request.node_id else 6
            return {"partition_index": index, "error_code": code, "active_producers": active}

        return {
            "topics": [
                {"name": each["name"], "partitions": [row(each["name"], i) for i in each["partition_indexes"]]}
                for each in request.body["topics"]
            ]
        }

    def is_stable(self, key: tuple[str, str, int]) -> bool:
        return not any(key in txn.offsets for txn in self.transactions.values())

    def transactional_code(self, request: Any, topic: str, index: int, records: Any) -> int:
        """What Produce answers for a batch of a transaction, which it may add its partition to."""
        producer_id, epoch, _, _ = _BATCH_PRODUCER.unpack_from(records, 43)
        name = request.body["transactional_id"]
        txn, code = self._found(self.coordinator_of(name), name, producer_id, epoch)
        if txn is None:
            return {PRODUCER_FENCED: INVALID_PRODUCER_EPOCH}.get(code, code)
        if (topic, index) not in txn.partitions:
            if request.version < 12:
                return TRANSACTION_ABORTABLE if request.version >= 11 else INVALID_TXN_STATE
            txn.state = "Ongoing"
            txn.partitions.add((topic, index))
        return 0
