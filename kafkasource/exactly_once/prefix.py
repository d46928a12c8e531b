"""The groups and transactions of one prefix at one cluster, and the options. The driver works with them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkasource.errors import BrokerError, InvalidTxnState
from kafkasource.exactly_once.decision import DecisionLog, Kind
from kafkasource.exactly_once.decision_status import StatusLog
from kafkasource.exactly_once.driver_transaction import DriverTransaction
from kafkasource.exactly_once.errors import LostTransactions, lost_now_text, lost_text
from kafkasource.exactly_once.names import TransactionalIds, WrittenTransaction
from kafkasource.exactly_once.query_identity import QueryIdentity
from kafkasource.exactly_once.states import BatchEvent
from kafkasource.exactly_once.task.plan import OnLost
from kafkasource.exactly_once.task.transactions import TaskTransactions
from kafkasource.types import ProducerId

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster

log = logging.getLogger("kafkasource.sink")


@dataclass(frozen=True)
class Prefix:
    """See the module."""

    cluster: Cluster
    identity: QueryIdentity
    decisions: DecisionLog
    status: StatusLog
    tasks: TaskTransactions
    timeout_ms: int  # `kafka.transaction.timeout.ms`
    atomic: bool
    on_lost: OnLost
    wall_clock_ms: Callable[[], float]

    @property
    def ids(self) -> TransactionalIds:
        return self.identity.ids

    def end_own(self, driver: DriverTransaction) -> tuple[BatchEvent, ProducerId]:
        """Abort the driver's own transaction, if it is open. Returns the epoch that the driver has after it, too."""
        try:
            after = self.cluster.transactions.end(self.ids.driver, driver.producer, False, driver.transaction_version)
            return BatchEvent.OWN_ENDED, after
        except InvalidTxnState:  # which only says that it had ended, or was never begun
            return BatchEvent.OWN_ENDED, driver.producer
        except BrokerError as error:
            if not error.row.fenced:
                raise
            return BatchEvent.FENCED, driver.producer

    def tell_lost(self, kind: Kind, batch_id: int, lost: Iterable[WrittenTransaction]) -> BatchEvent:
        """Raises LostTransactions, unless these are to be skipped."""
        text = lost_now_text(lost) if kind == "write" else lost_text(batch_id, lost)
        if self.on_lost != "skip":
            raise LostTransactions(text)
        log.warning("%s", text)
        return BatchEvent.TOLD
