"""How far the next micro-batch may go: `maxOffsetsPerTrigger`, `minOffsetsPerTrigger`, `maxBytesPerTrigger`.

The two limits in offsets have the JVM connector's numbers (KafkaMicroBatchStream.rateLimit and delayBatch), so that a
job that moves here has the same batches. Admission decides first whether the batch must wait, then how much it may
hold. With limits in offsets and in bytes, each partition ends at the smaller of its two ends. Trigger.AvailableNow
keeps all limits, Trigger.Once none.

The limits count offsets, not records: removed records (compaction), markers and aborted transactions count, too. The
limit in bytes counts those of them that the log stores.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from kafkasource.options import Options
from kafkasource.source.plan.offsets import Offsets, PartitionOffsets
from kafkasource.spark.releases import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows, ReadMinRows
from kafkasource.types import TopicPartition

# (begin, end, the limit in bytes) -> where records begin, at or behind `begin`, and bytes per offset of each partition
# that holds anything between the two.
Weigh = Callable[[PartitionOffsets, PartitionOffsets, int], tuple[PartitionOffsets, Mapping[TopicPartition, float]]]


class Admission:
    """The limits of one query, and their memory from one micro-batch to the next. It does not outlive a restart.

    `clock` gives seconds. Lives in the reader process, used by one thread.
    """

    def __init__(self, options: Options, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_offsets: int | None = options["maxOffsetsPerTrigger"]
        self._most_bytes: int | None = options["maxBytesPerTrigger"]
        self._least_offsets: int | None = options["minOffsetsPerTrigger"]
        self._max_delay_s: float = options["maxTriggerDelay"] / 1000
        self._clock = clock
        self._fired_at = -math.inf  # so the first batch after any start never waits
        self._turns = Turns()

    def read_limit(self) -> ReadLimit:
        """The limit that Spark hands back with each question. If the trigger has no limits, it hands ReadAllAvailable.

        Such an object carries one limit and cannot compose several, so this object only says that a limit exists.
        """
        if self._most_offsets is not None:
            return ReadMaxRows(self._most_offsets)
        if self._most_bytes is not None:
            return ReadMaxBytes(self._most_bytes)
        if self._least_offsets is not None:
            return ReadMinRows(self._least_offsets)
        return ReadAllAvailable()

    def admit(
        self,
        begin: Offsets,
        latest: Offsets,
        limit: ReadLimit | None,
        *,
        earliest_of_new: Callable[[set[TopicPartition]], Offsets],
        weigh: Weigh,
    ) -> Offsets | None:
        """End offsets (exclusive) of the micro-batch that begins at `begin`. None: it must wait for more records.

        The result has the partitions of `latest`, and no offset above it. A log that ends before `begin` keeps its end,
        so that the plan finds the loss. The two functions are called only if a limit needs them.
        """
        if limit is None or isinstance(limit, ReadAllAvailable):
            return latest
        if self._least_offsets is not None and self._must_wait(begin, latest, self._least_offsets):
            return None
        if self._most_offsets is None and self._most_bytes is None:
            return latest
        new = latest.keys() - begin.keys()
        start: PartitionOffsets = {**begin, **earliest_of_new(new)} if new else begin
        end = latest
        if self._most_offsets is not None:
            end = share_offsets(start, end, self._most_offsets)
        if self._most_bytes is not None:
            start, weights = weigh(start, end, self._most_bytes)
            end = self._turns.share_bytes(start, end, weights, self._most_bytes)
        return end

    def _must_wait(self, begin: Offsets, latest: Offsets, least: int) -> bool:
        """A new partition counts from offset 0, and one that shrank counts below 0, as in the JVM connector."""
        now = self._clock()
        late = now - self._fired_at >= self._max_delay_s
        if not late and sum(end - begin.get(tp, 0) for tp, end in latest.items()) < least:
            return True
        self._fired_at = now
        return False


def share_offsets(start: PartitionOffsets, end: PartitionOffsets, limit: int) -> Offsets:
    """Choose ends for about `limit` offsets of [start, end), shared out by the number of offsets in each partition.

    A partition that holds anything moves by at least one offset, and many partitions can exceed a small limit;
    rounding down can leave a batch below it. A partition that `start` does not know has been deleted again, and keeps
    its end.
    """
    sizes = _sizes(start, end)
    total = float(sum(sizes.values()))
    admitted = dict(end)
    for tp, size in sizes.items():
        share = limit * (size / total)
        take = math.ceil(share) if share < 1 else math.floor(share)
        admitted[tp] = min(end[tp], start[tp] + take)
    return admitted


class Turns:
    """The ends of about `limit` bytes, shared out by how much each partition holds; in turns if a share is less than a
    record.

    A limit in bytes is there to protect memory: 1,000 partitions of 1 MB records that all move by one would make 1 GB
    of a limit of 64 MB. So a share of less than a record is owed, and adds up over batches (deficit round robin).
    """

    def __init__(self) -> None:
        self._owed: dict[TopicPartition, float] = {}  # offsets; below 0 for a partition that got one early

    def share_bytes(
        self, start: PartitionOffsets, end: PartitionOffsets, weights: Mapping[TopicPartition, float], limit: int
    ) -> Offsets:
        """`weights`: bytes per offset of each partition that is not empty. Gives at least one offset in all."""
        sizes = _sizes(start, end)
        total = sum(size * weights[tp] for tp, size in sizes.items())
        if total <= limit:
            self._owed = {}
            return dict(end)
        shares = {tp: size * (limit / total) for tp, size in sizes.items()}
        takes = {tp: min(math.floor(share), sizes[tp]) for tp, share in shares.items()}
        left = limit - sum(take * weights[tp] for tp, take in takes.items())
        due = {tp: share + self._owed.get(tp, 0.0) for tp, share in shares.items() if share < 1}
        given = any(takes.values())
        for tp in sorted(due, key=lambda tp: (-due[tp], tp)):
            if due[tp] >= 1 or (due[tp] > 0 and weights[tp] <= left) or not given:
                takes[tp] = 1
                left -= weights[tp]
                given = True
        self._owed = {tp: one - takes[tp] for tp, one in due.items()}
        return {tp: start[tp] + takes[tp] if tp in takes else until for tp, until in end.items()}


def _sizes(start: PartitionOffsets, end: PartitionOffsets) -> Offsets:
    """The number of offsets of each partition that is not empty."""
    return {tp: until - start[tp] for tp, until in end.items() if tp in start and until > start[tp]}
