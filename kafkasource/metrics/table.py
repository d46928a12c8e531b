"""The table of metrics: name, labels, help. Binders, the endpoint, docs/metrics-table.md and the tests read it.

The first block has the names and labels of kafka-lag-exporter, which lag dashboards know; a streaming query takes the
place of a consumer group. All other names begin with `kafkasource_`. As Prometheus asks, the unit ends the name
(seconds, bytes), or `_total`: that makes it a counter. A row with buckets is a histogram, every other row a gauge.
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
    """One row. `of_all`: how values with the same labels from several processes are combined."""

    name: str
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()
    of_all: Literal["sum", "max"] = "sum"

    @property
    def kind(self) -> Kind:
        if self.buckets:
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"


_PARTITION_OF_GROUP = ("cluster_name", "group", "topic", "partition", "member_host", "consumer_id", "client_id")
_GROUP = ("cluster_name", "group", "is_simple_consumer")
_PARTITION = ("cluster_name", "topic", "partition")
_QUERY = ("query",)

TABLE = (
    # Lag, by kafka-lag-exporter's names.
    Metric(
        "kafka_consumergroup_group_offset",
        _PARTITION_OF_GROUP,
        "The next offset of a partition that the query will read.",
    ),
    Metric(
        "kafka_consumergroup_group_lag",
        _PARTITION_OF_GROUP,
        "Offsets of a partition that the query has not read yet.",
    ),
    Metric(
        "kafka_consumergroup_group_lag_seconds",
        _PARTITION_OF_GROUP,
        "Age of the oldest record that the query has not read yet; absent while that is unknown.",
    ),
    Metric("kafka_consumergroup_group_max_lag", _GROUP, "The largest lag of a partition."),
    Metric(
        "kafka_consumergroup_group_max_lag_seconds",
        _GROUP,
        "The largest lag of a partition in seconds; absent while the lag of any partition is unknown.",
    ),
    Metric("kafka_consumergroup_group_sum_lag", ("cluster_name", "group"), "Lag of all partitions."),
    Metric(
        "kafka_consumergroup_group_topic_sum_lag",
        ("cluster_name", "group", "topic"),
        "Lag of a topic's partitions.",
    ),
    Metric(
        "kafka_partition_latest_offset",
        _PARTITION,
        "End of a partition's log when the last micro-batch was planned.",
    ),
    # Streaming queries.
    Metric("kafkasource_query_active", _QUERY, "1 while the query runs, 0 after it has ended."),
    Metric("kafkasource_query_batches_total", _QUERY, "Micro-batches that had data."),
    Metric("kafkasource_query_input_rows_total", _QUERY, "Rows from the query's sources."),
    Metric(
        "kafkasource_query_input_rows_per_second",
        _QUERY,
        "Rows that arrived per second, as Spark reports for the last micro-batch.",
    ),
    Metric(
        "kafkasource_query_processed_rows_per_second",
        _QUERY,
        "Rows processed per second in the last micro-batch.",
    ),
    Metric(
        "kafkasource_query_batch_duration_seconds",
        _QUERY,
        "Duration of micro-batches.",
        buckets=(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
    ),
    Metric(
        "kafkasource_query_lag_at_least_seconds",
        _QUERY,
        "The largest lag of a partition in seconds, or a lower bound while that is unknown. Alert on this metric.",
    ),
    Metric(
        "kafkasource_query_last_progress_timestamp_seconds",
        _QUERY,
        "When Spark last reported progress; lag is as old as this. An old value means that the query hangs.",
    ),
    # Reading.
    Metric("kafkasource_records_read_total", ("topic",), "Records given to Spark."),
    Metric(
        "kafkasource_bad_records_total",
        ("topic", "reason"),
        "Records that `valueFormat` or `keyFormat` could not decode.",
    ),
    Metric("kafkasource_rescued_records_total", ("topic",), "Records with fields in `rescuedColumn`."),
    Metric(
        "kafkasource_registry_requests_total",
        ("outcome",),
        "Requests to a schema registry: `answered`, `refused` (a status of 4xx), `failed` (the request is repeated).",
    ),
    Metric("kafkasource_bytes_read_total", ("topic",), "Bytes of record batches fetched, as sent."),
    Metric(
        "kafkasource_fetch_latency_seconds",
        (),
        "Time from a Fetch request to its response, including the broker's wait for records.",
        buckets=LATENCY_BUCKETS,
    ),
    Metric("kafkasource_fetch_retries_total", ("topic",), "Fetches that failed and were sent again."),
    Metric(
        "kafkasource_offsets_skipped_total",
        ("topic",),
        "Offsets that were lost before the query read them, where their number is known (failOnDataLoss=false).",
    ),
    # Writing. cluster_name: the name in the option `clusters`, else the first bootstrap server.
    Metric(
        "kafkasource_records_written_total",
        ("cluster_name", "topic"),
        "Acknowledged records.",
    ),
    Metric(
        "kafkasource_bytes_written_total",
        ("cluster_name", "topic"),
        "Bytes of acknowledged record batches, as sent.",
    ),
    Metric(
        "kafkasource_dead_letters_total",
        ("cluster_name", "topic", "reason"),
        "Records that the sink sent to the topic of `badRecords`. The reason is Kafka's name of the error, the option "
        "that limits the size, or the fault of the row.",
    ),
    Metric(
        "kafkasource_produce_latency_seconds",
        ("cluster_name",),
        "Time from a Produce request to its response, or to the loss of its connection.",
        buckets=LATENCY_BUCKETS,
    ),
    Metric("kafkasource_produce_retries_total", ("cluster_name", "topic"), "Batches sent again."),
    Metric(
        "kafkasource_batches_split_total",
        ("cluster_name", "topic"),
        "Batches that were too large and were sent in pieces.",
    ),
    Metric(
        "kafkasource_batches_expired_total",
        ("cluster_name", "topic"),
        "Batches that failed because delivery.timeout.ms (or maxRecordAge) was over.",
    ),
    Metric(
        "kafkasource_records_discarded_total",
        ("cluster_name", "topic", "partition"),
        "Records that the sink discarded: the cluster was too slow, or refused their "
        "topic, or they were too old. Partition -1: unknown.",
    ),
    Metric(
        "kafkasource_bytes_discarded_total",
        ("cluster_name", "topic", "partition"),
        "Size of the keys and values of discarded records.",
    ),
    Metric(
        "kafkasource_queue_bytes",
        ("cluster_name",),
        "Size of the cluster's queue: buffers that are not acknowledged yet.",
    ),
    Metric("kafkasource_queue_limit_bytes", ("cluster_name",), "Limit of the queue (kafka.buffer.memory)."),
    Metric("kafkasource_pool_waiters", ("cluster_name",), "Tasks that wait for buffer memory."),
    Metric(
        "kafkasource_pool_wait_seconds_total",
        ("cluster_name",),
        "Time that tasks waited for buffer memory: writing is the bottleneck.",
    ),
    # Memory, by part of the budget.
    Metric(
        "kafkasource_memory_bytes",
        ("part",),
        "Memory in use, by part of the budget; native: Arrow's pool, heap: Python and the rest, resident: everything.",
    ),
    Metric("kafkasource_memory_limit_bytes", ("part",), "Limit of each part now; budget: all parts together."),
    Metric(
        "kafkasource_memory_peak_bytes",
        ("part",),
        "The most memory that a part of one process has used.",
        of_all="max",
    ),
    Metric(
        "kafkasource_kept",
        ("what",),
        "Things that a process keeps for its next tasks: `clusters`, their `connections` and `topics`, `producers`; "
        "`python_blocks`: blocks of memory that Python's objects take. A number that grows for hours is a leak.",
    ),
    # Exactly once.
    Metric(
        "kafkasource_transactions_total",
        ("outcome",),
        "Task transactions: committed, recovered (from an earlier run), aborted (left open by an earlier run), lost.",
    ),
    Metric(
        "kafkasource_open_transactions",
        ("sink", "cluster_name"),
        "Open transactions of the sink (serve_metrics(sinks=...)).",
    ),
    Metric(
        "kafkasource_oldest_transaction_seconds",
        ("sink", "cluster_name"),
        "Age of the sink's oldest open transaction: readers with read_committed wait that long.",
    ),
    Metric(
        "kafkasource_commits_total",
        ("query", "cluster_name"),
        "Micro-batches and batch writes that the sink committed.",
    ),
)

METRICS = {metric.name: metric for metric in TABLE}


def markdown_table() -> str:
    """The table in docs/metrics-table.md; `make readme` writes it there."""
    lines = ["| metric | labels | meaning |", "|---|---|---|"]
    for metric in TABLE:
        labels = ", ".join(metric.labels)
        lines.append(f"| `{metric.name}` | {labels} | {metric.help} |")
    return "\n".join(lines)
