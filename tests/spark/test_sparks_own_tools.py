"""Spark's own tools for sources and workers take ours like any other: named sources, and the log of Python workers."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.extended]

BY_NAME = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
}
LOGGING = "spark.sql.pyspark.worker.logging.enabled"


@pytest.fixture
def settings(spark):
    def use(settings):
        for name, text in settings.items():
            spark.conf.set(name, text)
            used.append(name)

    used = []
    yield use
    for name in used:
        spark.conf.unset(name)


@pytest.mark.needs_spark("named_sources")
def test_a_named_source_keeps_its_place_where_others_come_and_go(pykafka, kafka_topic, settings, tmp_path):
    settings(BY_NAME)
    topics = {name: kafka_topic(1) for name in ("orders", "refunds")}
    for number, topic in enumerate(topics.values(), 1):
        pykafka.write(pykafka.spark.range(10 * number).selectExpr("CAST(id AS STRING) AS value"), topic)

    def rows_of_a_run(*names):
        first, *more = (
            pykafka.reading(topics[name], stream=True, startingOffsets="earliest").name(name).load().select("value")
            for name in names
        )
        for other in more:
            first = first.union(other)
        writing = first.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
        query = writing.trigger(availableNow=True).start()
        query.awaitTermination()
        return sum(progress["numInputRows"] for progress in query.recentProgress)

    assert rows_of_a_run("orders") == 10
    assert rows_of_a_run("refunds", "orders") == 20
    assert rows_of_a_run("orders", "refunds") == 0
    assert rows_of_a_run("refunds") == 0


@pytest.mark.needs_spark("worker_logs")
def test_sparks_log_of_python_workers_has_our_warnings(pykafka, kafka_topic, settings):
    settings({LOGGING: "true"})
    topic = kafka_topic(1)
    pykafka.read(topic, notAnOption="1").count()
    logged = pykafka.spark.tvf.python_worker_logs().where("logger = 'kafkasource.options'").collect()
    assert any("notanoption" in row.msg.lower() and row.level == "WARNING" for row in logged)
