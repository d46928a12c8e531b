"""The declarative pipeline of examples/, by `spark-pipelines run`, on each release of Spark that has pipelines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from confluent_producer import ordered_producer
from confluent_reader import ends_of, messages_of
from other_sparks import python_of

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.extended]
ROOT = Path(__file__).parent.parent.parent
RELEASES = ("4.1", "4.2", "4.3")


@pytest.fixture
def pipeline(kafka_broker, kafka_topic, tmp_path):
    """The example with topics and a storage of its own: what it reads, what it writes, and how to run it."""
    folder, orders, bills = tmp_path / "pipeline", kafka_topic(partitions=2), kafka_topic(partitions=1)
    shutil.copytree(ROOT / "examples" / "pipeline", folder)
    for file, words in {
        "spark-pipeline.yml": {"/tmp/bills-pipeline": str(tmp_path / "storage")},
        "transformations/bills.py": {
            'subscribe="orders"': f'subscribe="{orders}"',
            '"topic": "bills"': f'"topic": "{bills}"',
        },
    }.items():
        text = (folder / file).read_text(encoding="utf-8")
        for word, own in words.items():
            assert word in text
            text = text.replace(word, own)
        (folder / file).write_text(text, encoding="utf-8")

    def run(release):
        python = python_of(release)
        environment = {name: value for name, value in os.environ.items() if name not in ("SPARK_REMOTE", "SPARK_HOME")}
        environment |= {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python), "PYTHONPATH": str(ROOT)}
        environment |= {"SPARK_TESTING": "1"}  # any free port for its server
        environment |= {"KAFKA": kafka_broker.bootstrap_servers, "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={tmp_path}"}
        command = [str(python.parent / "spark-pipelines"), "--conf", "spark.sql.catalogImplementation=hive", "run"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
        assert "Run is COMPLETED" in done.stdout + done.stderr, done.stdout + done.stderr

    return orders, bills, run


@pytest.mark.parametrize("release", RELEASES)
def test_the_pipeline_writes_each_row_once_over_two_runs_and_a_repeated_batch(
    pipeline, release, kafka_broker, tmp_path
):
    orders, bills, run = pipeline
    producer = ordered_producer(kafka_broker.bootstrap_servers)

    def order(*amounts):
        for amount in amounts:
            producer.produce(orders, json.dumps({"item": "tea", "amount": amount}), key="ada")
        assert producer.flush(30) == 0

    order(1, 2, 3)
    run(release)
    for path in (tmp_path / "storage" / "_checkpoints" / "bills" / "priced_orders" / "0" / "commits").iterdir():
        path.unlink()  # as after a crash between the sink's commit and Spark's: the next run repeats the batch
    order(4, 5)
    run(release)
    found = messages_of(kafka_broker.bootstrap_servers, bills, settled=True)
    totals = sorted(json.loads(message.value())["total"] for message in found)
    assert totals == [7, 14, 21, 28, 35]
    assert ends_of(kafka_broker.bootstrap_servers, bills, [0])[0] > 5  # the markers of transactions
