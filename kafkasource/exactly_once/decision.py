"""The decision record: says that a batch is to be committed, and lists the task transactions that make it up.

It is kept as offsets of the group P-marker. The driver commits them in a transaction of its own, so all are there or
none. The offset is the batch's id, the metadata is text that an operator can read in part:

    kafkasource/1 number=8 kind=stream query=6f0c... batch=7 rows=90 content=00c0ffee... tv=2 part=0/1 transactions=3
    <task transactions, packed, base85>

Rows and content (`task.content`) are those of the whole batch. A batch that Spark runs again must have the same ones to
be skipped. A prefix belongs to one query, or to batch writes (`df.write`; each has an id of its own and is never
replayed): the kind tells these apart.

A broker takes 4096 bytes of metadata for a partition (offset.metadata.max.bytes): some 200 task transactions. More are
spread over more partitions in the driver's transaction. Offsets of earlier decisions may stay at other partitions, so
the highest `number` is the last decision. Its parts are all there, or somebody else has written to the group.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from kafkasource.errors import ProtocolError
from kafkasource.exactly_once.errors import TooManyTransactions, UnreadableDecision
from kafkasource.exactly_once.names import (
    TransactionalIds,
    WrittenTransaction,
    pack_transaction,
    pack_transactions,
    unpack_transactions,
)
from kafkasource.kafka.security.quoting import printable
from kafkasource.types import TopicPartition

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.groups import Groups

MAX_METADATA_BYTES = 4096
MAX_COPIES_BYTES = 128 * 1024  # of one decision, in all its places; some 700 topics of batches of a few tasks
_MAX_PARTS = 100_000

_RECORD = re.compile(
    r"kafkasource/1 number=(\d{1,18}) kind=(stream|write) query=([!-~]{1,200}) batch=(\d{1,18}) rows=(\d{1,18})"
    r" content=([0-9a-f]{16}) tv=([12]) part=(\d{1,6})/(\d{1,6}) transactions=(\d{1,6}) ([!-~]*)"
)

Kind = Literal["stream", "write"]

Committed = Mapping[TopicPartition, "tuple[int, str] | None"]
"""Offsets of a group with their metadata; None where there is none."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One batch, decided."""

    number: int  # of the decisions under this prefix, from 1
    query_id: str  # of a batch write: its id
    batch_id: int  # of a batch write: 0
    transaction_version: int  # the dialect in which its task transactions are ended every time (decision 39)
    transactions: tuple[WrittenTransaction, ...]  # by ascending slot; none where the driver's own holds the rows
    kind: Kind = "stream"
    rows: int = 0  # of the whole batch, also where not all of it is in `transactions`
    content: int = 0  # likewise
    topics: tuple[str, ...] = field(default=(), compare=False)  # where its record was found

    def is_of(self, query_id: str, batch_id: int) -> bool:
        return (self.query_id, self.batch_id) == (query_id, batch_id)

    def parts(self) -> list[str]:
        """The texts to commit, each within the limit."""
        room = MAX_METADATA_BYTES - len(self._head(_MAX_PARTS, _MAX_PARTS, _MAX_PARTS))
        chunks: list[list[WrittenTransaction]] = [[]]
        size = 0
        for transaction in self.transactions:
            added = len(pack_transaction(transaction, chunks[-1][-1] if chunks[-1] else None))
            if chunks[-1] and _base85_size(size + added) > room:
                chunks.append([])
                size, added = 0, len(pack_transaction(transaction, None))
            chunks[-1].append(transaction)
            size += added
        return [
            self._head(part, len(chunks), len(chunk)) + base64.b85encode(pack_transactions(chunk)).decode()
            for part, chunk in enumerate(chunks)
        ]

    def _head(self, part: int, parts: int, count: int) -> str:
        return (
            f"kafkasource/1 number={self.number} kind={self.kind} query={self.query_id} batch={self.batch_id} "
            f"rows={self.rows} content={self.content:016x} tv={self.transaction_version} part={part}/{parts} "
            f"transactions={count} "
        )

    def placed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """The offsets to commit. `partitions`: that the batch wrote to. Raises TooManyTransactions.

        The first in order takes the first part, so that batches of one shape write the same places. Brokers drop the
        offsets of a topic that is deleted, so each further topic that has room for all parts gets a copy: as long as
        some rows of the batch are left, its decision is left. The copies take up to MAX_COPIES_BYTES; of more topics
        only the first ones get one.
        """
        places = sorted(set(partitions))
        parts = self.parts()
        if len(parts) > len(places):
            raise TooManyTransactions(
                f"{len(self.transactions)} tasks wrote; the record of their transactions needs {len(parts)} partitions "
                f"of the topics written, which have {len(places)} in use: write with fewer tasks (coalesce), or "
                "atomicBatch"
            )
        placed = dict(zip(places, parts, strict=False))
        size = room = sum(map(len, parts))
        for _, found in groupby(places, key=lambda place: place.topic):
            copy = dict(zip(found, parts, strict=False))
            size += room
            if len(copy) == len(parts) and size <= MAX_COPIES_BYTES:
                placed.update(copy)
        return {place: (self.batch_id, text) for place, text in placed.items()}


def last_decision(committed: Committed) -> Decision | None:
    """The decision that a group's offsets stand for; None where there are none. Raises UnreadableDecision."""
    found: dict[int, dict[int, tuple[int, Decision]]] = {}
    topics: dict[int, set[str]] = {}
    for tp, row in committed.items():
        if row is None:
            continue
        part, parts, decision = _parsed(tp, *row)
        found.setdefault(decision.number, {})[part] = parts, decision
        topics.setdefault(decision.number, set()).add(tp.topic)
    if not found:
        return None
    pieces = found[max(found)]
    first = min(pieces)
    parts, head = pieces[first]
    whole = [pieces[part] for part in range(parts) if part in pieces]
    transactions = tuple(each for _, piece in whole for each in piece.transactions)
    slots = [each.slot for each in transactions]
    same = {(of, replace(piece, transactions=())) for of, piece in pieces.values()}
    if len(whole) != parts or len(pieces) != parts or len(same) != 1 or slots != sorted(set(slots)):
        raise UnreadableDecision(
            f"the decision record of batch {head.batch_id} is not whole: parts {sorted(pieces)} of {parts}"
        )
    return replace(head, transactions=transactions, topics=tuple(sorted(topics[head.number])))


def _parsed(tp: TopicPartition, offset: int, text: str) -> tuple[int, int, Decision]:
    match = _RECORD.fullmatch(text)
    if match is not None:
        number, batch_id, rows, version, part, parts, count = (int(match[i]) for i in (1, 4, 5, 7, 8, 9, 10))
        try:
            transactions = unpack_transactions(base64.b85decode(match[11]), count)
        except (ValueError, ProtocolError):
            match = None
    if match is None or offset != batch_id or not part < parts:
        raise UnreadableDecision(
            f"offset {offset} at {tp} is not a decision record of this version: {printable(text, 80)}"
        )
    kind: Kind = "write" if match[2] == "write" else "stream"
    content = int(match[6], 16)
    return part, parts, Decision(number, match[3], batch_id, version, transactions, kind, rows, content)


class DecisionLog:
    """The decision records of one prefix, as its group P-marker has them. On the driver; each call blocks."""

    def __init__(self, groups: Groups, ids: TransactionalIds) -> None:
        self._groups = groups
        self._group = ids.marker_group

    def last(self, places: Iterable[TopicPartition] = ()) -> Decision | None:
        """The last decision. Waits while one that may lie at these places is neither committed nor aborted.

        It is not enough to ask for all that the group has. Brokers leave out a partition that had no offset before,
        while one is on its way there in a transaction, and until they have taken in its end (Kafka 3.9: which may be
        after the transaction's coordinator calls it complete). So a caller that may have decided says where. `begin`
        cannot know that, but comes after its own InitProducerId, which ends what is on its way.
        """
        named = sorted(set(places))
        if named:
            self._groups.committed(self._group, named)
        return last_decision(self._groups.committed(self._group, None))

    def last_seen(self) -> Decision | None:
        """The last decision, without waiting for one that is on its way."""
        return last_decision(self._groups.committed(self._group, None, require_stable=False))

    def places(self) -> list[TopicPartition]:
        """List the topic-partitions that hold records."""
        return [tp for tp, row in self._groups.committed(self._group, None).items() if row]


def _base85_size(size: int) -> int:
    return size // 4 * 5 + (size % 4 + 1 if size % 4 else 0)
