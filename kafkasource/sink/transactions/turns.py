"""Whose turn it is: from the driver's process that begins a batch to the one that aborts it.

Spark calls `abort` on a new writer, in another process, with the tasks' messages. Where no task sent a message (the
only task failed, or the query was stopped in the middle) nothing says which driver's epoch the batch was begun under,
and only that tells the transactions of this batch from those of a newer run, which must not be touched. So the turn is
left in a file among Spark's temporary files of the application (`SPARK_LOCAL_DIRS`, which Spark gives to each of its
Python processes and deletes at the end). Where there is no such file, the next begin of the query aborts what is open.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from pathlib import Path

from kafkasource.sink.transactions.driver import Turn
from kafkasource.sink.transactions.names import TransactionalIds
from kafkasource.sink.transactions.query_identity import IdentitySource
from kafkasource.types import ProducerId

log = logging.getLogger("kafkasource.sink")


def leave(source: IdentitySource, cluster: str, turn: Turn) -> None:
    """By the process that began. An older turn is replaced; a folder that cannot be written to is only logged."""
    path = _path(source, cluster)
    if path is None:
        return
    told = {
        "prefix": turn.ids.prefix,
        **turn.driver._asdict(),
        "transaction_version": turn.transaction_version,
        "number": turn.number,
    }
    partial = path.with_suffix(f".{os.getpid()}")
    try:
        partial.write_text(json.dumps(told))
        partial.replace(path)
    except OSError as error:
        log.debug("%s: the driver's turn is not told to the process that may have to abort: %s", path, error)


def left(source: IdentitySource, cluster: str) -> Turn | None:
    """By the process that aborts: the last turn that was begun in this application; None: nobody said."""
    path = _path(source, cluster)
    try:
        told = json.loads(path.read_text()) if path is not None else None
        if told is None:
            return None
        driver = ProducerId(int(told["producer_id"]), int(told["producer_epoch"]))
        ids = TransactionalIds(str(told["prefix"]))
        return Turn(ids, driver, int(told["transaction_version"]), int(told["number"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _path(source: IdentitySource, cluster: str) -> Path | None:
    """`cluster` is its name where the sink writes to several."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if not local:
        return None
    sink = hashlib.sha1(repr((source.prefix, source.location, cluster)).encode()).hexdigest()
    return Path(local) / f"kafkasource-turn-{sink}.json"
