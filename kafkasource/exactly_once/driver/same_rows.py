"""Checks that a decided batch which Spark runs again still has the rows that were decided.

Spark gives a batch that it runs again the same rows. It plans another batch of the same number only where its
checkpoint does not know that the batch was begun: the checkpoint is an older state, or a copy beside the original.
Were such a batch skipped, its new rows would be lost, and rows that are gone from it would come twice, with the next
batch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kafkasource.errors import few
from kafkasource.exactly_once.decision_status import ELSEWHERE, LastBatch
from kafkasource.exactly_once.errors import OLDER, CheckpointBehind
from kafkasource.exactly_once.prefix import Prefix
from kafkasource.exactly_once.task.content import total
from kafkasource.exactly_once.task.plan import TaskResult

log = logging.getLogger("kafkasource.sink")


def require_same_rows(
    prefix: Prefix, decided: LastBatch | None, results: Sequence[TaskResult], query_id: str | None, batch_id: int
) -> None:
    """Raise CheckpointBehind where the tasks of a decided batch were given other rows than were decided; with
    `lostTransactions=skip` only warn. `query_id`: None where nobody knows it."""
    if decided is None or decided.state != "decided" or not decided.is_of(query_id or decided.query_id, batch_id):
        return
    rows, content = sum(each.rows for each in results), total([each.content for each in results])
    if (rows, content) == (decided.rows, decided.content):
        return
    topics = sorted({topic for each in results for topic in each.topics})
    other = "other " if rows == decided.rows else ""
    what = (
        f"batch {batch_id} of query {decided.query_id} was decided with {decided.rows} rows (the record lies in "
        f"{_named(decided.topics)}), and now it has {rows} {other}rows (for {_named(topics)})"
    )
    if prefix.on_lost == "skip":
        log.warning(
            "%s. With 'lostTransactions'=skip the query goes on with the rows that were decided: new rows of the batch "
            "are not written",
            what,
        )
        return
    if topics and not {*topics, ELSEWHERE.topic} & {*decided.topics}:
        more = (
            "If the other one was a copy, and this checkpoint is to go on: stop the copy, and forget its decision with "
            f"'pykafka groups delete {prefix.ids.marker_group} {prefix.ids.kept_group}'. Then this batch is written"
        )
    else:
        more = (
            "If the query gives other rows each time that it runs, as uuid() and rand() do, 'lostTransactions'=skip "
            "for one start goes on with the rows that were decided"
        )
    raise CheckpointBehind(
        f"{what}. Nothing of it is written. Most likely this checkpoint is an older state of the query's checkpoint, "
        "or a copy that runs beside the original, so that Spark planned the batch once more; or the target topic has "
        "changed since. Start with the newest checkpoint and the former topics. A copy needs a "
        f"'transactionalIdPrefix' of its own. {more} {OLDER}"
    )


def _named(topics: Sequence[str]) -> str:
    if not topics:
        return "no topic"
    return f"{'topic' if len(topics) == 1 else 'topics'} {few(topics)}"
