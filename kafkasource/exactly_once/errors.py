"""Errors of exactly once."""

from __future__ import annotations

from collections.abc import Iterable

from kafkasource.errors import KafkaSourceError, explained
from kafkasource.exactly_once.names import WrittenTransaction
from kafkasource.kafka.cluster.transactions import DescribedTransaction

# Entries of docs/troubleshooting.md.
LOST = explained("before-they-were-committed")
OLDER = explained("this-checkpoint-is-an-older-state-of-the-querys-checkpoint")


class LostTransactions(KafkaSourceError):
    """A batch is decided, and brokers aborted some of its task transactions before they were committed."""


class LostDecision(LostTransactions):
    """Nobody knows whether a batch is in the topics: the record of its decision is gone, or there never was one; or
    brokers have forgotten what became of its transactions."""


class NotDecided(KafkaSourceError):
    """The batch was not decided. No reader at read_committed will see any of it. It can be written again."""


class CheckpointBehind(KafkaSourceError):
    """The topics hold later batches of this query than its checkpoint knows of, or other rows of the same batch."""


class AnotherQuery(KafkaSourceError):
    """The prefix, or the checkpoint, is another query's. Nothing was written."""


class CannotWriteOnce(KafkaSourceError):
    """This task, as Spark runs it, cannot keep the guarantee."""


class UnreadableDecision(KafkaSourceError):
    """The group of the decision record holds what this version did not write. Nobody may guess what was decided."""


class ImpossibleEvent(KafkaSourceError):
    """A fault of this package: a batch met what the table of its states (`states.BATCH`) does not have."""


class DecidedNotCommitted(KafkaSourceError):
    """A batch write is decided, or may be, and not all of it can be committed now. It must not be run again unseen."""


class TooManyTransactions(KafkaSourceError):
    """More tasks wrote than the decision record has room for. Nothing was decided."""


def not_open_text(name: str, epoch: int, found: DescribedTransaction | None, other: str) -> str:
    """The text of NotDecided, where a transaction of the batch is not open any more under this epoch.

    `other`: a process that may have fenced it, besides another query.
    """
    state = "unknown" if found is None else f"{found.state} under epoch {found.producer_epoch}"
    return (
        f"transaction {name!r} (epoch {epoch}) is not open any more, but {state}: the batch took longer than "
        f"'kafka.transaction.timeout.ms', or {other}, or another query with this 'transactionalIdPrefix', has "
        f"fenced it {explained('is-not-open-any-more')}"
    )


def lost_text(batch_id: int, lost: Iterable[WrittenTransaction], more: str = "") -> str:
    """The text of LostTransactions. It names the lost task transactions and the user's choices, then `more`."""
    return (
        f"batch {batch_id} was decided, but brokers aborted the transactions of its tasks {_listed(lost)} before "
        "they were committed: more time than 'kafka.transaction.timeout.ms' had passed, most likely. The other tasks' "
        "rows are visible. 'lostTransactions'=rewrite writes the missing rows again where they are the same, =skip "
        f"goes on, and they stay missing{more} {LOST}"
    )


def lost_now_text(lost: Iterable[WrittenTransaction]) -> str:
    """The text of LostTransactions to the batch write that has lost them."""
    return (
        f"this batch write was decided, but brokers aborted the transactions of its tasks {_listed(lost)} before they "
        "were committed: more time than 'kafka.transaction.timeout.ms' had passed, most likely. The other tasks' rows "
        f"are visible, so do not run the write again: they would come twice. Write the missing rows alone {LOST}"
    )


def lost_write_text(prefix: str, write_id: str, lost: Iterable[WrittenTransaction], certain: bool) -> str:
    """The text of a warning to the next batch write under the prefix, which has other rows."""
    what = f"batch write {write_id} under {prefix!r} was decided, and the transactions of its tasks {_listed(lost)}"
    if certain:
        return (
            f"{what} were not committed: its job ended before, and more time than 'kafka.transaction.timeout.ms' has "
            "passed, most likely. The other tasks' rows are in the topics, and these are missing. The write that "
            "begins now continues"
        )
    return (
        f"{what} cannot be committed again. If a write has failed since, that is expected: it has used their ids. "
        "If not, that write's job ended before all of it was committed, and these rows are missing: look for them in "
        "the topics. The write that begins now continues"
    )


def forgotten_text(batch_id: int, lost: Iterable[WrittenTransaction], more: str = "") -> str:
    """The text of LostDecision, where an id that is forgotten may have been committed or aborted before."""
    return (
        f"batch {batch_id} was decided, but the query was away for longer than the brokers' "
        "transactional.id.expiration.ms: they do not know any more whether the transactions of its tasks "
        f"{_listed(lost)} were committed. The other tasks' rows are visible. Look whether these rows are in the "
        "topics, for a reader at read_committed: if so, 'lostTransactions'=skip goes on; if not, =rewrite writes them "
        f"again where they are the same{more} {LOST}"
    )


def _listed(lost: Iterable[WrittenTransaction]) -> str:
    lost = list(lost)
    return f"{[each.slot for each in lost]} ({sum(each.rows for each in lost)} rows)"
