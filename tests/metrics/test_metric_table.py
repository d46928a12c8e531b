"""The table of metrics, and the document, dashboard and library that take its names."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client.metrics import Counter, Gauge, Histogram

from kafkasource.metrics.table import METRICS, TABLE, markdown_table

ROOT = Path(__file__).parents[2]

# kafka-lag-exporter's README lists these.
MEMBER = "cluster_name, group, topic, partition, member_host, consumer_id, client_id"
LAG_EXPORTER = {
    "kafka_consumergroup_group_offset": MEMBER,
    "kafka_consumergroup_group_lag": MEMBER,
    "kafka_consumergroup_group_lag_seconds": MEMBER,
    "kafka_consumergroup_group_max_lag": "cluster_name, group, is_simple_consumer",
    "kafka_consumergroup_group_max_lag_seconds": "cluster_name, group, is_simple_consumer",
    "kafka_consumergroup_group_sum_lag": "cluster_name, group",
    "kafka_consumergroup_group_topic_sum_lag": "cluster_name, group, topic",
    "kafka_partition_latest_offset": "cluster_name, topic, partition",
}


def test_no_name_is_there_twice():
    assert len(METRICS) == len(TABLE)


@pytest.mark.parametrize("name", LAG_EXPORTER)
def test_lag_dashboards_find_their_names_and_labels(name):
    assert ", ".join(METRICS[name].labels) == LAG_EXPORTER[name]


@pytest.mark.parametrize("metric", TABLE, ids=lambda metric: metric.name)
def test_prometheus_client_takes_each_row(metric):
    kind = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}[metric.kind]
    kind(metric.name, metric.help, metric.labels, registry=None)
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    assert metric.kind != "histogram" or list(metric.buckets) == sorted(metric.buckets) != []


def test_the_table_of_the_docs_is_the_table():
    text = (ROOT / "docs" / "metrics-table.md").read_text()
    assert text.count(markdown_table()) == 1, "make readme renews it"


def test_the_dashboard_asks_for_metrics_that_there_are():
    dashboard = json.loads((ROOT / "examples" / "grafana_kafkasource.json").read_text())
    asked = set()
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            asked |= set(re.findall(r"\bkafka(?:source)?_\w+", target["expr"]))
    known = set(METRICS)
    for metric in TABLE:
        if metric.kind == "histogram":
            known |= {f"{metric.name}_{part}" for part in ("bucket", "sum", "count")}
    assert asked
    assert asked <= known
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
