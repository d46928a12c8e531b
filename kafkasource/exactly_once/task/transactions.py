"""The task transactions of one prefix, as the driver ends them: commit, abort, recover. Each call blocks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkasource.errors import BrokerError, InvalidProducerIdMapping, KafkaSourceError, UnsupportedApiVersion, few
from kafkasource.exactly_once.decision import Decision
from kafkasource.exactly_once.errors import NotDecided, not_open_text
from kafkasource.exactly_once.names import TransactionalIds, WrittenTransaction
from kafkasource.kafka.cluster.transactions import ONGOING, DescribedTransaction, Listed
from kafkasource.kafka.process import PerProcess, Recent
from kafkasource.types import ProducerId

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.transactions import Transactions

log = logging.getLogger("kafkasource.sink")

_MAY_WRITE = (ONGOING, "Empty")  # states of a task transaction whose task may still write


@dataclass(frozen=True, slots=True)
class Recovered:
    """Transactions that begin found: those of the last decision's batch, and those that were never decided."""

    lost: tuple[WrittenTransaction, ...] = ()  # of the decision: these cannot be committed any more
    forgotten: bool = False  # the brokers know of some of these no more, nor whether they were committed
    recovered: int = 0  # of the decision: these were open until now
    aborted: int = 0  # of no decision: these were open until now
    unlisted: bool = False  # brokers before 3.0 cannot tell which are open: some may still be


class TaskTransactions:
    """See the module."""

    def __init__(self, transactions: Transactions, ids: TransactionalIds, timeout_ms: int) -> None:
        """`timeout_ms`: `kafka.transaction.timeout.ms`."""
        self._transactions = transactions
        self._ids = ids
        self._timeout_ms = timeout_ms

    def require_open(
        self, transactions: Sequence[WrittenTransaction], found: Mapping[str, DescribedTransaction | None]
    ) -> None:
        """Raise NotDecided where one of these is not open any more, by what the coordinators answered (`found`)."""
        for name, producer in self._named(transactions):
            row = found.get(name)
            if row is None or (row.state, row.producer) != (ONGOING, producer):
                raise NotDecided(not_open_text(name, producer.producer_epoch, row, "another attempt of the task"))

    def commit(self, decision: Decision, transactions: Iterable[WrittenTransaction]) -> dict[int, BrokerError]:
        """Commit these of a decision, first time or again, in its dialect. Returns what coordinators answer of those
        that are gone, by slot."""
        slots = {self._ids.task(each.slot): each.slot for each in transactions}
        if not slots:
            return {}
        answers = self._transactions.end_each(self._named(transactions), True, decision.transaction_version)
        gone: dict[int, BrokerError] = {}
        for name, error in answers.items():
            if error is not None and not error.row.transaction_gone:
                raise error
            if error is not None:
                gone[slots[name]] = error
        return gone

    def commit_all(
        self, decision: Decision, transactions: Sequence[WrittenTransaction]
    ) -> tuple[WrittenTransaction, ...]:
        """The same. Returns those that are gone."""
        gone = self.commit(decision, transactions)
        return tuple(each for each in transactions if each.slot in gone)

    def abort(self, transactions: Iterable[WrittenTransaction], transaction_version: int) -> None:
        """Abort these. What cannot be aborted is left: it has ended, or the next begin aborts it."""
        self._transactions.end_each(self._named(transactions), False, transaction_version)

    def abort_silent(self, driver: ProducerId, last: Decision | None, slots: Sequence[int]) -> None:
        """Abort and fence the transactions of tasks that sent no message, of this driver's batch.

        Some of these tasks may still run: Spark kills a Python worker seconds after it has stopped the query. First
        the driver is fenced, if it still is the newest. A task transaction that exists by then is fenced here. A task
        that opens one later finds that its driver is gone, and aborts it itself (`ExactlyOnceTask`).

        A newer run's transactions are younger than its driver, and this driver was the newest a moment ago. Besides, a
        transactional id is only taken from the producer that was seen to hold it. The brokers check that, unless a
        transaction is ongoing under a later epoch of the same id.
        """
        try:
            self._transactions.init_producer_id(self._ids.driver, self._timeout_ms, driver)
        except UnsupportedApiVersion:
            pass  # before Kafka 2.5; nor can tasks look, before 3.0
        except BrokerError as error:
            if not error.row.fenced:
                raise
            return
        names = [self._ids.task(slot) for slot in slots]
        decided = set(self._named(last.transactions)) if last else set()
        held_by: dict[str, ProducerId] = {}
        try:
            found = self._transactions.describe(names)
        except UnsupportedApiVersion:
            decided_names = {name for name, _ in decided}
            open_names = [name for name in names if name not in decided_names]
        else:
            for name, row in found.items():
                if row is not None and row.state in _MAY_WRITE and (name, row.producer) not in decided:
                    held_by[name] = row.producer
            open_names = list(held_by)
        if open_names:
            log.info("aborting the transactions of %d tasks that did not report: %s", len(open_names), few(open_names))
        for answer in self._transactions.init_producer_ids(open_names, self._timeout_ms, held_by).values():
            if isinstance(answer, BrokerError) and not answer.row.transaction_gone:
                raise answer

    def recover(
        self, last: Decision | None, all_ended: bool = False, ask: Callable[[], Listed] | None = None
    ) -> Recovered:
        """Commit the decided transactions, then abort the open ones, so that no decided transaction is aborted.

        In mid-run nothing is open and each commit is a copy of one that was answered: one round trip. `ask` returns
        the open transactions, if they were asked for already: later ones belong to a driver that is fenced by now.
        """
        before = self._open_slots(last, ask)
        gone = self.commit(last, last.transactions) if last and not all_ended else {}
        after = self._open_slots(last) if before else before
        self._abort_slots(last, after)
        lost = tuple(each for each in last.transactions if each.slot in gone) if last else ()
        forgotten = any(isinstance(answer, InvalidProducerIdMapping) for answer in gone.values())
        recovered, aborted = len(before or ()) - len(after or ()), len(after or ())
        return Recovered(lost, forgotten, recovered, aborted, unlisted=after is None)

    def _abort_slots(self, last: Decision | None, slots: Sequence[int] | None) -> None:
        """Abort the task transactions in these slots.

        None: nobody knows which are open. Then abort in all slots below the last decision's highest that it does not
        name. The tasks after a start end open transactions in their own slots (`ExactlyOnceTask`). A slot above both
        stays open until `kafka.transaction.timeout.ms`: a batch of an earlier run that had more tasks than either.

        A transaction that is open in a decided slot is a newer one: the decided one has ended by now.
        """
        if slots is None:
            decided = {each.slot for each in last.transactions} if last else set()
            slots = [slot for slot in range(max(decided, default=-1)) if slot not in decided]
        orphans = [self._ids.task(slot) for slot in slots]
        if orphans:
            log.info("aborting %d transactions that were left open: %s", len(orphans), few(orphans))
            for answer in self._transactions.init_producer_ids(orphans, self._timeout_ms).values():
                if isinstance(answer, BrokerError):
                    raise answer

    def _open_slots(self, last: Decision | None, ask: Callable[[], Listed] | None = None) -> list[int] | None:
        """Slots with an open transaction. None: brokers before 3.0 cannot list them.

        A broker that cannot be reached is gone without. What it coordinated may have moved to a broker that had listed
        by then, so the slots that are known are looked at there. What it still coordinates may stay open. Nothing is
        doubled by that, as only transactions that the decision names are ever committed. An open transaction holds back
        readers at read_committed, until a task opens the slot again, which aborts it, or until its timeout.
        """
        prefix = f"{self._ids.prefix}-"
        try:
            listed, unreachable = self._transactions.list_reachable(prefix) if ask is None else ask()
        except UnsupportedApiVersion:
            return None
        slots = {slot for each in listed if (slot := self._ids.slot(each.transactional_id)) is not None}
        if unreachable:
            _warn_unreachable(self._ids, unreachable)
            highest = max([*slots, *(each.slot for each in (last.transactions if last else ()))], default=-1)
            others = [self._ids.task(slot) for slot in range(highest + 1) if slot not in slots]
            for name, row in self._transactions.describe(others, unreachable).items():
                if row is not None and row.state == ONGOING:
                    slots.add(self._ids.slot(name) or 0)
        return sorted(slots)

    def _named(self, transactions: Iterable[WrittenTransaction]) -> list[tuple[str, ProducerId]]:
        return [(self._ids.task(each.slot), each.producer) for each in transactions]


# The brokers that the last warning about each prefix named.
_warned: PerProcess[Recent[str, tuple[int, ...]]] = PerProcess(lambda: Recent(1_000))


def _warn_unreachable(ids: TransactionalIds, unreachable: Mapping[int, KafkaSourceError]) -> None:
    """Once for each set of brokers: every micro-batch would say it again."""
    nodes = tuple(sorted(unreachable))
    if _warned.get().put(ids.prefix, nodes) != nodes:
        log.warning(
            "transactions of %s-*: %s cannot be reached from the driver and may have some open that stay open now; "
            "readers at read_committed wait for these until a task uses them again, or until "
            "'kafka.transaction.timeout.ms' is over: %s",
            ids.prefix,
            "broker " + ", ".join(map(str, nodes)),
            "; ".join(str(unreachable[node]) for node in nodes),
        )
