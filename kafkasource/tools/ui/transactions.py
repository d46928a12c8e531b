"""Open transactions as JSON, the oldest first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafkasource.kafka.cluster.transactions import ONGOING

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster

_STATES = (ONGOING, "PrepareCommit", "PrepareAbort")  # the last two: the end is decided, and not yet in every log
_MOST = 500  # in one answer


def open_ones(cluster: Cluster) -> dict[str, object]:
    """The open transactions that the user may see (Describe on the id), of the brokers that answer within seconds.

    Raises UnsupportedApiVersion where the brokers cannot list them (before 3.0).
    """
    listed = cluster.transactions.list_reachable("", _STATES)
    names = [transaction.transactional_id for transaction in listed.transactions]
    described = cluster.transactions.describe(names[:_MOST], without=listed.unreachable)
    now_ms = time.time() * 1000
    rows = []
    for transaction in described.values():
        open_for_ms = None if transaction is None else transaction.open_for_ms(now_ms)
        if transaction is not None and open_for_ms is not None:  # else it has ended meanwhile
            rows.append(
                {
                    "transactional_id": transaction.transactional_id,
                    "state": transaction.state,
                    "producer_id": transaction.producer_id,
                    "producer_epoch": transaction.producer_epoch,
                    "open_for_s": open_for_ms / 1000,
                    "timeout_s": transaction.timeout_ms / 1000,
                    "partitions": [str(tp) for tp in transaction.partitions],
                }
            )
    rows.sort(key=lambda row: str(row["transactional_id"]))
    rows.sort(key=_open_for, reverse=True)
    return {"transactions": rows, "unreachable": sorted(listed.unreachable), "more": max(0, len(names) - _MOST)}


def _open_for(row: dict[str, object]) -> float:
    open_for_s = row["open_for_s"]
    assert isinstance(open_for_s, float)
    return open_for_s
