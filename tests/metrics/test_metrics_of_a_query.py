"""A streaming query's metrics as they come out of Spark: what workers count, what survives them, what a page shows."""

import json
import os
import signal
import time
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from served_page import number

import kafkasource

pytestmark = pytest.mark.spark

ROWS = 3000


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def samples(served):
    """By name of the sample: labels and value, as Prometheus' own parser reads them."""
    found = {}
    for family in text_string_to_metric_families(get(served.url + "/metrics")):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def of_topic(found, name, topic):
    return sum(value for labels, value in found.get(name, ()) if labels["topic"] == topic)


def rows(spark, first, last):
    return spark.range(first, last).selectExpr(
        "cast(cast(id as string) as binary) key", "cast(repeat('x', 50) as binary) value"
    )


@pytest.fixture(scope="module")
def served(spark):
    with kafkasource.serve_metrics(spark, cluster_name="test") as served:
        yield served


@pytest.fixture
def copying(pykafka, spark, served, kafka_topic, tmp_path):
    """A query that copies ROWS rows from one topic to another, 1000 at a time; done when the test begins."""
    source, target = kafka_topic(partitions=3), kafka_topic(partitions=3)
    pykafka.write(rows(spark, 0, ROWS), source)
    query = (
        pykafka.reading(source, stream=True, startingOffsets="earliest", maxOffsetsPerTrigger=1000)
        .load()
        .writeStream.format("pykafka")
        .option("kafka.bootstrap.servers", pykafka.bootstrap_servers)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .queryName("copy")
        .start()
    )
    wait_for(lambda: any(one["id"] == str(query.id) and one["rows"] == ROWS for one in served.queries()))
    yield query, source, target
    query.stop()


def test_a_query_is_seen_from_outside_and_its_counters_survive_its_workers(copying, served, spark, pykafka, browse):
    query, source, target = copying
    found = samples(served)
    assert of_topic(found, "kafkasource_records_written_total", source) == ROWS  # by the batch write before
    assert of_topic(found, "kafkasource_records_written_total", target) == ROWS
    assert of_topic(found, "kafkasource_records_read_total", source) == ROWS
    assert of_topic(found, "kafkasource_bytes_read_total", source) > ROWS * 50
    offsets = {
        int(labels["partition"]): value
        for labels, value in found["kafka_consumergroup_group_offset"]
        if (labels["topic"], labels["group"], labels["cluster_name"]) == (source, "copy", "test")
    }
    assert len(offsets) == 3
    assert sum(offsets.values()) == ROWS
    assert of_topic(found, "kafka_consumergroup_group_lag", source) == 0
    assert of_topic(found, "kafka_consumergroup_group_lag_seconds", source) == 0
    assert ({"query": "copy"}, ROWS) in found["kafkasource_query_input_rows_total"]

    page = browse(served.url + "/")
    shown = next(one for one in json.loads(get(served.url + "/api/queries")) if one["id"] == str(query.id))
    assert number(page.tiles[shown["id"], "rows"]) == shown["rows"] == ROWS
    assert number(page.tiles[shown["id"], "lag"]) == shown["lag"]

    killed = kill_workers()
    assert killed
    pykafka.write(rows(spark, ROWS, ROWS + 500), source)
    wait_for(lambda: of_topic(samples(served), "kafkasource_records_written_total", target) == ROWS + 500)
    found = samples(served)
    assert of_topic(found, "kafkasource_records_written_total", source) == ROWS + 500
    assert of_topic(found, "kafkasource_records_read_total", source) == ROWS + 500
    assert len(json.loads((served.folder / "folded.json").read_text())["of"]) >= 2


def kill_workers():
    """kill -9 of our Spark's Python workers, which are children of its daemon, while they wait for a task."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, parent = int(stat.parent.name), int(stat.read_text().rpartition(")")[2].split()[1])
            parents[pid] = parent, (stat.parent / "cmdline").read_text()
        except OSError:
            continue  # it has ended

    def is_ours(pid):
        while pid in parents and pid != os.getpid():
            pid = parents[pid][0]
        return pid == os.getpid()

    workers = [
        pid
        for pid, (parent, command) in parents.items()
        if "pyspark.daemon" in command and "pyspark.daemon" in parents.get(parent, (0, ""))[1] and is_ours(pid)
    ]
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    return workers


@pytest.mark.slow
@pytest.mark.extended
def test_executors_elsewhere_report_what_they_wrote(tmp_path):
    """Executors of a cluster have folders of their own: what they wrote comes with their tasks' reports."""
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "elsewhere_app.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["processes"] >= 2
    assert told["written"] == [1000, 2000]
