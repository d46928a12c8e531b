"""SQL tables of a format that `register` named, on a real Kafka. confluent-kafka reads what statements wrote."""

from __future__ import annotations

import json
import uuid

import pytest
from confluent_reader import ends_of, messages_of
from pyspark.errors import PySparkException

import kafkasource

pytestmark = [pytest.mark.broker, pytest.mark.spark]
TEXTS = "(key STRING, value STRING)"


@pytest.fixture
def table(pykafka, kafka_topic):
    """Makes a topic, registers its options under a name, and creates the table of that name: gives both."""
    spark, names = pykafka.spark, []

    def make(columns="", **options):
        name, topic = f"t_{uuid.uuid4().hex[:10]}", kafka_topic(partitions=1)
        servers = {"kafka.bootstrap.servers": pykafka.bootstrap_servers}
        kafkasource.register(spark, name=name, options={**servers, "subscribe": topic, "topic": topic, **options})
        spark.sql(f"CREATE TABLE {name} {columns} USING {name}")
        names.append(name)
        return name, topic

    yield make
    for name in names:
        spark.sql(f"DROP TABLE {name}")
        spark.catalog.dropTempView(f"{name}_view")


@pytest.fixture
def written(pykafka):
    """Keys and values of a topic as texts, as another client reads them."""

    def read(topic, **settled):
        messages = messages_of(pykafka.bootstrap_servers, topic, **settled)
        return [(message.key().decode(), message.value().decode()) for message in messages]

    return read


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.each_kind
def test_every_statement_that_inserts_writes_to_the_topic_and_every_one_that_selects_reads_it(pykafka, table, written):
    spark = pykafka.spark
    name, topic = table(TEXTS, keyFormat="string", valueFormat="string")
    spark.sql(f"INSERT INTO {name} VALUES ('values', '1'), ('values', '2')")
    spark.sql(f"INSERT INTO {name} SELECT 'select', CONCAT(value, value) FROM {name}")
    spark.sql(f"INSERT INTO {name} BY NAME SELECT '3' AS value, 'by name' AS key")
    frame = spark.range(1).selectExpr("'frame' AS key", "CAST(id AS STRING) AS value")
    frame.write.insertInto(name)
    frame.writeTo(name).append()
    frame.write.format(name).mode("append").saveAsTable(name)
    spark.sql(f"CREATE TEMPORARY VIEW {name}_view {TEXTS} USING {name}")
    spark.sql(f"INSERT INTO {name}_view VALUES ('view', '4')")

    expected = [("by name", "3"), *3 * [("frame", "0")], ("select", "11"), ("select", "22")]
    expected += [("values", "1"), ("values", "2"), ("view", "4")]
    assert sorted(written(topic)) == expected
    assert rows(spark.sql(f"SELECT * FROM {name}")) == rows(spark.table(f"{name}_view")) == expected
    assert rows(spark.sql(f"SELECT key, SUM(value) FROM {name} WHERE value > 9 GROUP BY key")) == [("select", 33.0)]
    first_two = json.dumps({topic: {"0": 2}})
    assert rows(spark.sql(f"SELECT value FROM {name} WITH (endingOffsets = '{first_two}')")) == [("1",), ("2",)]
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name}_view AS SELECT value FROM {name} WHERE key = 'view'")
    assert rows(spark.table(f"{name}_view")) == [("4",)]
    (shown,) = spark.sql(f"SHOW CREATE TABLE {name}").first()
    assert pykafka.bootstrap_servers not in shown  # the options stay with the session


def test_the_types_of_the_table_are_the_types_of_its_json(pykafka, table, written):
    name, topic = table("(key STRING, value STRUCT<item: STRING, amount: INT>)", keyFormat="string", valueFormat="json")
    pykafka.spark.sql(f"INSERT INTO {name} VALUES ('ada', struct('tea', 3)), ('ada', struct('pen', 2))")
    assert sorted(written(topic)) == [("ada", '{"item":"pen","amount":2}'), ("ada", '{"item":"tea","amount":3}')]
    sums = pykafka.spark.sql(f"SELECT key, SUM(value.amount), MIN(value.item) FROM {name} GROUP BY key")
    assert rows(sums) == [("ada", 5, "pen")]


def test_a_table_without_columns_of_its_own_has_all_of_the_source_and_copies_whole_rows(pykafka, table, written):
    (name, topic), (copy, copied) = table(), table()
    pykafka.write(pykafka.spark.sql("SELECT 'k' AS key, 'v' AS value"), topic)
    pykafka.spark.sql(f"INSERT INTO {copy} WITH (topic = '{copied}') SELECT * FROM {name}")
    assert written(copied) == [("k", "v")]
    with pytest.raises(PySparkException, match=r"Cannot safely cast `(key|value)` \"STRING\" to \"BINARY\""):
        pykafka.spark.sql(f"INSERT INTO {name} (key, value) VALUES ('k', 'text')")


@pytest.mark.needs_spark("insert_some_columns")
def test_an_insert_may_leave_out_columns_that_only_a_read_has(pykafka, table, written):
    name, topic = table()
    pykafka.spark.sql(f"INSERT INTO {name} (key, value) VALUES (CAST('k' AS BINARY), X'76')")
    assert written(topic) == [("k", "v")]


def test_a_stream_from_a_table_into_a_table_is_exactly_once_when_a_batch_is_repeated(pykafka, table, written, tmp_path):
    spark, texts = pykafka.spark, {"keyFormat": "string", "valueFormat": "string"}
    (source, _), (target, topic) = table(TEXTS, **texts, startingOffsets="earliest"), table(TEXTS, **texts)

    def run():
        spark.readStream.table(source).createOrReplaceTempView(f"{source}_view")
        frame = spark.sql(f"SELECT key, UPPER(value) AS value FROM {source}_view")
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        assert writer.option("deliveryGuarantee", "exactly_once").toTable(target).awaitTermination(200)

    spark.sql(f"INSERT INTO {source} VALUES ('1', 'a'), ('2', 'b')")
    run()
    for name in ("0", ".0.crc"):
        (tmp_path / "commits" / name).unlink()  # as after a crash: Spark runs the batch again
    run()
    assert sorted(written(topic, settled=True)) == [("1", "A"), ("2", "B")]
    assert ends_of(pykafka.bootstrap_servers, topic, [0])[0] > 2  # the markers of transactions


def test_a_table_of_options_that_spark_does_not_give_says_to_register_them_and_takes_them_with_each_statement(
    pykafka, kafka_topic
):
    topic, spark = kafka_topic(partitions=1), pykafka.spark
    options = {"kafka.bootstrap.servers": pykafka.bootstrap_servers, "topic": topic, "subscribe": topic}
    stated = ", ".join(f"'{key}' '{value}'" for key, value in options.items())
    with_them = "WITH ({})".format(", ".join(f"`{key}` = '{value}'" for key, value in options.items()))
    frame = spark.range(1).selectExpr("'k' AS key", "'frame' AS value")
    try:
        spark.sql(f"CREATE TEMPORARY VIEW written_view {TEXTS} USING pykafka OPTIONS ({stated})")
        spark.sql("INSERT INTO written_view VALUES ('k', 'view')")
        spark.sql(f"CREATE TABLE written_table {TEXTS} USING pykafka OPTIONS ({stated})")
        for statement in ("SELECT * FROM written_table", "INSERT INTO written_table VALUES ('k', 'lost')"):
            with pytest.raises(PySparkException) as raised:
                spark.sql(statement).collect()
            assert "kafkasource.register(spark, name='orders', options={...})" in str(raised.value).splitlines()[0]
        spark.sql(f"INSERT INTO written_table {with_them} VALUES ('k', 'table')")
        frame.writeTo("written_table").options(**options).append()
        frame.write.format("pykafka").options(**options).mode("append").saveAsTable("written_table")
    finally:
        spark.catalog.dropTempView("written_view")
        spark.sql("DROP TABLE IF EXISTS written_table")
    assert pykafka.values(topic) == ["frame", "frame", "table", "view"]


def test_a_session_that_has_not_registered_the_name_does_not_find_it(pykafka, table):
    name, _ = table()
    other = pykafka.spark.newSession()
    with pytest.raises(Exception, match=rf"DATA_SOURCE_NOT_FOUND.*{name}"):
        other.sql(f"SELECT * FROM {name}").collect()
