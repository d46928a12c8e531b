"""THE table of metrics: name, kind, labels, help. Binders, the endpoint, docs/metrics.md and the tests read it.

Names of the first block, and their labels, are those of kafka-lag-exporter, which lag dashboards know; a streaming
query stands where a consumer group does there. All others begin with `kafkasource_`. Units end the name, as Prometheus
asks: seconds, bytes; `_total` is a counter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]

# Upper bounds in seconds. A broker on the same machine answers in a millisecond, one behind a thin line in a second,
# and an empty fetch after fetch.max.wait.ms (0.5).
LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One row. Values of the same labels from several processes are added up, or with `of_all` the largest is taken."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    where: str  # who counts it: source task, sink task, commit (driver), progress (driver)
    buckets: tuple[float, ...] = ()
    of_all: Literal["sum", "max"] = "sum"


_PARTITION_OF_GROUP = ("cluster_name", "group", "topic", "partition", "member_host", "consumer_id", "client_id")
_GROUP = ("cluster_name", "group", "is_simple_consumer")
_PARTITION = ("cluster_name", "topic", "partition")
_QUERY = ("query",)

TABLE = (
    # Lag, by kafka-lag-exporter's names.
    Metric(
        "kafka_consumergroup_group_offset",
        "gauge",
        _PARTITION_OF_GROUP,
        "Offset up to which the query has read a partition (the next one to read).",
        "progress",
    ),
    Metric(
        "kafka_consumergroup_group_lag",
        "gauge",
        _PARTITION_OF_GROUP,
        "Offsets of a partition that the query has still to read.",
        "progress",
    ),
    Metric(
        "kafka_consumergroup_group_lag_seconds",
        "gauge",
        _PARTITION_OF_GROUP,
        "How long ago the oldest record that the query has not read yet was written; absent while that is not known.",
        "progress",
    ),
    Metric("kafka_consumergroup_group_max_lag", "gauge", _GROUP, "The largest lag of a partition.", "progress"),
    Metric(
        "kafka_consumergroup_group_max_lag_seconds",
        "gauge",
        _GROUP,
        "The largest lag of a partition in seconds; absent while that of a partition is not known.",
        "progress",
    ),
    Metric(
        "kafka_consumergroup_group_sum_lag", "gauge", ("cluster_name", "group"), "Lag of all partitions.", "progress"
    ),
    Metric(
        "kafka_consumergroup_group_topic_sum_lag",
        "gauge",
        ("cluster_name", "group", "topic"),
        "Lag of a topic's partitions.",
        "progress",
    ),
    Metric(
        "kafka_partition_latest_offset",
        "gauge",
        _PARTITION,
        "End of a partition's log when the last micro-batch was planned.",
        "progress",
    ),
    # Streaming queries.
    Metric("kafkasource_query_active", "gauge", _QUERY, "1 while the query runs, 0 after it has ended.", "progress"),
    Metric("kafkasource_query_batches_total", "counter", _QUERY, "Micro-batches that had something to do.", "progress"),
    Metric("kafkasource_query_input_rows_total", "counter", _QUERY, "Rows that its sources gave.", "progress"),
    Metric(
        "kafkasource_query_input_rows_per_second",
        "gauge",
        _QUERY,
        "Rows that came in a second, as Spark says of the last micro-batch.",
        "progress",
    ),
    Metric(
        "kafkasource_query_processed_rows_per_second",
        "gauge",
        _QUERY,
        "Rows worked off in a second of the last micro-batch.",
        "progress",
    ),
    Metric(
        "kafkasource_query_batch_duration_seconds",
        "histogram",
        _QUERY,
        "Duration of micro-batches.",
        "progress",
        buckets=(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
    ),
    Metric(
        "kafkasource_query_lag_at_least_seconds",
        "gauge",
        _QUERY,
        "The largest lag of a partition in seconds, or a lower bound while it is not known. Alert on this one.",
        "progress",
    ),
    Metric(
        "kafkasource_query_last_progress_timestamp_seconds",
        "gauge",
        _QUERY,
        "When Spark last told of progress; lag is as of then. A query that hangs shows by its age.",
        "progress",
    ),
    # Reading.
    Metric("kafkasource_records_read_total", "counter", ("topic",), "Records given to Spark.", "source task"),
    Metric(
        "kafkasource_bytes_read_total",
        "counter",
        ("topic",),
        "Bytes of record batches fetched, as sent.",
        "source task",
    ),
    Metric(
        "kafkasource_fetch_latency_seconds",
        "histogram",
        (),
        "From a Fetch request to its answer, the broker's waiting for records included.",
        "source task",
        buckets=LATENCY_BUCKETS,
    ),
    Metric(
        "kafkasource_fetch_retries_total",
        "counter",
        ("topic",),
        "Fetches that failed and were repeated.",
        "source task",
    ),
    Metric(
        "kafkasource_offsets_skipped_total",
        "counter",
        ("topic",),
        "Offsets that were gone before they were read (failOnDataLoss=false).",
        "source task",
    ),
    # Writing. cluster_name: of the option `clusters`, else the first bootstrap server.
    Metric(
        "kafkasource_records_written_total",
        "counter",
        ("cluster_name", "topic"),
        "Records acknowledged; those of a task that is run again count again.",
        "sink task",
    ),
    Metric(
        "kafkasource_bytes_written_total",
        "counter",
        ("cluster_name", "topic"),
        "Bytes of acknowledged record batches, as sent.",
        "sink task",
    ),
    Metric(
        "kafkasource_produce_latency_seconds",
        "histogram",
        ("cluster_name",),
        "From a Produce request to its answer, or to the loss of its connection.",
        "sink task",
        buckets=LATENCY_BUCKETS,
    ),
    Metric(
        "kafkasource_produce_retries_total", "counter", ("cluster_name", "topic"), "Batches sent again.", "sink task"
    ),
    Metric(
        "kafkasource_batches_split_total",
        "counter",
        ("cluster_name", "topic"),
        "Batches that were too large, and sent in pieces.",
        "sink task",
    ),
    Metric(
        "kafkasource_batches_expired_total",
        "counter",
        ("cluster_name", "topic"),
        "Batches given up because delivery.timeout.ms (or maxRecordAge) was over.",
        "sink task",
    ),
    Metric(
        "kafkasource_records_discarded_total",
        "counter",
        ("cluster_name", "topic", "partition"),
        "Records not written on purpose: the cluster was too slow, or they were too old. Partition -1: not known.",
        "sink task",
    ),
    Metric(
        "kafkasource_bytes_discarded_total",
        "counter",
        ("cluster_name", "topic", "partition"),
        "Bytes of their keys and values.",
        "sink task",
    ),
    Metric(
        "kafkasource_queue_bytes",
        "gauge",
        ("cluster_name",),
        "Bytes in the cluster's queue: buffers handed over and not acknowledged yet.",
        "sink task",
    ),
    Metric(
        "kafkasource_queue_limit_bytes",
        "gauge",
        ("cluster_name",),
        "What the queue may hold (kafka.buffer.memory).",
        "sink task",
    ),
    Metric("kafkasource_pool_waiters", "gauge", ("cluster_name",), "Tasks that wait for memory.", "sink task"),
    Metric(
        "kafkasource_pool_wait_seconds_total",
        "counter",
        ("cluster_name",),
        "Time that tasks waited for memory: writing is the bottleneck.",
        "sink task",
    ),
    # Memory, by part of the budget.
    Metric(
        "kafkasource_memory_bytes",
        "gauge",
        ("part",),
        "Memory in use, by part of the budget; native: Arrow's pool, heap: Python's and the rest, resident: all.",
        "any task",
    ),
    Metric(
        "kafkasource_memory_limit_bytes",
        "gauge",
        ("part",),
        "What each part may take now; budget: all of them.",
        "any task",
    ),
    Metric(
        "kafkasource_memory_peak_bytes",
        "gauge",
        ("part",),
        "The most that a part of one process ever took.",
        "any task",
        of_all="max",
    ),
    # Exactly once.
    Metric(
        "kafkasource_transactions_total",
        "counter",
        ("outcome",),
        "Tasks' transactions: committed, recovered (of an earlier run), aborted (left open before), lost.",
        "commit",
    ),
    Metric(
        "kafkasource_open_transactions",
        "gauge",
        ("sink", "cluster_name"),
        "Transactions that the sink has open (serve_metrics(sinks=...)). Cluster: of the option `clusters`.",
        "brokers",
    ),
    Metric(
        "kafkasource_oldest_transaction_seconds",
        "gauge",
        ("sink", "cluster_name"),
        "For how long the oldest of them has been open: readers at read_committed wait as long.",
        "brokers",
    ),
    Metric(
        "kafkasource_commits_total",
        "counter",
        ("query", "cluster_name"),
        "Micro-batches and batch writes that the sink committed. Cluster: of the option `clusters`.",
        "commit",
    ),
)

METRICS = {metric.name: metric for metric in TABLE}


def markdown_table() -> str:
    """For docs/metrics.md; `make readme` renews it there."""
    lines = ["| metric | kind | labels | counted by | meaning |", "|---|---|---|---|---|"]
    for metric in TABLE:
        labels = ", ".join(metric.labels)
        lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.where} | {metric.help} |")
    return "\n".join(lines)
