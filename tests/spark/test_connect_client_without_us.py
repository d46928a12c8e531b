"""A Connect client that has pyspark alone: the package is only where the server starts Python."""

from __future__ import annotations

import contextlib
import subprocess

import pytest
from spark_processes import SparkProcess, environment_with, python_environment, python_of

from kafkasource.testing.broker.properties import free_ports

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.extended]
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"

JOB = """
import importlib.util, sys
from pyspark.sql import SparkSession

assert importlib.util.find_spec("kafkasource") is None
url, servers, source, target, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()
kafka = {"kafka.bootstrap.servers": servers}
rows = spark.range(100).selectExpr("CAST(id AS STRING) AS key", "CONCAT('v', id) AS value")
rows.write.format("pykafka").options(**kafka, topic=source).mode("append").save()
stream = spark.readStream.format("pykafka").options(**kafka, subscribe=source, startingOffsets="earliest").load()
query = stream.writeStream.format("pykafka").options(**kafka, topic=target, deliveryGuarantee="exactly_once")
query = query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
read = spark.read.format("pykafka").options(**kafka, subscribe=target).load()
print(sorted((bytes(row.key).decode(), bytes(row.value).decode()) for row in read.collect()))
spark.stop()
"""


@contextlib.contextmanager
def connect_server(folder, python):
    """A Connect server whose Python workers are `python`; its URL."""
    (port,) = free_ports(1)
    command = ["spark-submit", "--class", SERVER, "--master", "local[2]"]
    for setting in (
        f"spark.connect.grpc.binding.port={port}",
        "spark.ui.enabled=false",
        f"spark.local.dir={folder / 'local'}",
        f"spark.sql.warehouse.dir={folder / 'warehouse'}",
    ):
        command += ["--conf", setting]
    with SparkProcess(command, environment_with(python), folder, "server") as server:
        server.wait_for(lambda: f":{port}" in server.log.read_text())
        yield f"sc://127.0.0.1:{port}"


def test_a_client_with_pyspark_alone_reads_writes_and_streams_exactly_once(kafka_broker, kafka_topic, tmp_path):
    source, target = kafka_topic(partitions=2), kafka_topic(partitions=2)
    of_server = python_environment(tmp_path / "server", with_kafkasource=True)
    of_client = python_environment(tmp_path / "client", with_kafkasource=False)
    arguments = [kafka_broker.bootstrap_servers, source, target, str(tmp_path / "checkpoint")]
    with connect_server(tmp_path, python_of(of_server)) as url:
        done = subprocess.run(
            [python_of(of_client), "-c", JOB, url, *arguments],
            cwd=tmp_path,
            env=environment_with(python_of(of_client)),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / "server.log").read_text()[-3000:]
    assert done.stdout.splitlines()[-1] == str(sorted((str(i), f"v{i}") for i in range(100)))
