"""Spark Connect: one register call, and a session without a JVM of its own reads and writes like any other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_producer import ordered_producer
from fake_registry import a_registry
from kept_schemas import framed

pytestmark = [pytest.mark.broker, pytest.mark.spark]
ROOT = Path(__file__).parent.parent.parent

NUMBER = {"type": "record", "name": "N", "fields": [{"name": "number", "type": "long"}]}

# A process of its own: Connect and classic sessions exclude each other in one.
JOB = """
import sys, time
from pyspark.sql import SparkSession
import kafkasource

servers, source, target, checkpoint, typed, registry, table = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
kafkasource.register(spark)
served = kafkasource.serve_metrics(spark)
kafka = {"kafka.bootstrap.servers": servers}
rows = spark.range(100).selectExpr("CAST(id AS STRING) AS key", "CONCAT('v', id) AS value")
rows.write.format("pykafka").options(**kafka, topic=source).mode("append").save()
stream = spark.readStream.format("pykafka").options(**kafka, subscribe=source, startingOffsets="earliest").load()
query = stream.writeStream.format("pykafka").options(**kafka, topic=target, checkpointLocation=checkpoint)
query = query.trigger(availableNow=True).start()
query.awaitTermination()
until = time.monotonic() + 60
while not any(one["rows"] == 100 for one in served.queries()) and time.monotonic() < until:
    time.sleep(0.1)  # progress is told on a thread of its own
written = served.snapshot().counters
print([(one["rows"], one["lag"]) for one in served.queries()], end=" ")
print(sum(count for (name, _), count in written.items() if name == "kafkasource_records_written_total"))
served.close()
print({tuple(tp): offsets for tp, offsets in kafkasource.lag(query).items()})
read = spark.read.format("pykafka").options(**kafka, subscribe=target).load()
columns = {"valueFormat": "avro", "schemaRegistry.url": registry}
numbers = spark.read.format("pykafka").options(**kafka, subscribe=typed, **columns).load().select("value.*")
print(numbers.dtypes, sorted(row.number for row in numbers.collect()))
own = {**kafka, "subscribe": table, "topic": table, "keyFormat": "string", "valueFormat": "string"}
kafkasource.register(spark, name="orders", options=own)
spark.sql("CREATE TABLE orders (key STRING, value STRING) USING orders")
spark.sql("INSERT INTO orders VALUES ('ada', 'tea')")
print([tuple(row) for row in spark.sql("SELECT * FROM orders").collect()])
print(type(spark).__module__)
print(sorted((bytes(row.key).decode(), bytes(row.value).decode()) for row in read.collect()))
spark.stop()
"""


@pytest.mark.each_kind
def test_a_connect_session_writes_streams_reads_and_has_tables(kafka_broker, kafka_topic, tmp_path):
    source, target, typed, table = (kafka_topic(partitions=2) for _ in range(4))
    checkpoint = str(tmp_path / "checkpoint")
    producer = ordered_producer(kafka_broker.bootstrap_servers)
    with a_registry() as registry:
        schema_id = registry.add(f"{typed}-value", json.dumps(NUMBER))
        for number in range(5):
            producer.produce(typed, framed(schema_id, NUMBER, {"number": number}))
        assert producer.flush(30) == 0
        arguments = [kafka_broker.bootstrap_servers, source, target, checkpoint, typed, registry.url, table]
        done = run_job(arguments, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    told, lag, numbers, in_table, session, rows = done.stdout.splitlines()[-6:]
    assert told == "[(100, 0)] 200.0"  # rows read by the query, offsets behind; records written by all tasks
    assert lag == str({(source, 0): 0, (source, 1): 0})
    assert numbers == "[('number', 'bigint')] [0, 1, 2, 3, 4]"
    assert in_table == "[('ada', 'tea')]"
    assert session.startswith("pyspark.sql.connect")
    assert rows == str(sorted((str(i), f"v{i}") for i in range(100)))


def run_job(arguments, folder):
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "SPARK_TESTING": "1"}  # the latter: any free port for its server
    environment.pop("SPARK_REMOTE", None)
    command = [sys.executable, "-c", JOB, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
