"""The lag of a streaming query, by partition.

`lag` takes it from Spark's progress, in the user's process, also over Connect. `LagLog` writes it to the log of the
reader process, on the driver. Both count offsets, an upper bound of the records because of compaction and transaction
markers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kafkasource.metrics.log_ends import UNREADABLE, log_ends_in, parsed
from kafkasource.options.spelling import lag_in_words
from kafkasource.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery, StreamingQueryProgress

log = logging.getLogger("kafkasource.source")

LOG_EVERY_S = 60.0
_NAMED_IN_LOG = 20


def lag(query: StreamingQuery) -> dict[TopicPartition, int]:
    """Offsets that a query has still to read, for each partition that it has reached.

    `query`: a StreamingQuery, or one progress of it, as a StreamingQueryListener gets. It counts from the end of the
    last micro-batch to the ends of the logs as they were when Spark planned that batch. An idle query looks again with
    each trigger, and reports to Spark every ten seconds. Empty before the first progress, and for sources that are not
    Kafka's (the JVM connector's are counted as well). If several sources read a partition of one name, as from two
    clusters, the largest lag counts. Asks Spark, never a broker.
    """
    last = getattr(query, "lastProgress", query)
    lags = _in_progress(last)
    if not lags and last is not query:  # a batch that a restart replays does not have the ends
        return next(filter(None, map(_in_progress, reversed(query.recentProgress))), {})
    return lags


def _in_progress(progress: StreamingQueryProgress | Mapping[str, Any]) -> dict[TopicPartition, int]:
    lags: dict[TopicPartition, int] = {}
    for source in (progress or {}).get("sources") or ():
        for tp, offsets in behind(offsets_of(source["endOffset"]), ends_of_logs(source)).items():
            lags[tp] = max(offsets, lags.get(tp, 0))  # two sources of one query may read the same topic
    return lags


def ends_of_logs(source: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """The ends of the logs when Spark planned the batch, from one source of a progress.

    Spark 4.0 and 4.1 show the end of the batch as the latest offset. The offset itself then names the logs that end
    behind it.
    """
    return offsets_of(source.get("latestOffset")) | log_ends_in(source.get("endOffset"))


def behind(consumed: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """latest - consumed for the partitions that both have, sorted. 0 if a log ends below the consumed offset."""
    return {tp: max(0, latest[tp] - consumed[tp]) for tp in sorted(consumed.keys() & latest.keys())}


def offsets_of(document: Any) -> dict[TopicPartition, int]:
    """An offset as progress has it. Other sources' offsets give nothing.

    Our own offset has an entry beside the topics, whose value is empty.
    """
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in parsed(document).items()
            for partition, offset in partitions.items()
        }
    except UNREADABLE:
        return {}


OLDEST = "@oldest"


def oldest_to_text(times_ms: Mapping[tuple[TopicPartition, int], int]) -> str:
    """Timestamps of the oldest records that a query has not read yet, by partition and offset, as one text:

        @oldest;t/0/200=1700000000000;u/3/7=1700000000123

    The reader process puts it as a key, with an empty value, beside the topics of the latest offset that Spark's
    progress shows: the only way from there to the user's process that exists everywhere. No name of a topic holds any
    of `@;/=`.
    """
    return ";".join((OLDEST, *(f"{tp.topic}/{tp.partition}/{at}={ms}" for (tp, at), ms in sorted(times_ms.items()))))


def oldest_from_progress(progress: Mapping[str, Any]) -> dict[tuple[TopicPartition, int], int]:
    """The inverse, for all sources of a progress. Leaves out texts that it cannot read (of another version)."""
    times_ms: dict[tuple[TopicPartition, int], int] = {}
    for source in progress.get("sources") or ():
        try:
            latest = source["latestOffset"]
            keys = [key for key in parsed(latest) if key[:1] == "@"]
            for entry in (part for key in keys for part in key.split(";")[1:] if key.split(";")[0] == OLDEST):
                place, _, time_ms = entry.partition("=")
                topic, partition, offset = place.split("/")
                times_ms[TopicPartition(topic, int(partition)), int(offset)] = int(time_ms)
        except (KeyError, *UNREADABLE):
            continue
    return times_ms


class LagLog:
    """Logs the lag at INFO, at most once a minute. Call it as often as you like, from one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_s: float | None = None

    def __call__(self, consumed: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> None:
        """`consumed`: the end of the last finished micro-batch; `latest`: the ends of the logs, beyond any limit."""
        if not log.isEnabledFor(logging.INFO):
            return
        now = self._clock()
        if self._next_s is not None and now < self._next_s:
            return
        self._next_s = now + LOG_EVERY_S
        lags = behind(consumed, latest)
        most = sorted((tp for tp, offsets in lags.items() if offsets), key=lambda tp: (-lags[tp], tp))
        named = ", ".join(f"{tp} {lags[tp]}" for tp in most[:_NAMED_IN_LOG])
        rest = f" and {len(most) - _NAMED_IN_LOG} more" if len(most) > _NAMED_IN_LOG else ""
        log.info("%s%s", lag_in_words(sum(lags.values()), len(most), len(lags)), f" ({named}{rest})" if most else "")
