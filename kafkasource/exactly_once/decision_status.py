"""The status, which outlives the decision record: how far the query had come with its last decision.

Brokers forget offsets of a group without members after `offsets.retention.minutes` (7 days by default), and when their
topic is deleted. The decision record is such offsets, and there is no way to commit offsets in a transaction and ask
for a longer life. A plain OffsetCommit of a version up to 4 can ask for one (`retention_time_ms`), and brokers grant
it: KIP-211 ended the field for clients, not for brokers (seen on 3.9.2 and 4.3.1). So beside the group P-marker, which
holds the decision, there is the group P-kept, which says where the last decision stands:

    kafkasource/1 number=8 query=6f0c... batch=7 state=deciding rows=90 content=00c0ffee... producer=4001 epoch=3

    deciding    written before the decision is made, by the driver with this producer id and epoch (-1 where the rows
                of lost task transactions were written again: part of the batch is in the topics, whatever the
                coordinator says of this decision)
    ended       the decision was made, and all its transactions are committed; or the user went on without the batch
    undecided   the decision was not made, nor any after it

It is a group of its own because a plain commit is not fenced. A driver that was believed dead may write late: into
P-marker it would put an old record over a newer decision. Here it can only put an older state over a newer one, and
wherever P-marker has a decision of that number or a higher one, the decision counts.

| the driver dies                         | P-marker | P-kept      | next begin           | once P-marker expired |
|-----------------------------------------|----------|-------------|----------------------|-----------------------|
| before any batch had rows               | none     | none        | writes (***)         | writes (***)          |
| before `deciding` n is written          | n-1      | ended n-1   | writes               | writes                |
| before decision n is committed          | n-1      | deciding n  | writes (*)           | stops (**)            |
| before the transactions of n have ended | n        | deciding n  | ends them, skips     | stops (**)            |
| before Spark has noted the batch        | n        | ended n     | skips                | skips                 |
| later                                   | n        | ended n     | writes the next one  | writes the next one   |

(*) Where P-marker has no older decision either, as in the first batch that has rows, begin asks the coordinator what
became of that driver's transaction. The next InitProducerId makes it forget, so begin writes `undecided` n first.
(**) As `lostTransactions` says, and only if this batch is to be written: a decision may have been made, and no record
of it is left (the coordinator forgets a transactional id after 7 days, too).
(***) A batch without rows is not decided, so the first decision may be that of the hundredth batch. A query that wrote
at least once until now has decided nothing either: the first batch that it begins may be in the topics already. The
commit warns of that batch (`BatchCommit`).

`states.FOUND` and `states.PLANS` are this table as data, by what begin finds; a test walks through both.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from kafkasource.errors import BrokerError, InvalidTxnState, KafkaSourceError, UnsupportedApiVersion
from kafkasource.exactly_once.decision import Committed, Decision, Kind
from kafkasource.exactly_once.errors import UnreadableDecision
from kafkasource.exactly_once.names import TransactionalIds
from kafkasource.exactly_once.states import FOUND, Found, LastRecord, Status
from kafkasource.kafka.cluster.transactions import DescribedTransaction
from kafkasource.kafka.security.quoting import printable
from kafkasource.types import ProducerId, TopicPartition

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster

log = logging.getLogger("kafkasource.sink")

RETENTION_MS = 100 * 365 * 24 * 3_600_000  # longer than any query; brokers add it to the time of day
MAX_PLACES = 64  # topics of one batch that get a copy: for all of these to be gone, so must be most of the batch
ELSEWHERE = TopicPartition("__consumer_offsets", 0)  # is there wherever groups are; not all may read it

Stage = Literal["deciding", "ended", "undecided"]
_STAGES: tuple[Stage, ...] = ("deciding", "undecided", "ended")  # of one number the last that was found holds

_RECORD = re.compile(
    r"kafkasource/1 number=(\d{1,18}) query=([!-~]{1,200}) batch=(\d{1,18}) state=(deciding|ended|undecided)"
    r" rows=(\d{1,18}) content=([0-9a-f]{16}) producer=(-?\d{1,19}) epoch=(-?\d{1,5})"
)


@dataclass(frozen=True, slots=True)
class DecisionStatus:
    """The record, as one value. Of streams only: a batch write is never replayed."""

    number: int  # of the decision
    query_id: str
    batch_id: int
    state: Stage
    driver: ProducerId
    rows: int = 0  # of the whole batch
    content: int = 0  # likewise
    topics: tuple[str, ...] = field(default=(), compare=False)  # where it was found

    def says_ended(self, last: Decision) -> bool:
        of_it = (self.number, self.query_id, self.batch_id) == (last.number, last.query_id, last.batch_id)
        return of_it and self.state == "ended"

    def now(self, state: Stage) -> DecisionStatus:
        return replace(self, state=state)

    def placed(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """Offsets and texts to commit: one in each topic, the lowest of its partitions in `places`."""
        text = (
            f"kafkasource/1 number={self.number} query={self.query_id} batch={self.batch_id} state={self.state} "
            f"rows={self.rows} content={self.content:016x} "
            f"producer={self.driver.producer_id} epoch={self.driver.producer_epoch}"
        )
        return dict.fromkeys(one_of_each_topic(places)[:MAX_PLACES], (self.batch_id, text))


def one_of_each_topic(places: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The lowest partition of each topic, in order."""
    first: dict[str, TopicPartition] = {}
    for tp in sorted(set(places)):
        first.setdefault(tp.topic, tp)
    return list(first.values())


def last_status(committed: Committed) -> tuple[DecisionStatus | None, tuple[TopicPartition, ...]]:
    """The record with the highest number and where it lies. Raises UnreadableDecision."""
    found = {tp: _parsed(tp, *row) for tp, row in committed.items() if row is not None}
    if not found:
        return None, ()
    last = max(found.values(), key=lambda status: (status.number, _STAGES.index(status.state)))
    places = tuple(sorted(tp for tp, status in found.items() if status.number == last.number))
    return replace(last, topics=tuple(dict.fromkeys(tp.topic for tp in places))), places


def _parsed(tp: TopicPartition, offset: int, text: str) -> DecisionStatus:
    match = _RECORD.fullmatch(text)
    if match is None or offset != int(match[3]):
        raise UnreadableDecision(f"offset {offset} at {tp} is not a record of this version: {printable(text, 80)}")
    state: Stage = next(each for each in _STAGES if each == match[4])
    driver = ProducerId(int(match[7]), int(match[8]))
    return DecisionStatus(int(match[1]), match[2], offset, state, driver, int(match[5]), int(match[6], 16))


def was_decided(status: DecisionStatus, driver: DescribedTransaction | None) -> bool | None:
    """Did the driver of this record commit its one transaction? As its coordinator says before the next InitProducerId.

    None: the coordinator cannot say, as the driver's id was initialised again since, or has expired.
    """
    if driver is None or driver.producer_id != status.driver.producer_id:
        return None
    ahead = driver.producer_epoch - status.driver.producer_epoch
    # An end raises the epoch in dialect 2, the coordinator's own abort in both.
    if driver.committed and ahead in (0, 1):
        return True
    if driver.aborted and ahead in (0, 1):
        return False
    return False if driver.state in ("Empty", "Ongoing") and ahead == 0 else None


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The last batch that was, or may have been, decided under the prefix, as begin knows it."""

    number: int  # of the decision
    kind: Kind
    query_id: str
    batch_id: int
    state: Literal["decided", "undecided", "unknown"] = "decided"
    rows: int = 0
    content: int = 0
    topics: tuple[str, ...] = field(default=(), compare=False)  # where its record lies

    def is_of(self, query_id: str, batch_id: int) -> bool:
        return (self.query_id, self.batch_id) == (query_id, batch_id)


def last_batch(last: Decision | None, status: DecisionStatus | None, decided: bool | None) -> LastBatch | None:
    """Combine the decision record, its status, and the coordinator's answer, if it was asked (`was_decided`).

    None: nothing is known of any batch.
    """
    found = FOUND[_record(last, status), _status(status, decided)]
    if found is Found.NOTHING:
        return None
    if found is Found.RECORDS_BATCH:
        assert last is not None
        known = LastBatch(last.number, last.kind, last.query_id, last.batch_id)
        return replace(known, rows=last.rows, content=last.content, topics=last.topics)
    assert status is not None
    known = LastBatch(status.number, "stream", status.query_id, status.batch_id, _KNOWN[found])
    return replace(known, rows=status.rows, content=status.content, topics=status.topics)


_KNOWN: dict[Found, Literal["decided", "undecided", "unknown"]] = {
    Found.STATUS_DECIDED: "decided",
    Found.STATUS_UNDECIDED: "undecided",
    Found.STATUS_UNKNOWN: "unknown",
}


def _record(last: Decision | None, status: DecisionStatus | None) -> LastRecord:
    if last is None:
        return LastRecord.NONE
    return LastRecord.OLDER if status is not None and last.number < status.number else LastRecord.NEWEST


def _status(status: DecisionStatus | None, decided: bool | None) -> Status:
    if status is None:
        return Status.NONE
    if status.state == "ended":
        return Status.ENDED
    if status.state == "undecided" or decided is False:
        return Status.UNDECIDED
    return Status.DECIDING_COMMITTED if decided else Status.DECIDING_FORGOTTEN


class StatusLog:
    """The statuses of one prefix, as its group P-kept has them. On the driver; each call blocks."""

    def __init__(self, cluster: Cluster, ids: TransactionalIds, topic: str | None) -> None:
        """`topic`: that all rows go to; None: rows name theirs."""
        self._cluster = cluster
        self._ids = ids
        self._topic = topic

    def read(self) -> tuple[DecisionStatus | None, tuple[TopicPartition, ...]]:
        """The record and where it lies."""
        return last_status(self._cluster.groups.committed(self._ids.kept_group, None))

    def settled(
        self, status: DecisionStatus | None, places: Iterable[TopicPartition]
    ) -> tuple[DecisionStatus | None, bool | None]:
        """Ask the coordinator whether a decision that was about to be made was made. Returns the status and the answer.

        A decision that was not made is written as `undecided` at once. Call it before the driver's InitProducerId.
        """
        if status is None or status.state != "deciding":
            return status, None
        try:
            was = was_decided(status, self._cluster.transactions.describe([self._ids.driver])[self._ids.driver])
        except UnsupportedApiVersion:
            was = self._tried(status)
        if was is False:
            status = status.now("undecided")
            self.write(status, places)
        return status, was

    def _tried(self, status: DecisionStatus) -> bool | None:
        """Before Kafka 3.0 nobody can ask. But brokers take the copy of an end that was made, and refuse any other.

        A transaction that is open is aborted by this. One that is begun in the middle by a driver that lives on is
        committed, which it was about to do.
        """
        for commit in (False, True):
            try:
                self._cluster.transactions.end(self._ids.driver, status.driver, commit, 1)
                return commit
            except InvalidTxnState:
                continue
            except BrokerError as error:
                if not error.row.fenced:
                    raise
                return None
        return False  # nothing was begun

    def write(self, status: DecisionStatus, places: Iterable[TopicPartition]) -> None:
        """`places` exist: those that the batch was written to."""
        try:
            self._cluster.groups.keep(self._ids.kept_group, status.placed(places), RETENTION_MS)
        except UnsupportedApiVersion as error:  # no release yet; other checks notice a missing status
            log.debug("batch %d: %r is not kept: %s", status.batch_id, status.state, error)

    def write_if_possible(self, status: DecisionStatus, places: Iterable[TopicPartition]) -> None:
        """Write it, or only log the error: the next begin repairs a missing status."""
        try:
            self.write(status, places)
        except KafkaSourceError as error:
            log.info("batch %d: %r is not kept: %s", status.batch_id, status.state, error)

    def write_without_rows(self, status: DecisionStatus) -> None:
        """Find a place if no partition was written to. Raises the error of the last place that was tried."""
        try:
            return self.write(status, [ELSEWHERE])
        except KafkaSourceError:
            _, places = self.read()
            if not places and self._topic is None:
                raise
            self.write(status, places or [TopicPartition(self._topic or "", 0)])
