"""Names of a query's transactions, and the form in which the decision record lists them.

Each task writes in a transaction of its own, the task transaction. Its transactional id is made of the query's
prefix P and the task's slot (its partition id). Slots are reused batch after batch: brokers keep every transactional id
for seven days.

    P-driver         the driver's transactional id: its transaction decides a batch
    P-0, P-1, ...    the transactional ids of the tasks, by slot
    P-marker         the group whose offsets are the decision record
    P-kept           the group whose offsets are the decision's status; it outlives the record (`decision_status`)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kafkasource.errors import ProtocolError
from kafkasource.kafka.protocol.primitives import ByteReader, ByteWriter
from kafkasource.types import ProducerId


@dataclass(frozen=True, slots=True)
class TransactionalIds:
    """The names of one query. No other query uses them."""

    prefix: str

    @property
    def driver(self) -> str:
        return f"{self.prefix}-driver"

    @property
    def marker_group(self) -> str:
        return f"{self.prefix}-marker"

    @property
    def kept_group(self) -> str:
        return f"{self.prefix}-kept"

    def task(self, slot: int) -> str:
        """The transactional id of the task in this slot."""
        return f"{self.prefix}-{slot}"

    def slot(self, transactional_id: str) -> int | None:
        """The slot of a task's transactional id; None for other ids, such as one of a prefix that begins like ours."""
        match = re.fullmatch(re.escape(self.prefix) + r"-(0|[1-9]\d{0,9})", transactional_id)
        return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class WrittenTransaction:
    """A task transaction whose every record is acknowledged, as the decision record names it."""

    slot: int
    producer_id: int
    producer_epoch: int
    rows: int
    content: int  # the sum of the rows' contents (`task.content`)

    @property
    def producer(self) -> ProducerId:
        return ProducerId(self.producer_id, self.producer_epoch)


# A packed transaction: slot less the slot before, less one (unsigned varint); producer id less the id before (zigzag
# varlong); epoch (unsigned varint); rows (varlong); content (8 bytes). About 14 bytes: ids come from blocks of 1,000.


def pack_transaction(transaction: WrittenTransaction, before: WrittenTransaction | None) -> bytes:
    """The bytes of a transaction behind another of a lower slot, or at the front."""
    writer = ByteWriter()
    writer.unsigned_varint(transaction.slot - (before.slot if before else -1) - 1)
    writer.varlong(transaction.producer_id - (before.producer_id if before else 0))
    writer.unsigned_varint(transaction.producer_epoch)
    writer.varlong(transaction.rows)
    writer.int64(transaction.content - (1 << 64 if transaction.content >> 63 else 0))
    return writer.getvalue()


def pack_transactions(transactions: Iterable[WrittenTransaction]) -> bytes:
    packed, before = b"", None
    for transaction in transactions:
        packed += pack_transaction(transaction, before)
        before = transaction
    return packed


def unpack_transactions(data: bytes, count: int) -> tuple[WrittenTransaction, ...]:
    """Exactly `count` transactions and no byte more; raises ProtocolError."""
    if not 0 <= count <= len(data):
        raise ProtocolError(f"{count} transactions cannot be in {len(data)} bytes")
    reader = ByteReader(data)
    transactions: list[WrittenTransaction] = []
    slot, producer_id = -1, 0
    for _ in range(count):
        slot += reader.unsigned_varint() + 1
        producer_id += reader.varlong()
        epoch, rows, content = reader.unsigned_varint(), reader.varlong(), reader.int64() % (1 << 64)
        transaction = WrittenTransaction(slot, producer_id, epoch, rows, content)
        if slot > 0x7FFFFFFF or producer_id < 0 or transaction.producer_epoch > 0x7FFF or transaction.rows < 1:
            raise ProtocolError(f"no transaction is like this: {transaction}")
        transactions.append(transaction)
    reader.finish()
    return tuple(transactions)
