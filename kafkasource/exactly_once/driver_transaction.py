"""The driver's own transaction, and the file that carries it from the process of `begin` to the process of `abort`.

Spark calls `abort` on a new writer, in another process, with the tasks' messages. Where no task sent a message (the
only task failed, or the query was stopped in the middle) nothing says which driver's epoch the batch was begun under.
Only that epoch tells the transactions of this batch from those of a newer run, which must not be touched. So begin
leaves the driver's transaction in a file among Spark's temporary files of the application (`SPARK_LOCAL_DIRS`: Spark
gives it to each of its Python processes, and deletes the files at the end). If that file is missing, the next begin of
the query aborts the open transactions.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from kafkasource.exactly_once.counts import TransactionCounts
from kafkasource.exactly_once.decision import Kind
from kafkasource.exactly_once.decision_status import LastBatch
from kafkasource.exactly_once.names import TransactionalIds
from kafkasource.exactly_once.query_identity import IdentitySource
from kafkasource.types import ProducerId

log = logging.getLogger("kafkasource.sink")


@dataclass(frozen=True, slots=True)
class DriverTransaction:
    """The driver's own transaction, in which it decides at most one batch. It lasts from one begin to the next."""

    ids: TransactionalIds
    producer: ProducerId
    transaction_version: int
    number: int  # of the decision that it may make
    kind: Kind = "stream"
    lost: tuple[int, ...] = ()  # slots of the task transactions of the last decision that begin could not commit
    recovered: int = 0  # task transactions of the last decision that were still open at begin, which committed them
    aborted: int = 0  # task transactions that were left open, which begin aborted
    last: LastBatch | None = None  # under the prefix, as begin found it

    def counts(self, opened: int = 0, committed: int = 0, oldest_open_ms: float | None = None) -> TransactionCounts:
        """Count the batch's transactions, with those that begin recovered and aborted."""
        return TransactionCounts(opened, committed, oldest_open_ms, self.recovered, self.aborted)


def write_file(source: IdentitySource, cluster: str, driver: DriverTransaction) -> None:
    """Write the file, in the process that began. Replaces an older file. Only logs that a folder cannot be written
    to."""
    path = _path(source, cluster)
    if path is None:
        return
    values = {
        "prefix": driver.ids.prefix,
        **driver.producer._asdict(),
        "transaction_version": driver.transaction_version,
        "number": driver.number,
    }
    partial = path.with_suffix(f".{os.getpid()}")
    try:
        partial.write_text(json.dumps(values))
        partial.replace(path)
    except OSError as error:
        log.debug("%s: the driver's transaction is not kept for the process that may have to abort: %s", path, error)


def read_file(source: IdentitySource, cluster: str) -> DriverTransaction | None:
    """Read the transaction that this application began last, in the process that aborts; None: the file is missing."""
    path = _path(source, cluster)
    try:
        values = json.loads(path.read_text()) if path is not None else None
        if values is None:
            return None
        producer = ProducerId(int(values["producer_id"]), int(values["producer_epoch"]))
        ids = TransactionalIds(str(values["prefix"]))
        return DriverTransaction(ids, producer, int(values["transaction_version"]), int(values["number"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _path(source: IdentitySource, cluster: str) -> Path | None:
    """`cluster` is its name where the sink writes to several. `turn` is an older word for the driver's transaction."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if not local:
        return None
    sink = hashlib.sha1(repr((source.prefix, source.location, cluster)).encode()).hexdigest()
    return Path(local) / f"kafkasource-turn-{sink}.json"
