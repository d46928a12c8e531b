"""What a write has put into the topics reaches the user's function and the log, out of Spark's own processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.each_spark]

LISTENER = """
import json, os

def record(commit):
    written = {str(tp): [one.records, one.first_offset, one.last_offset] for tp, one in commit.written.items()}
    line = {"batch": commit.batch_id, "query": commit.query_id, "name": commit.query_name, "written": written}
    with open(os.path.join(os.path.dirname(__file__), "heard.jsonl"), "a") as file:
        print(json.dumps(line), file=file)

def failing(commit):
    record(commit)
    raise RuntimeError("no such database")
"""

JOB = """
import sys
from pyspark.sql import SparkSession
import kafkasource

servers, topic, checkpoint, listener = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
kafkasource.register(spark)
kafka = {"kafka.bootstrap.servers": servers, "topic": topic, "commitListener": listener}
values = spark.range(0, 40, 1, 2).selectExpr("CAST(id AS STRING) AS value", "CAST(id % 2 AS INT) AS partition")
values.write.format("pykafka").options(**kafka).mode("append").save()
stream = spark.readStream.format("pykafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
query = (
    stream.option("startingOffsets", "earliest").load().select("value", "partition").writeStream.format("pykafka")
    .options(**kafka).option("checkpointLocation", checkpoint).queryName("copy").trigger(availableNow=True).start()
)
query.awaitTermination()
print("query", query.id)
"""


def run(kafka_broker, topic, folder, listener):
    """The job in a Spark of its own, whose Python processes find the listener and say what they do."""
    (folder / "accounting.py").write_text(LISTENER)
    (folder / "job.py").write_text(JOB)
    root = str(Path(__file__).parent.parent.parent)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), root, os.environ.get("PYTHONPATH", "")]),
        "KAFKASOURCE_LOG": "INFO",
    }
    command = [sys.executable, "job.py", kafka_broker.bootstrap_servers, topic, str(folder / "checkpoint"), listener]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)


def test_a_listener_and_the_log_are_told_of_batch_write_and_micro_batch(kafka_broker, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=2)
    done = run(kafka_broker, topic, tmp_path, "accounting:record")
    assert done.returncode == 0, done.stderr
    query_id = done.stdout.split()[-1]
    write, micro_batch = (json.loads(line) for line in (tmp_path / "heard.jsonl").read_text().splitlines())
    first = {f"{topic}-0": [20, 0, 19], f"{topic}-1": [20, 0, 19]}
    second = {f"{topic}-0": [20, 20, 39], f"{topic}-1": [20, 20, 39]}
    assert write == {"batch": None, "query": None, "name": None, "written": first}
    assert micro_batch == {"batch": 0, "query": query_id, "name": "copy", "written": second}
    told = [line for line in done.stderr.splitlines() if "kafkasource.sink: committed" in line]
    assert [line.partition("committed ")[2].partition(":")[0] for line in told] == [
        "a batch write",
        "batch 0 of query copy",
    ]


def test_a_listener_that_fails_is_a_warning_and_the_query_goes_on(kafka_broker, kafka_topic, tmp_path):
    done = run(kafka_broker, kafka_topic(partitions=2), tmp_path, "accounting:failing")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "heard.jsonl").read_text().splitlines()) == 2
    assert done.stderr.count("the commit listener accounting:failing failed; committed") == 2
