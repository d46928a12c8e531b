"""Estimates the weight of a record, in bytes as the log stores it (compressed), before the records are read.

`maxBytesPerTrigger` needs it, and so does the choice of ranges that share a task. Kafka's protocol has no request for
the number of bytes between two offsets. So the driver fetches a little where a micro-batch begins, and looks only at
the headers of the record batches: bytes / offsets that they cover. Each micro-batch sends one request per leader, in
parallel. The requests wait for no records and bring at most SAMPLE_BYTES in all. A first record batch comes whole,
however large it is (KIP-74), and takes seconds over a slow line. So the driver spends at most one percent of
the time on samples that renew old weights or that add partitions of known topics. It asks about an unknown topic at
once.

The micro-batch may hold heavier records than those at its beginning. A partition without a sample gets the mean of
its topic. If its topic has no sample either, it gets the mean of all topics until its turn comes. If its own sample
then brings nothing, it gets UNKNOWN_WEIGHT, for packing USUAL_WEIGHT. A failure here does not fail the query: the
driver soon tries again.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from kafkasource.errors import BrokerError, KafkaSourceError, OffsetOutOfRange
from kafkasource.kafka.cluster.offsets import EARLIEST
from kafkasource.kafka.records import header as h
from kafkasource.source.plan.offsets import Offsets, PartitionOffsets
from kafkasource.source.plan.samples import TIMEOUT_MS, Requests, Sampler, longest_waiting
from kafkasource.types import IsolationLevel, OffsetRange, TopicPartition

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster

log = logging.getLogger("kafkasource.source")

SAMPLE_BYTES = 1 << 20  # for one micro-batch; a first record batch that is larger comes whole (KIP-74)
# Unknown records count as heavy where a limit protects memory: brokers take batches of 1 MiB at most
# (message.max.bytes). For packing they count as usual ones.
UNKNOWN_WEIGHT, USUAL_WEIGHT = float(1 << 20), 1024.0
_LEAST_SAMPLE_BYTES, _MOST_SAMPLE_BYTES = 16 << 10, 64 << 10  # for one partition
_SHARE_OF_LIMIT = 8  # a sample brings at most this part of a micro-batch's limit
_FIRST_TIMEOUT_MS = 10_000  # where nothing is known of a topic: 1 MB over 1 Mbit/s takes 8 s
_MOST_RETRY_S = 60  # between samples that teach nothing of an unknown topic; at first 1 s
_MARGIN = 8  # records may have become heavier by this factor since the last sample
_MAX_AGE_S = 60
_FORGOTTEN_AFTER_S = 3_600  # forget weights that were not used for this long, such as those of a deleted topic
_SELDOM = 100  # times as long as a sample took, until one is taken again for its age alone
_MAX_AGE_OF_HEAVY_S = 5  # where records that became heavier by that factor would change the packing


class RecordWeights:
    """The weights of one query's partitions. Reader process, one thread; asks through the cluster that plans.

    Weights are smoothed in one direction. Heavier records count at once, because the limit protects memory. Lighter
    ones halve the distance on a logarithmic scale, because they may be few beside heavy ones.
    """

    def __init__(
        self, cluster: Cluster, isolation_level: IsolationLevel, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster = cluster
        self._sampler = Sampler(cluster, isolation_level)
        self._clock = clock
        self._sampled_at = -math.inf
        self._took_s = 0.0  # the last sample that taught something
        self._failures = 0  # samples since then
        self._topics: set[str] = set()  # of `_weights`
        self._weights: dict[TopicPartition, float] = {}
        self._in_vain: set[TopicPartition] = set()  # asked, and nothing learned
        self._holes: dict[TopicPartition, tuple[int, int]] = {}  # [begin, end) without records, by the last sample
        self._answered_at: dict[TopicPartition, float] = {}

    def weigh(
        self, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], limit_bytes: int
    ) -> dict[TopicPartition, float]:
        """Bytes per offset, above 0, of each partition that is not empty in [begin, end).

        Asks brokers only if the limit could matter: the known weights do not make [begin, end) light, or nothing is
        known of a topic or a partition, or all known weights are a minute old.
        """
        begin = self.past_holes(begin)
        sizes = {tp: until - begin[tp] for tp, until in end.items() if until > begin.get(tp, until)}
        weights = self._estimates(sizes, UNKNOWN_WEIGHT)
        max_age_s = _MAX_AGE_S if sizes.keys() <= self._weights.keys() else 0
        if sizes and (self._is_due(sizes, max_age_s) or not _light(sizes, weights, limit_bytes)):
            return self._asked_again(begin, sizes, limit_bytes, UNKNOWN_WEIGHT)
        return weights

    def past_holes(self, begin: PartitionOffsets) -> Offsets:
        """The same offsets, moved to where the next record is if a sample has shown it: offsets that retention or
        compaction has emptied weigh nothing."""
        moved = dict(begin)
        for tp, (first, end) in self._holes.items():
            if first <= moved.get(tp, end) < end:
                moved[tp] = end
        return moved

    def estimate(self, ranges: Sequence[OffsetRange], enough_bytes: int) -> Mapping[TopicPartition, float]:
        """Bytes per offset, for packing. An older estimate is good enough, so most micro-batches ask nothing.

        Empty if the ranges cannot hold `enough_bytes`, whatever their records weigh. Asks brokers about a topic for the
        first time, after a minute, and after 5 s if heavier records would fill `enough_bytes`.
        """
        sizes = _sizes(ranges)
        if sum(sizes.values()) * UNKNOWN_WEIGHT < enough_bytes:
            return {}
        weights = self._estimates(sizes, USUAL_WEIGHT)
        if self._is_due(sizes, _MAX_AGE_S if _light(sizes, weights, enough_bytes) else _MAX_AGE_OF_HEAVY_S):
            begin = {one.topic_partition: one.start_offset for one in reversed(ranges)}
            weights = self._asked_again(begin, sizes, enough_bytes, USUAL_WEIGHT)
        return weights

    def _is_due(self, partitions: Collection[TopicPartition], max_age_s: float) -> bool:
        """Whether a sample is: nothing is known of a topic, or the last one is so old, and was quick enough."""
        age_s = self._clock() - self._sampled_at
        if any(tp.topic not in self._topics for tp in partitions):
            return age_s >= (min(_MOST_RETRY_S, 1 << min(self._failures - 1, 8)) if self._failures else 0)
        return age_s >= max(max_age_s, _SELDOM * self._took_s)

    def _asked_again(
        self, begin: Mapping[TopicPartition, int], sizes: Mapping[TopicPartition, int], limit_bytes: int, unknown: float
    ) -> dict[TopicPartition, float]:
        new = sorted({tp.topic for tp in sizes} - self._topics)
        self._failures += 1  # `_learn` undoes it
        try:
            self._sample({tp: begin[tp] for tp in sizes}, sizes, limit_bytes, unknown)
        except KafkaSourceError as error:
            log.debug("records could not be weighed: %s", error)
        if not self._failures:
            self._took_s = self._clock() - self._sampled_at
        elif new and self._failures == 1:
            log.warning(
                "topic %s: no record came in time to learn how large its records are. Until one does, the query plans "
                "micro-batches and tasks with %d bytes a record; it reads all records",
                new[0],
                unknown,
            )
        return self._estimates(sizes, unknown)

    def _estimates(self, partitions: Iterable[TopicPartition], unknown: float) -> dict[TopicPartition, float]:
        wanted = list(partitions)
        if all(tp in self._weights for tp in wanted):
            return {tp: self._weights[tp] for tp in wanted}
        of_topics: dict[str, list[float]] = {}
        for tp, weight in self._weights.items():
            of_topics.setdefault(tp.topic, []).append(weight)
        means = {topic: fmean(weights) for topic, weights in of_topics.items()}
        not_asked = fmean(means.values()) if means else unknown
        others = {tp: unknown if tp in self._in_vain else not_asked for tp in wanted}
        return {tp: self._weights.get(tp, means.get(tp.topic, others[tp])) for tp in wanted}

    def _sample(
        self, begin: Mapping[TopicPartition, int], sizes: Mapping[TopicPartition, int], limit_bytes: int, unknown: float
    ) -> None:
        """Take a sample. Partitions that have waited longest come first in a request, because a record batch that is
        larger than its partition's part of the sample comes only if its partition is the first. Partitions that
        are still unknown after that get a request each, unless others of their topic show that the limit is far. Where
        the leader has moved, or the log begins later, another sample is taken at once.
        """
        self._sampled_at = self._clock()
        self._forget()
        chosen = longest_waiting(begin, self._answered_at)
        most = min(SAMPLE_BYTES, limit_bytes // _SHARE_OF_LIMIT) // len(chosen)
        each = max(min(most, _MOST_SAMPLE_BYTES), _LEAST_SAMPLE_BYTES)
        self._in_vain = (self._in_vain & begin.keys()) | set(chosen)
        too_large, failed = self._learn(self._sampler.by_leader(chosen), begin, begin, each)
        at = self._after_errors(failed, begin)
        if at:
            too_large += self._learn(self._sampler.by_leader(at), begin, at, each)[0]
        topics = self._topics if _light(sizes, self._estimates(sizes, unknown), limit_bytes) else set()
        alone = [tp for tp in too_large if tp not in self._weights and tp.topic not in topics]
        if alone:
            self._learn(self._sampler.each_alone(alone), begin, {**begin, **at}, _LEAST_SAMPLE_BYTES)

    def _after_errors(
        self, failed: Mapping[TopicPartition, BrokerError], begin: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Decide where to take another sample of these partitions: the leader may have moved, or the log begins
        later."""
        moved = {tp for tp, error in failed.items() if error.refresh_metadata}
        if moved:
            self._cluster.topics.describe(sorted({tp.topic for tp in moved}), propagation_ms=0)
        expired = {tp: EARLIEST for tp, error in failed.items() if isinstance(error, OffsetOutOfRange)}
        starts = self._cluster.offsets.list(expired) if expired else {}
        later = {tp: max(begin[tp], found.offset or 0) for tp, found in starts.items()}
        self._holes.update({tp: (begin[tp], start) for tp, start in later.items()})
        return {tp: begin[tp] for tp in moved} | later

    def _forget(self) -> None:
        """Topics come and go under a pattern."""
        before = self._sampled_at - _FORGOTTEN_AFTER_S
        self._answered_at = {tp: at for tp, at in self._answered_at.items() if at >= before}
        self._weights = {tp: weight for tp, weight in self._weights.items() if tp in self._answered_at}
        self._topics = {tp.topic for tp in self._weights}
        self._holes = {tp: hole for tp, hole in self._holes.items() if tp in self._answered_at}

    def _learn(
        self,
        requests: Requests,
        begin: Mapping[TopicPartition, int],
        at: Mapping[TopicPartition, int],
        each: int,
    ) -> tuple[list[TopicPartition], dict[TopicPartition, BrokerError]]:
        """Note what the leaders answer for these partitions. Returns those for which no records came, and those with an
        error.

        `begin`: where the micro-batch begins. `at`: where the sample does.
        """
        empty, failed = [], {}
        known = all(tp.topic in self._topics for _, partitions in requests for tp in partitions)
        timeout_ms = max(TIMEOUT_MS, 3_000 * self._took_s) if known else _FIRST_TIMEOUT_MS
        for tp, records in self._sampler.fetch(requests, at, each, timeout_ms):
            if isinstance(records, BrokerError):
                failed[tp] = records
                self._answered_at[tp] = self._sampled_at
                continue
            weight = weight_of(records, at[tp])
            if weight is None:
                empty.append(tp)
                continue
            before = self._weights.get(tp, weight)
            self._weights[tp] = weight if weight >= before else math.sqrt(weight * before)
            self._topics.add(tp.topic)
            self._in_vain.discard(tp)
            self._failures = 0
            self._holes[tp] = begin[tp], first_offset(records, at[tp])
            self._answered_at[tp] = self._sampled_at
        return empty, failed


def _light(sizes: Mapping[TopicPartition, int], weights: Mapping[TopicPartition, float], limit_bytes: int) -> bool:
    """Whether this many offsets stay below the limit even if records are heavier than known."""
    return _MARGIN * sum(size * weights[tp] for tp, size in sizes.items()) < limit_bytes


def _sizes(ranges: Iterable[OffsetRange]) -> dict[TopicPartition, int]:
    """The number of offsets of each partition."""
    sizes: dict[TopicPartition, int] = {}
    for one in ranges:
        sizes[one.topic_partition] = sizes.get(one.topic_partition, 0) + one.size
    return sizes


def weight_of(records: memoryview | bytes, fetch_offset: int) -> float | None:
    """Bytes per offset of a fetch's records, by the headers of their batches. None: no header came whole.

    A cut last batch counts whole, because its header says how long it is. Offsets between batches, which compaction
    left, count with no bytes; those before the first batch do not count. Message sets v0 and v1 count too: an entry is
    one message, or several under the last one's offset.
    """
    pos = size = next_offset = 0
    first = fetch_offset
    while pos + h.HEADER_BYTES <= len(records):
        fields = h.HEADER.unpack_from(records, pos)
        base_offset, length, magic, last_offset_delta = fields[0], fields[1], fields[3], fields[6]
        last_offset = base_offset + (last_offset_delta if magic == 2 else 0)
        if length <= 0 or magic not in (0, 1, 2) or last_offset < max(base_offset, next_offset):
            break
        if pos == 0 and magic == 2:
            first = base_offset  # of all of the batch, also where the fetch is into its middle
        next_offset = last_offset + 1
        size += h.PREFIX_BYTES + length
        pos += h.PREFIX_BYTES + length
    return size / (next_offset - first) if next_offset > first else None


def first_offset(records: memoryview | bytes, fetch_offset: int) -> int:
    """The offset, at or behind `fetch_offset`, at which a fetch's first record batch begins."""
    if len(records) >= h.HEADER_BYTES and records[h.MAGIC_POS] == 2:  # a message may be the last one of several
        return max(fetch_offset, int(h.PREFIX.unpack_from(records)[0]))
    return fetch_offset
