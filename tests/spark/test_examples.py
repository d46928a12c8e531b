"""Each example does what it says: one by `spark-submit`, the others in the session of the tests."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def example(pykafka, monkeypatch, capsys):
    """Runs one in the Spark that there is; what it printed."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        capsys.readouterr()
        runpy.run_path(f"{ROOT}/examples/{name}", run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.extended
def test_word_count_counts_by_spark_submit_with_the_settings_of_spark_conf_and_no_register_call(
    pykafka, kafka_topic, tmp_path
):
    topic = kafka_topic(partitions=1)
    pykafka.write(pykafka.spark.createDataFrame([("a b a",), ("b a",)], "value string"), topic)
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]"]
    command += ["--conf", "spark.sql.shuffle.partitions=2", f"{ROOT}/examples/structured_kafka_wordcount.py"]
    command += [pykafka.bootstrap_servers, "subscribe", topic, str(tmp_path / "c")]
    environment = {**os.environ, "SPARK_CONF_DIR": f"{ROOT}/spark-conf", "EXAMPLE_ONCE": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "|   a|    3|" in done.stdout
    assert "|   b|    2|" in done.stdout


def test_json_to_parquet_is_incremental(pykafka, kafka_topic, tmp_path, example):
    topic = kafka_topic(partitions=1)
    rows = pykafka.spark.range(10).selectExpr("to_json(named_struct('id', id, 'name', 'n', 'amount', 0.5)) AS value")
    for runs in (1, 2):
        pykafka.write(rows, topic)
        printed = example("json_to_parquet.py", pykafka.bootstrap_servers, topic, tmp_path / "out")
        assert f"{10 * runs} rows in" in printed


def test_batch_by_offsets_reads_the_range(pykafka, kafka_topic, example):
    topic = kafka_topic(partitions=1)
    pykafka.write(pykafka.spark.range(10).coalesce(1).selectExpr("CAST(id AS STRING) AS value"), topic)
    assert "4 records" in example("batch_by_offsets.py", pykafka.bootstrap_servers, topic, 0, 2, 6)
