"""Each example runs as the README tells: `spark-submit examples/X.py ...`, in a Spark of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parent.parent.parent


def spark_submit(example, *arguments, folder):
    """Run it with the settings of spark-conf/ and no register call; give what it printed."""
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]"]
    command += [f"{ROOT}/examples/{example}", *map(str, arguments)]
    environment = {**os.environ, "SPARK_CONF_DIR": f"{ROOT}/spark-conf", "EXAMPLE_ONCE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_word_count_counts(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    pykafka.write(pykafka.spark.createDataFrame([("a b a",), ("b a",)], "value string"), topic)
    printed = spark_submit(
        "structured_kafka_wordcount.py", pykafka.bootstrap_servers, "subscribe", topic, tmp_path / "c", folder=tmp_path
    )
    assert "|   a|    3|" in printed
    assert "|   b|    2|" in printed


def test_json_to_parquet_is_incremental(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    rows = pykafka.spark.range(10).selectExpr("to_json(named_struct('id', id, 'name', 'n', 'amount', 0.5)) AS value")
    for runs in (1, 2):
        pykafka.write(rows, topic)
        printed = spark_submit(
            "json_to_parquet.py", pykafka.bootstrap_servers, topic, tmp_path / "out", folder=tmp_path
        )
        assert f"{10 * runs} rows in" in printed


def test_batch_by_offsets_reads_the_range(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    pykafka.write(pykafka.spark.range(10).coalesce(1).selectExpr("CAST(id AS STRING) AS value"), topic)
    printed = spark_submit("batch_by_offsets.py", pykafka.bootstrap_servers, topic, 0, 2, 6, folder=tmp_path)
    assert "4 records" in printed
