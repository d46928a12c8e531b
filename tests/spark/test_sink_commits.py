"""The counts of a write reach the user's function and the log, from Spark's own processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig

pytestmark = [pytest.mark.broker, pytest.mark.spark]

LISTENER = """
import json, os

def record(commit, file="record.jsonl"):
    written = {str(tp): [one.records, one.first_offset, one.last_offset] for tp, one in commit.written.items()}
    line = {"batch": commit.batch_id, "query": commit.query_id, "name": commit.query_name, "written": written}
    with open(os.path.join(os.path.dirname(__file__), file), "a") as heard:
        print(json.dumps(line), file=heard)

def failing(commit):
    record(commit, "failing.jsonl")
    raise RuntimeError("no such database")
"""

JOB = """
import sys
from pyspark.sql import SparkSession
import kafkasource

servers, *topics = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
kafkasource.register(spark)
for listener, topic in zip(("record", "failing"), topics):
    kafka = {"kafka.bootstrap.servers": servers, "topic": topic, "commitListener": f"accounting:{listener}"}
    values = spark.range(0, 40, 1, 2).selectExpr("CAST(id AS STRING) AS value", "CAST(id % 2 AS INT) AS partition")
    values.write.format("pykafka").options(**kafka).mode("append").save()
    stream = spark.readStream.format("pykafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    query = (
        stream.option("startingOffsets", "earliest").load().select("value", "partition").writeStream.format("pykafka")
        .options(**kafka).option("checkpointLocation", listener).queryName(listener).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    print("query", query.id)
"""


@pytest.fixture(scope="module")
def topics(kafka_broker):
    """Topics of the listener that works and of the listener that fails."""
    names = [f"commits-{uuid.uuid4().hex[:10]}" for _ in range(2)]
    with Cluster(ClientConfig.of(kafka_broker.bootstrap_servers)) as cluster:
        cluster.topics.create(names, partitions=2)
        yield names
        cluster.topics.delete(names)


@pytest.fixture(scope="module")
def done(kafka_broker, topics, tmp_path_factory):
    """The job in a Spark of its own, whose Python processes find the listeners and say what they do."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "accounting.py").write_text(LISTENER)
    (folder / "job.py").write_text(JOB)
    root = str(Path(__file__).parent.parent.parent)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), root, os.environ.get("PYTHONPATH", "")]),
        "KAFKASOURCE_LOG": "INFO",
    }
    command = [sys.executable, str(folder / "job.py"), kafka_broker.bootstrap_servers, *topics]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def heard(done):
    """The arguments of the calls of each listener."""

    def of(name):
        return [json.loads(line) for line in Path(done.args[1]).with_name(f"{name}.jsonl").read_text().splitlines()]

    return of


def test_a_listener_and_the_log_are_told_of_batch_write_and_micro_batch(done, topics, heard):
    topic = topics[0]
    query_id = done.stdout.split()[1]
    write, micro_batch = heard("record")
    first = {f"{topic}-0": [20, 0, 19], f"{topic}-1": [20, 0, 19]}
    second = {f"{topic}-0": [20, 20, 39], f"{topic}-1": [20, 20, 39]}
    assert write == {"batch": None, "query": None, "name": None, "written": first}
    assert micro_batch == {"batch": 0, "query": query_id, "name": "record", "written": second}
    told = [line for line in done.stderr.splitlines() if "kafkasource.sink: committed" in line]
    assert [line.partition("committed ")[2].partition(":")[0] for line in told] == [
        "a batch write",
        "batch 0 of query record",
        "a batch write",
        "batch 0 of query failing",
    ]


def test_a_listener_that_fails_is_a_warning_and_the_query_goes_on(done, heard):
    assert len(heard("failing")) == 2
    assert done.stderr.count("the commit listener accounting:failing failed; committed") == 2
