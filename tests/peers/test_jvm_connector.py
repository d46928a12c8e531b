"""Spark's JVM connector beside our sink. Sources are compared by the cases of `parity_cases`."""

from __future__ import annotations

import pytest
from chispa import assert_df_equality

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.peers, pytest.mark.jvm_connector]


def test_our_sink_writes_what_the_jvm_connector_writes_into_the_same_partitions(pykafka, kafka_topic):
    """Keys and values null, empty and not; headers; three partitions. Rows without a key may go anywhere."""
    schema = "key binary, value binary, headers array<struct<key:string,value:binary>>"
    rows = [
        (None, b"no key", None),
        (b"", b"", [("h", b"1"), ("h", None), ("", b"")]),
        (b"k", None, []),
        *[(f"key-{i}".encode(), f"value-{i}".encode() * (i % 7), None) for i in range(300)],
    ]
    frame = pykafka.spark.createDataFrame(rows, schema)
    written = {}
    for name in ("kafka", "pykafka"):
        topic = kafka_topic(partitions=3, prefix=f"written-by-{name}")
        kafka = {"kafka.bootstrap.servers": pykafka.bootstrap_servers}
        frame.write.format(name).options(**kafka, topic=topic).mode("append").save()
        read = (
            pykafka.spark.read.format("kafka")
            .options(**kafka, subscribe=topic, includeHeaders="true")
            .option("kafka.fetch.max.wait.ms", "20")
            .load()
        )
        placed = "IF(key IS NULL, NULL, partition) AS partition"
        written[name] = read.selectExpr("key", "value", "headers", placed)
    assert written["kafka"].count() == 303
    assert_df_equality(written["pykafka"], written["kafka"], ignore_row_order=True)
