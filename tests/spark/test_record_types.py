"""Several types of records in one topic (`recordTypes`), through Spark on a real Kafka."""

from __future__ import annotations

import json

import pytest
from fake_registry import a_registry
from kept_schemas import framed
from pyspark.errors import PySparkException
from test_typed_rows import dicts, write

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ORDER = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"}]}
REFUND = {
    "type": "record", "name": "shop.Refund",
    "fields": [{"name": "id", "type": "long"}, {"name": "why", "type": ["null", "string"]}],
}  # fmt: skip
LOGIN = {"type": "record", "name": "users.Login", "fields": [{"name": "id", "type": "long"}]}
IN_SPARK = "struct<Order:struct<id:bigint>,Refund:struct<id:bigint,why:string>>"


def order(n):
    return {"Order": {"id": n}, "Refund": None}


def refund(n):
    return {"Order": None, "Refund": {"id": n, "why": f"w{n}"}}


@pytest.mark.needs_spark("limited_available_now")
def test_avro_types_have_columns_of_their_own_in_a_batch_and_a_stream(pykafka, kafka_topic, tmp_path):
    """Records with the subjects of TopicRecordNameStrategy and of RecordNameStrategy."""
    topic = kafka_topic(partitions=1)
    with a_registry() as registry:
        first = registry.add(f"{topic}-shop.Order", json.dumps(ORDER))
        second = registry.add("shop.Refund", json.dumps(REFUND))
        other = registry.add("users.Login", json.dumps(LOGIN))
        values = []
        for n in range(50):
            values += [framed(first, ORDER, {"id": n}), framed(second, REFUND, {"id": n, "why": f"w{n}"})]
        write(pykafka, topic, [*values, framed(other, LOGIN, {"id": 1}), None])
        options = {
            "valueFormat": "avro", "schemaRegistry.url": registry.url, "recordTypes": "shop.Order, shop.Refund",
            "badRecords": "column",
        }  # fmt: skip
        frame = pykafka.read(topic, **options)
        assert dict(frame.dtypes)["value"] == IN_SPARK
        rows = frame.orderBy("offset").collect()
        expected = [each(n) for n in range(50) for each in (order, refund)]
        assert dicts(rows) == [*expected, None, None]
        assert "users.Login, which recordTypes does not name" in rows[100].badRecord.reason
        assert rows[101].badRecord is None
        orders = frame.where("value.Order IS NOT NULL").selectExpr("value.Order.id").collect()
        assert sorted(row.id for row in orders) == list(range(50))

        reading = pykafka.reading(topic, stream=True, **options, startingOffsets="earliest", maxOffsetsPerTrigger="30")
        writing = reading.load().selectExpr("offset", "value", "badRecord.reason").writeStream.format("parquet")
        writing = writing.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writing.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
        rows = pykafka.spark.read.parquet(str(tmp_path / "out")).orderBy("offset").collect()
        assert dicts(rows) == [*expected, None, None]
        assert [row.offset for row in rows if row.reason] == [100]
        with pytest.raises(PySparkException, match=r"users\.Login, which recordTypes does not name"):
            pykafka.read(topic, **{**options, "badRecords": "fail"}).collect()
        with pytest.raises(PySparkException, match=r"option 'recordTypes': the registry has no subject 'shop\.None'"):
            pykafka.read(topic, **{**options, "recordTypes": "shop.Order,shop.None"})


def test_a_union_of_references_has_a_column_for_each_named_type(pykafka, kafka_topic):
    topic = kafka_topic(partitions=1)
    with a_registry() as registry:
        registry.add("order", json.dumps(ORDER))
        registry.add("refund", json.dumps(REFUND))
        references = (("shop.Order", "order", 1), ("shop.Refund", "refund", 1))
        both = registry.add(f"{topic}-value", '["shop.Order", "shop.Refund"]', "AVRO", references)
        union = [ORDER, REFUND]
        values = [
            framed(both, union, ("shop.Order", {"id": 1})),
            framed(both, union, ("shop.Refund", {"id": 2, "why": "w2"})),
        ]
        write(pykafka, topic, values)
        options = {"valueFormat": "avro", "schemaRegistry.url": registry.url}
        frame = pykafka.read(topic, **options, recordTypes="shop.Order,Refund")
        assert dict(frame.dtypes)["value"] == IN_SPARK
        assert dicts(frame.orderBy("offset").collect()) == [order(1), refund(2)]


SHOP = """syntax = "proto3"; package shop;
message Order { int64 id = 1; }
message Refund { int64 id = 1; string why = 2; }
message Login { int64 id = 1; }
"""


def test_protobuf_messages_have_columns_of_their_own(pykafka, kafka_topic):
    """The bytes are written by hand: field 1 is a varint, 2 a text."""
    topic = kafka_topic(partitions=1)
    with a_registry() as registry:
        number = b"\0" + registry.add(f"{topic}-value", SHOP, "PROTOBUF").to_bytes(4, "big")
        write(pykafka, topic, [number + b"\0\x08\1", number + b"\2\2\x08\2\x12\2w2", number + b"\2\4\x08\1", None])
        options = {"valueFormat": "protobuf", "schemaRegistry.url": registry.url, "badRecords": "column"}
        frame = pykafka.read(topic, **options, recordTypes="shop.Order,shop.Refund")
        assert dict(frame.dtypes)["value"] == IN_SPARK
        rows = frame.orderBy("offset").collect()
    assert dicts(rows) == [order(1), refund(2), None, None]
    assert "shop.Login, which recordTypes does not name" in rows[2].badRecord.reason
