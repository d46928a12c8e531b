"""Files of `--files` are found in each process that plans or reads."""

import pickle

import pytest

from kafkasource.kafka.security import shipped_files
from kafkasource.kafka.security.shipped_files import find_file


def test_a_process_that_plans_a_stream_finds_what_the_process_that_made_its_source_finds(tmp_path, monkeypatch):
    files = pytest.importorskip("pyspark.core.files").SparkFiles
    from kafkasource.datasource import KafkaDataSource
    from kafkasource.source.spark.schema import spark_schema

    shipped, other = tmp_path / "userFiles", tmp_path / "other"
    for folder in (shipped, other):
        folder.mkdir()
    (shipped / "ca.pem").write_text("")
    monkeypatch.setattr(shipped_files, "_remembered", [])
    monkeypatch.setattr(files, "_is_running_on_worker", True)
    monkeypatch.setattr(files, "_root_directory", str(shipped))
    made = pickle.dumps(KafkaDataSource({"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"}))
    monkeypatch.setattr(files, "_root_directory", str(other))
    assert not find_file("ca.pem").exists()
    pickle.loads(made).streamReader(spark_schema(False, False))
    assert find_file("ca.pem") == shipped / "ca.pem"
    (other / "ca.pem").write_text("")
    assert find_file("ca.pem") == other / "ca.pem"  # what Spark has told this process goes first
