"""Transactions that stay open hold readers with read_committed back: the last stable offset (LSO) stands still.

Nothing fails then, and no row is lost: the query only gets nothing more of that partition, which nobody notices. A
producer that hangs, or a transaction that its coordinator lost (KIP-664), needs someone to look: so it is said, once
for each offset that is stuck.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkasource.errors import KafkaSourceError
from kafkasource.types import TopicPartition

log = logging.getLogger("kafkasource.source")

PATIENCE_S = 60.0  # as long as the default transaction.timeout.ms: an ordinary transaction has ended by then
_FIRST_LOOK_S = 10.0  # a log that moves on is never asked about

_TEXT = (
    "A transaction holds %s back: for %d s its last stable offset has been %d and its high watermark (now %d) beyond"
    " it, and a query with kafka.isolation.level=read_committed gets no further. It goes on when the producer commits"
    " or aborts, or when transaction.timeout.ms has passed. If it does not, a transaction hangs (KIP-664):"
    " `kafka-transactions.sh --bootstrap-server SERVERS describe-producers --topic %s --partition %d` shows who opened"
    " it, `kafka-transactions.sh --bootstrap-server SERVERS abort --topic %s --partition %d --start-offset %d` ends it."
)


@dataclass(slots=True)
class _Standing:
    """A partition whose last stable offset is where it was at the last listing. Times are the clock's."""

    last_stable_offset: int
    look_at: float  # when the high watermark is to be asked for
    held_since: float | None = None  # when the high watermark was first seen beyond the offset


class OpenTransactions:
    """One query's watch. Reader process, one thread; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._standing: dict[TopicPartition, _Standing] = {}

    def watch(
        self,
        last_stable_offsets: Mapping[TopicPartition, int],
        high_watermarks: Callable[[set[TopicPartition]], Mapping[TopicPartition, int]],
    ) -> None:
        """Call with each listing under read_committed. Warns of a partition whose LSO has stood still for a minute with
        the high watermark beyond it, once until it moves.

        `high_watermarks` is asked for partitions that stand still, at most once a minute for each but for a first look
        after ten seconds. What it raises of this package's errors is not the query's business.
        """
        now = self._clock()
        seen = {}
        for tp, offset in last_stable_offsets.items():
            standing = self._standing.get(tp)
            if standing is None or standing.last_stable_offset != offset:
                standing = _Standing(offset, now + _FIRST_LOOK_S)
            seen[tp] = standing
        self._standing = seen
        due = {tp for tp, standing in seen.items() if now >= standing.look_at}
        if due:
            self._look(due, high_watermarks, now)

    def _look(
        self,
        due: set[TopicPartition],
        high_watermarks: Callable[[set[TopicPartition]], Mapping[TopicPartition, int]],
        now: float,
    ) -> None:
        ends: Mapping[TopicPartition, int] = {}
        try:
            ends = high_watermarks(due)
        except KafkaSourceError as error:
            log.debug("high watermarks of partitions that stand still: %s", error)
        for tp in sorted(due):
            standing = self._standing[tp]
            standing.look_at = now + PATIENCE_S
            if tp not in ends:
                continue
            if ends[tp] <= standing.last_stable_offset:  # an idle log; a transaction that opens later is a new one
                standing.held_since = None
            elif standing.held_since is None:
                standing.held_since = now
            else:
                held_s = now - standing.held_since
                where, at = (tp.topic, tp.partition), standing.last_stable_offset
                log.warning(_TEXT, tp, held_s, at, ends[tp], *where, *where, at)
                standing.look_at = math.inf
