"""Transactions that stay open hold readers with read_committed back: the last stable offset (LSO) stands still.

Nothing fails then, and no row is lost: the query only gets no more records of that partition, and nobody notices. If a
producer hangs, or its coordinator lost a transaction (KIP-664), somebody must act. So the driver warns, once for each
offset that is stuck.
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
_FIRST_LOOK_S = 10.0  # so the driver asks nothing about a log that moves on

_TEXT = (
    "A transaction holds %s back: for %d s its last stable offset has been %d and its high watermark (now %d) beyond"
    " it, and a query with kafka.isolation.level=read_committed gets no further. It goes on when the producer commits"
    " or aborts, or when transaction.timeout.ms has passed. If it does not, a transaction hangs (KIP-664):"
    " `kafka-transactions.sh --bootstrap-server SERVERS describe-producers --topic %s --partition %d` shows who opened"
    " it, `kafka-transactions.sh --bootstrap-server SERVERS abort --topic %s --partition %d --start-offset %d` ends it."
)


@dataclass(slots=True)
class _Unmoved:
    """A partition whose last stable offset has not moved since an earlier listing. Times are the clock's."""

    last_stable_offset: int
    look_at: float  # when to ask for the high watermark
    held_since: float | None = None  # when the high watermark was first seen beyond the offset


class OpenTransactions:
    """Watches the partitions of one query. Reader process, one thread; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unmoved: dict[TopicPartition, _Unmoved] = {}

    def watch(
        self,
        last_stable_offsets: Mapping[TopicPartition, int],
        high_watermarks: Callable[[set[TopicPartition]], Mapping[TopicPartition, int]],
    ) -> None:
        """Call with each listing under read_committed. Warns of a partition whose LSO has not moved for a minute while
        the high watermark is beyond it; once, until the LSO moves.

        It calls `high_watermarks` for partitions that do not move: for each after ten seconds, then at most once a
        minute. It ignores errors of this package that the call raises.
        """
        now = self._clock()
        seen = {}
        for tp, offset in last_stable_offsets.items():
            unmoved = self._unmoved.get(tp)
            if unmoved is None or unmoved.last_stable_offset != offset:
                unmoved = _Unmoved(offset, now + _FIRST_LOOK_S)
            seen[tp] = unmoved
        self._unmoved = seen
        due = {tp for tp, unmoved in seen.items() if now >= unmoved.look_at}
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
            log.debug("high watermarks of partitions that do not move: %s", error)
        for tp in sorted(due):
            unmoved = self._unmoved[tp]
            unmoved.look_at = now + PATIENCE_S
            if tp not in ends:
                continue
            if ends[tp] <= unmoved.last_stable_offset:  # an idle log; a transaction that opens later is a new one
                unmoved.held_since = None
            elif unmoved.held_since is None:
                unmoved.held_since = now
            else:
                held_s = now - unmoved.held_since
                where, at = (tp.topic, tp.partition), unmoved.last_stable_offset
                log.warning(_TEXT, tp, held_s, at, ends[tp], *where, *where, at)
                unmoved.look_at = math.inf
