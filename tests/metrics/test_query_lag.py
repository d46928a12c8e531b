"""From Spark's progress to lag, by names that dashboards know."""

import json
import socket

from spark_progress import progress

from kafkasource.tools.monitor.queries import Queries
from kafkasource.types import TopicPartition

BEGAN = 1_700_000_000.0


def queries_at(*steps, **arguments):
    """`steps`: when the trigger began, when Spark reported it, and the arguments of `progress`."""
    now = [0.0]
    queries = Queries("prod", clock=lambda: now[0], **arguments)
    for batch, (began, told, end, latest, more) in enumerate(steps):
        now[0] = BEGAN + told
        queries.progressed(progress(batch, BEGAN + began, end, latest, **more))
    return queries


STEPS = (
    (0, 1, {0: 100, 1: 50}, {0: 1000, 1: 50}, {"rows": 150, "rates": (0.0, 300.0)}),
    (10, 11, {0: 600, 1: 50}, {0: 2000, 1: 60}, {"rows": 500, "rates": (50.0, 250.0)}),
)


def partition_labels(number, group="orders"):
    return "prod", group, "t", str(number), socket.gethostname(), "query-1", "kafkasource"


def test_lag_has_the_names_and_labels_of_kafka_lag_exporter():
    gauges = queries_at(*STEPS).snapshot().gauges
    assert gauges["kafka_consumergroup_group_offset", partition_labels(0)] == 600
    assert gauges["kafka_consumergroup_group_lag", partition_labels(0)] == 1400
    assert gauges["kafka_consumergroup_group_lag", partition_labels(1)] == 10
    assert gauges["kafka_partition_latest_offset", ("prod", "t", "0")] == 2000
    assert gauges["kafka_consumergroup_group_sum_lag", ("prod", "orders")] == 1410
    assert gauges["kafka_consumergroup_group_topic_sum_lag", ("prod", "orders", "t")] == 1410
    assert gauges["kafka_consumergroup_group_max_lag", ("prod", "orders", "true")] == 1400


def test_of_two_sources_that_read_a_topic_of_one_name_the_one_that_is_further_behind_is_shown_whole():
    """One cluster's t-0 ends at 1,000,000 and is read to its end; the other's ends at 250, and is read up to 50."""
    told = progress(3, BEGAN, {0: 1_000_000}, {0: 1_000_000})
    told["sources"] += progress(3, BEGAN, {0: 50}, {0: 250})["sources"]
    queries = Queries("prod", clock=lambda: BEGAN + 1)
    queries.progressed(told)
    (shown,) = json.loads(json.dumps(queries.as_json()))
    assert shown["lag"] == 200
    assert [(each["offset"], each["latest"], each["lag"]) for each in shown["partitions"]] == [(50, 250, 200)]
    gauges = queries.snapshot().gauges
    assert gauges["kafka_consumergroup_group_offset", partition_labels(0)] == 50
    assert gauges["kafka_partition_latest_offset", ("prod", "t", "0")] == 250


def test_lag_in_seconds_is_since_the_log_ended_where_the_query_is():
    # Partition 0 grew by 100 a second, from 1000 at second 0: offset 600 came at second -4, now is second 11.
    # Partition 1 grew from 50 to 60 between second 0 and 10: the next record, 50, came at its begin at the earliest.
    gauges = queries_at(*STEPS).snapshot().gauges
    assert round(gauges["kafka_consumergroup_group_lag_seconds", partition_labels(0)], 3) == 15.0
    assert round(gauges["kafka_consumergroup_group_lag_seconds", partition_labels(1)], 3) == 11.0
    assert round(gauges["kafka_consumergroup_group_max_lag_seconds", ("prod", "orders", "true")], 3) == 15.0


def test_where_the_time_is_not_known_there_is_no_number():
    gauges = queries_at(STEPS[0]).snapshot().gauges
    assert ("kafka_consumergroup_group_lag_seconds", partition_labels(0)) not in gauges
    assert gauges["kafka_consumergroup_group_lag_seconds", partition_labels(1)] == 0.0


def test_a_query_that_is_behind_is_never_said_to_be_0_seconds_behind():
    """Partition 0 is 200,049 behind and has not grown since it was first seen, 12 s ago; partition 1 is caught up."""
    latest = {0: 200_049, 1: 50}
    queries = queries_at((0, 1, {0: 0, 1: 50}, latest, {"rows": 1}), (10, 12, {0: 0, 1: 50}, latest, {}))
    (shown,) = queries.as_json()
    assert (shown["lag"], shown["lag_seconds"], shown["lag_seconds_at_least"]) == (200_049, None, 12.0)
    assert [one["lag_seconds"] for one in shown["partitions"]] == [None, 0.0]
    assert [one["lag_seconds_at_least"] for one in shown["partitions"]] == [12.0, 0.0]
    assert [row[4] for row in shown["history"]] == [None, None]
    gauges = queries.snapshot().gauges
    assert not [name for name, labels in gauges if name == "kafka_consumergroup_group_max_lag_seconds"]
    assert gauges["kafkasource_query_lag_at_least_seconds", ("orders",)] == 12.0


def test_where_all_is_read_the_bound_is_0_too():
    queries = queries_at((0, 1, {0: 100}, {0: 100}, {"rows": 100}))
    assert (queries.as_json()[0]["lag_seconds"], queries.as_json()[0]["lag_seconds_at_least"]) == (0.0, 0.0)


def test_lag_in_seconds_is_since_the_oldest_unread_record_where_the_reader_has_seen_it():
    """The reader puts the record's timestamp beside the ends of the logs: 3,600 s before the first trigger."""
    written = {(TopicPartition("t", 0), 100): int(BEGAN - 3600) * 1000}
    first = (0, 1, {0: 100, 1: 50}, {0: 1000, 1: 50}, {"rows": 150, "oldest": written})
    (shown,) = queries_at(first).as_json()
    assert (shown["lag_seconds"], shown["lag_seconds_at_least"]) == (3601.0, 3601.0)
    # The next micro-batch ends between that record and the end as first seen: half of the hour is left.
    (shown,) = queries_at(first, (10, 11, {0: 550, 1: 50}, {0: 1000, 1: 50}, {"rows": 450})).as_json()
    assert shown["lag_seconds"] == 1811.0


def test_a_group_may_be_named_otherwise_than_the_query():
    gauges = queries_at(*STEPS, groups={"orders": "billing"}).snapshot().gauges
    assert ("kafka_consumergroup_group_lag", partition_labels(0, "billing")) in gauges


def test_rows_and_batches_are_added_up_over_restarts():
    more = (20, 21, {0: 700, 1: 60}, {0: 2000, 1: 60}, {"rows": 110, "run": "run-2"})
    counters = queries_at(*STEPS, more).snapshot().counters
    assert counters["kafkasource_query_input_rows_total", ("orders",)] == 760
    assert counters["kafkasource_query_batches_total", ("orders",)] == 3


def test_between_two_runs_the_line_is_broken():
    queries = queries_at(*STEPS)
    queries.ended("query-1", None)
    queries.started("query-1", "run-2", "orders")
    assert [row[1] for row in queries.as_json()[0]["history"]] == [900, 1410, None]


def test_the_same_progress_twice_counts_once():
    queries = queries_at(*STEPS)
    queries.progressed(progress(0, BEGAN, {0: 100, 1: 50}, {0: 1000, 1: 50}, rows=150))
    queries.progressed(progress(1, BEGAN + 10, {0: 600, 1: 50}, {0: 2000, 1: 60}, rows=500))
    assert queries.snapshot().counters["kafkasource_query_input_rows_total", ("orders",)] == 650


def test_idle_progress_moves_lag_but_is_no_batch():
    idle = (20, 20, {0: 600, 1: 50}, {0: 3000, 1: 60}, {})
    queries = queries_at(*STEPS, idle)
    assert queries.snapshot().counters["kafkasource_query_batches_total", ("orders",)] == 2
    assert queries.as_json()[0]["lag"] == 2410


def test_a_batch_that_a_restart_replays_keeps_the_lag_that_was_known():
    queries = queries_at(*STEPS)
    replayed = progress(2, BEGAN + 20, {0: 600, 1: 50}, {}, rows=5)
    replayed["sources"][0]["latestOffset"] = None
    queries.progressed(replayed)
    assert queries.as_json()[0]["lag"] == 1410


def test_a_query_that_has_ended_has_no_lag_any_more():
    queries = queries_at(*STEPS)
    queries.ended("query-1", "boom")
    gauges = queries.snapshot().gauges
    assert gauges["kafkasource_query_active", ("orders",)] == 0
    assert not [name for name, _ in gauges if name.startswith("kafka_")]
    assert queries.as_json()[0]["error"] == "boom"


def test_queries_that_ended_long_ago_are_forgotten():
    queries = Queries()
    for number in range(200):
        queries.started(f"q{number}", "run", None)
        queries.ended(f"q{number}", None)
    assert len(queries.as_json()) == 50


def test_a_query_without_a_name_goes_by_its_id():
    queries = queries_at((0, 1, {0: 1}, {0: 2}, {"rows": 1, "name": None}))
    assert ("kafkasource_query_active", ("query-1",)) in queries.snapshot().gauges
