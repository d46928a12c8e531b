"""The state of streaming queries, from their progress: lag, rates, batches, and their history.

Spark reports progress in the user's process (`listener`), wherever tasks run, also over Connect. This module only
keeps it: no Spark, no sockets. Any thread.
"""

from __future__ import annotations

import bisect
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from kafkasource.metrics.lag import behind, ends_of_logs, offsets_of, oldest_from_progress
from kafkasource.metrics.snapshot import Histogram, Key, Snapshot
from kafkasource.metrics.table import METRICS
from kafkasource.tools.monitor.log_times import LogTimes
from kafkasource.types import TopicPartition

HISTORY = 600  # points in time of each query
_MOST_ENDED = 50  # queries that have ended

_DURATION = "kafkasource_query_batch_duration_seconds"


ProgressJson: TypeAlias = Mapping[str, Any]
"""ProgressJson of a micro-batch, as Spark writes it in JSON."""


@dataclass(frozen=True, slots=True)
class QueryPartition:
    """How far a query has read one partition, at its last progress."""

    offset: int  # the next offset to read
    latest: int  # end of the log when that batch was planned
    lag: int
    lag_seconds: float | None  # None: not known (yet)
    lag_seconds_at_least: float  # a lower bound, always known


_Places: TypeAlias = dict[TopicPartition, QueryPartition]
_Log: TypeAlias = tuple[int, TopicPartition]  # the number of the query's source, which may read another cluster


@dataclass
class Query:
    """One streaming query. A restart from its checkpoint is the same query."""

    id: str
    name: str | None
    run_id: str
    active: bool = True
    error: str | None = None  # why it ended
    batch_id: int | None = None
    batches: int = 0  # batches that had data
    rows: int = 0
    rows_come: float | None = None  # rows that arrive per second
    rows_done: float | None = None
    batch_seconds: float | None = None
    told_s: float | None = None  # when Spark last reported progress, seconds of the epoch
    places: dict[TopicPartition, QueryPartition] = field(default_factory=dict)
    history: deque[list[float | None]] = field(default_factory=lambda: deque(maxlen=HISTORY))
    """[seconds of the epoch, lag, rows that arrived per second, rows processed per second, lag in seconds]. None:
    unknown."""
    progress: ProgressJson | None = None  # Spark's last
    durations: list[int] = field(default_factory=lambda: [0] * (len(METRICS[_DURATION].buckets) + 1))
    durations_s: float = 0.0
    logs: dict[_Log, LogTimes] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return self.name or self.id

    @property
    def lag(self) -> int:
        return sum(place.lag for place in self.places.values())

    @property
    def lag_seconds(self) -> float | None:
        """The largest of all partitions. None while the lag of one is not known: it may be the largest."""
        known = [place.lag_seconds for place in self.places.values() if place.lag_seconds is not None]
        return max(known) if known and len(known) == len(self.places) else None

    @property
    def lag_seconds_at_least(self) -> float | None:
        """A lower bound of the largest lag. None before the first progress."""
        return max((place.lag_seconds_at_least for place in self.places.values()), default=None)

    def as_json(self) -> dict[str, object]:
        return {
            "id": self.id,
            "name": self.name,
            "run_id": self.run_id,
            "active": self.active,
            "error": self.error,
            "batch_id": self.batch_id,
            "batches": self.batches,
            "rows": self.rows,
            "input_rows_per_second": self.rows_come,
            "processed_rows_per_second": self.rows_done,
            "batch_seconds": self.batch_seconds,
            "last_progress": self.told_s,
            "lag": self.lag,
            "lag_seconds": self.lag_seconds,
            "lag_seconds_at_least": self.lag_seconds_at_least,
            "partitions": [
                {"topic": tp.topic, "partition": tp.partition, **asdict(place)}
                for tp, place in sorted(self.places.items())
            ],
            "history": list(self.history),
        }


class Queries:
    """All queries of a session. `clock` in seconds of the epoch."""

    def __init__(
        self,
        cluster_name: str = "",
        groups: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`groups`: from a query's name or id to its label `group`."""
        self._cluster_name = cluster_name
        self._groups = groups or {}
        self._clock = clock
        self._lock = threading.Lock()
        self._queries: dict[str, Query] = {}

    def started(self, query_id: str, run_id: str, name: str | None) -> None:
        with self._lock:
            self._started(query_id, run_id, name)

    def _started(self, query_id: str, run_id: str, name: str | None) -> Query:
        query = self._queries.get(query_id)
        if query is None:
            query = self._queries[query_id] = Query(query_id, name, run_id)
        if query.run_id != run_id:
            query.history.append([self._clock(), None, None, None, None])  # the query did not run in between
        query.run_id, query.active, query.error = run_id, True, None
        return query

    def ended(self, query_id: str, error: str | None) -> None:
        with self._lock:
            query = self._queries.get(query_id)
            if query is not None:
                query.active, query.error = False, error
            ended = [query.id for query in self._queries.values() if not query.active]
            for old in ended[:-_MOST_ENDED]:
                del self._queries[old]

    def progressed(self, progress: ProgressJson) -> None:
        """Add one progress, as Spark's JSON has it. A progress that is no newer than the last changes nothing."""
        with self._lock:
            query = self._queries.get(progress["id"])
            if query is None or query.run_id != progress["runId"]:
                query = self._started(progress["id"], progress["runId"], progress.get("name"))
            last = query.progress
            if last is not None and last["runId"] == progress["runId"] and progress["timestamp"] <= last["timestamp"]:
                return
            self._take_in(query, progress)

    def _take_in(self, query: Query, progress: ProgressJson) -> None:
        now_s = self._clock()
        query.progress, query.told_s = progress, now_s
        query.batch_id = progress["batchId"]
        rows = progress.get("numInputRows") or 0
        query.rows += rows
        query.rows_come = _number(progress.get("inputRowsPerSecond"))
        query.rows_done = _number(progress.get("processedRowsPerSecond"))
        if "addBatch" in (progress.get("durationMs") or {}):  # otherwise the micro-batch was empty
            seconds = (_number(progress.get("batchDuration")) or 0.0) / 1000
            query.batch_seconds = seconds
            query.batches += 1
            query.durations[bisect.bisect_left(METRICS[_DURATION].buckets, seconds)] += 1
            query.durations_s += seconds
        places = _places(progress, query.logs, _began_s(progress, now_s), now_s)
        if places or not query.places:  # a batch that a restart replays does not have the ends
            query.places = places
            query.logs = {log: times for log, times in query.logs.items() if log[1] in places}
        query.history.append([now_s, query.lag, query.rows_come, query.rows_done, query.lag_seconds])

    def as_json(self) -> list[dict[str, object]]:
        """All queries; those that run come first. JSON has no NaN, so unknown values are None."""
        with self._lock:
            return [query.as_json() for query in sorted(self._queries.values(), key=lambda q: (not q.active, q.label))]

    def progress(self, query_id: str) -> ProgressJson | None:
        """Spark's last progress, unchanged."""
        with self._lock:
            query = self._queries.get(query_id)
            return None if query is None else query.progress

    def snapshot(self) -> Snapshot:
        """The metrics of all queries. The lag is only of queries that run."""
        counters: dict[Key, float] = {}
        histograms: dict[Key, Histogram] = {}
        gauges: dict[Key, float] = {}
        with self._lock:
            for query in self._queries.values():
                label = (query.label,)
                gauges["kafkasource_query_active", label] = float(query.active)
                counters["kafkasource_query_batches_total", label] = query.batches
                counters["kafkasource_query_input_rows_total", label] = query.rows
                histograms[_DURATION, label] = tuple(query.durations), query.durations_s
                for name, value in (
                    ("kafkasource_query_input_rows_per_second", query.rows_come),
                    ("kafkasource_query_processed_rows_per_second", query.rows_done),
                    ("kafkasource_query_last_progress_timestamp_seconds", query.told_s),
                ):
                    if value is not None:
                        gauges[name, label] = value
                if query.active:
                    gauges.update(self._lag(query))
        return Snapshot("", 0, counters, histograms, gauges)

    def _lag(self, query: Query) -> dict[Key, float]:
        """The lag with kafka-lag-exporter's names and labels."""
        cluster = self._cluster_name
        group = self._groups.get(query.name or "", self._groups.get(query.id, query.label))
        member = socket.gethostname(), query.id, "kafkasource"
        gauges: dict[Key, float] = {}
        by_topic: dict[str, int] = {}
        for tp, place in query.places.items():
            partition = cluster, tp.topic, str(tp.partition)
            labels = cluster, group, tp.topic, str(tp.partition), *member
            gauges["kafka_consumergroup_group_offset", labels] = place.offset
            gauges["kafka_consumergroup_group_lag", labels] = place.lag
            if place.lag_seconds is not None:
                gauges["kafka_consumergroup_group_lag_seconds", labels] = place.lag_seconds
            gauges["kafka_partition_latest_offset", partition] = place.latest
            by_topic[tp.topic] = by_topic.get(tp.topic, 0) + place.lag
        for topic, offsets in by_topic.items():
            gauges["kafka_consumergroup_group_topic_sum_lag", (cluster, group, topic)] = offsets
        if query.places:
            of_group = cluster, group, "true"  # true: the group is without members
            gauges["kafka_consumergroup_group_sum_lag", (cluster, group)] = query.lag
            gauges["kafka_consumergroup_group_max_lag", of_group] = max(place.lag for place in query.places.values())
            if query.lag_seconds is not None:
                gauges["kafka_consumergroup_group_max_lag_seconds", of_group] = query.lag_seconds
            if query.lag_seconds_at_least is not None:
                gauges["kafkasource_query_lag_at_least_seconds", (query.label,)] = query.lag_seconds_at_least
        return gauges


def _places(progress: ProgressJson, logs: dict[_Log, LogTimes], began_s: float, now_s: float) -> _Places:
    """The partitions of a progress report. `began_s`: when the driver asked for the ends of the logs. If several
    sources read a partition of one name, as from two clusters, the source that is furthest behind counts."""
    places: _Places = {}
    for number, source in enumerate(progress.get("sources") or ()):
        latest = ends_of_logs(source)
        oldest_ms = oldest_from_progress({"sources": [source]})
        for tp, offsets in behind(offsets_of(source["endOffset"]), latest).items():
            log = logs.setdefault((number, tp), LogTimes())
            log.seen(began_s, latest[tp])
            next_offset = latest[tp] - offsets
            if (tp, next_offset) in oldest_ms:
                log.written(oldest_ms[tp, next_offset] / 1000, next_offset)
            seconds = log.seconds_behind(next_offset, now_s)
            at_least = log.at_least_behind(next_offset, now_s) if seconds is None else seconds
            place = QueryPartition(next_offset, latest[tp], offsets, seconds, at_least)
            if tp not in places or offsets > places[tp].lag:
                places[tp] = place
    return places


def _began_s(progress: ProgressJson, now_s: float) -> float:
    """When the trigger began, by the clock of the driver."""
    try:
        began_s = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
    except (KeyError, ValueError, AttributeError):
        return now_s
    return min(began_s, now_s)


def _number(value: Any) -> float | None:
    """Spark leaves rates out, or says NaN, where there is no time to divide by."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if number == number and abs(number) != float("inf") else None
