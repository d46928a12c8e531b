"""`kafkasource.lag` over Spark Connect on 4.0 and 4.1, where Spark's progress lacks the ends of logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from other_sparks import run_on

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.extended]
APP = Path(__file__).with_name("lag_over_connect_app.py")


@pytest.mark.parametrize("release", ["4.0", "4.1"])
def test_lag_over_connect_is_what_a_limit_left_unread(kafka_broker, kafka_topic, tmp_path, release):
    servers, source = kafka_broker.bootstrap_servers, kafka_topic(partitions=2)
    producer = Producer({"bootstrap.servers": servers})
    for i in range(1_000):
        producer.produce(source, str(i), partition=i % 2)
    assert producer.flush(60) == 0

    seen = run_on(release, APP, servers, source, tmp_path, SPARK_TESTING="1")  # any free port for Spark's server
    assert seen["session"].startswith("pyspark.sql.connect")
    assert [rows for rows, _ in seen["batches"]] == [200] * 5
    assert [lag for _, lag in seen["batches"]] == [800, 600, 400, 200, 0]
    assert seen["of_query"] == {f"{source}-0": 0, f"{source}-1": 0}
