"""Keys and values in a format, through Spark on a real Kafka. fastavro makes the records and says what they are."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest
from fake_registry import a_registry
from kept_schemas import encoded, framed
from pyspark.errors import PySparkException

from kafkasource.errors import BadRecord
from kafkasource.reader import Reader

pytestmark = [pytest.mark.broker, pytest.mark.spark]

EVERY = {
    "type": "record",
    "name": "Every",
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "text", "type": "string"},
        {"name": "maybe", "type": ["null", "double"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": ["null", "int"]}},
        {"name": "either", "type": ["int", "string"]},
        {"name": "within", "type": {"type": "record", "name": "In", "fields": [{"name": "flag", "type": "boolean"}]}},
    ],
}
EVERY_IN_SPARK = (
    "struct<number:bigint,text:string,maybe:double,at:timestamp,local:timestamp_ntz,day:date,price:decimal(9,2),"
    "tags:array<string>,counts:map<string,int>,either:struct<member0:int,member1:string>,within:struct<flag:boolean>>"
)
OLD = {"type": "record", "name": "Every", "fields": EVERY["fields"][:2]}
READ_OLD = {**OLD, "fields": [*OLD["fields"], EVERY["fields"][2]]}


def every(n):
    return {
        "number": n,
        "text": f"é{n}",
        "maybe": None if n % 3 else n / 2,
        "at": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=n),
        "local": dt.datetime(2026, 1, 1) + dt.timedelta(microseconds=n),
        "day": dt.date(2026, 1, 1) + dt.timedelta(days=n),
        "price": Decimal(n).scaleb(-2),
        "tags": [f"t{each}" for each in range(n % 3)],
        "counts": {"a": n, "b": None} if n % 2 else {},
        "either": n if n % 2 else f"s{n}",
        "within": {"flag": n % 2 == 0},
    }


def in_spark(n):
    record = every(n)
    record["either"] = {"member0": n if n % 2 else None, "member1": None if n % 2 else f"s{n}"}
    del record["at"]  # `collect` gives it in this machine's zone
    return record


def write(pykafka, topic, values, keys=None):
    """Records in their order, in one partition."""
    rows = pa.table(
        {"value": pa.array(values, pa.binary()), "key": pa.array(keys or [None] * len(values), pa.binary())}
    )
    pykafka.write(pykafka.spark.createDataFrame(rows).coalesce(1), topic)


def dicts(rows):
    return [None if row.value is None else row.value.asDict(recursive=True) for row in rows]


def avro(**options):
    return {"valueFormat": "avro", **options}


def test_every_type_is_what_fastavro_wrote_and_the_registry_is_asked_on_the_driver(pykafka, kafka_topic):
    topic = kafka_topic(partitions=1)
    with a_registry() as registry:
        number = registry.add(f"{topic}-value", json.dumps(EVERY))
        write(pykafka, topic, [framed(number, EVERY, every(n)) for n in range(50)])
        frame = pykafka.read(topic, **avro(**{"schemaRegistry.url": registry.url}))
        asked = len(registry.requests)
        assert asked == 1  # `latest`, by load()
        assert dict(frame.dtypes)["value"] == EVERY_IN_SPARK
        assert not frame.schema["value"].dataType["number"].nullable
        rows = sorted(frame.collect(), key=lambda row: row.offset)
        assert not [path for path in registry.paths if path.startswith("/schemas/ids")]
        moments = frame.selectExpr("unix_micros(value.at) - 1767225600000000 AS at").collect()
    assert sorted(row.at for row in moments) == [1000 * n for n in range(50)]
    found = [{name: each for name, each in record.items() if name != "at"} for record in dicts(rows)]
    assert found == [in_spark(n) for n in range(50)]


def test_two_writers_in_one_batch_and_one_bad_record_in_100(pykafka, kafka_topic):
    topic = kafka_topic(partitions=1)
    records = [{"number": n, "text": f"t{n}", "maybe": float(n) if n % 2 else None} for n in range(100)]
    with a_registry() as registry:
        old = registry.add(f"{topic}-value", json.dumps(OLD))
        new = registry.add(f"{topic}-value", json.dumps(READ_OLD))
        values = [
            framed(new, READ_OLD, each) if n % 2 else framed(old, OLD, {k: each[k] for k in ("number", "text")})
            for n, each in enumerate(records)
        ]
        damaged = values[41][:-1]
        values[41] = damaged
        write(pykafka, topic, [*values, None, values[0] + b"!", b"\0\0\0\x7f\0x"])
        options = avro(**{"schemaRegistry.url": registry.url, "badRecords": "column"})
        rows = sorted(pykafka.read(topic, **options).collect(), key=lambda row: row.offset)
        assert dicts(rows)[:100] == [each if n != 41 else None for n, each in enumerate(records)]
        assert [row.offset for row in rows if row.badRecord is not None] == [41, 101, 102]
        assert rows[100].value is None  # a tombstone
        bad = rows[41].badRecord
        assert (bad.schemaId, bytes(bad.value), bad.key) == (new, damaged, None)
        assert "$.maybe" in bad.reason
        assert "left over" in rows[101].badRecord.reason
        assert rows[102].badRecord.schemaId == 0x7F00
        with pytest.raises(PySparkException) as failure:
            pykafka.read(topic, **{**options, "badRecords": "fail"}).collect()
        for word in (f"{topic}-0, offset 41", f"schema id {new}", "$.maybe", "the bytes end", "badRecords=column"):
            assert word in str(failure.value)

        with Reader({"kafka.bootstrap.servers": pykafka.bootstrap_servers, "subscribe": topic, **options}) as reader:
            table = pa.Table.from_batches(list(reader))
        assert table.column("value").to_pylist()[:100] == dicts(rows)[:100]
        assert table.column("badRecord").null_count == 100
        options = {**options, "badRecords": "fail", "kafka.bootstrap.servers": pykafka.bootstrap_servers}
        before = []
        with Reader({"subscribe": topic, **options}) as reader, pytest.raises(BadRecord, match="offset 41"):
            before.extend(row for batch in reader for row in batch.column("offset").to_pylist())
        assert before == list(range(41))


@pytest.mark.needs_spark("limited_available_now")
def test_a_stream_reads_new_writers_after_a_restart(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")

    def run(url):
        options = avro(**{"schemaRegistry.url": url, "startingOffsets": "earliest", "columns": "offset,value"})
        options["maxOffsetsPerTrigger"] = "2"
        frame = pykafka.reading(topic, stream=True, **options).load().selectExpr("offset", "value.*")
        writing = frame.writeStream.format("json").option("checkpointLocation", checkpoint)
        writing.trigger(availableNow=True).start(out).awaitTermination()

    with a_registry() as registry:
        old = registry.add(f"{topic}-value", json.dumps(OLD))
        write(pykafka, topic, [framed(old, OLD, {"number": n, "text": "a"}) for n in range(10)])
        run(registry.url)
        assert len(registry.requests) == 3, registry.paths  # `latest`, the versions, the one: for five micro-batches
        new = registry.add(f"{topic}-value", json.dumps(READ_OLD))
        write(pykafka, topic, [framed(new, READ_OLD, {"number": n, "text": "b", "maybe": 0.5}) for n in range(10, 20)])
        run(registry.url)
    rows = pykafka.spark.read.schema("offset LONG, number LONG, text STRING, maybe DOUBLE").json(out).collect()
    assert sorted((row.offset, row.number, row.text, row.maybe) for row in rows) == [
        (n, n, "a" if n < 10 else "b", None if n < 10 else 0.5) for n in range(20)
    ]


@pytest.mark.extended
def test_a_producers_new_field_is_in_the_next_micro_batch_of_a_running_query(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    out = str(tmp_path / "out")
    record = {"number": 2, "text": "b", "maybe": 0.5}
    with a_registry() as registry:
        old = registry.add(f"{topic}-value", json.dumps(OLD))
        write(pykafka, topic, [framed(old, OLD, {"number": 1, "text": "a"})])
        options = avro(**{"schemaRegistry.url": registry.url, "rescuedColumn": "_rescued"})
        reading = pykafka.reading(topic, stream=True, startingOffsets="earliest", **options)
        frame = reading.load().selectExpr("offset", "value.*", "_rescued")
        writing = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writing.start(out)
        try:
            query.processAllAvailable()
            new = registry.add(f"{topic}-value", json.dumps(READ_OLD))
            write(pykafka, topic, [framed(new, READ_OLD, record), framed(new, READ_OLD, {**record, "maybe": None})])
            query.processAllAvailable()
        finally:
            query.stop()
        chosen = (
            pykafka.reading(topic, **options, readerSchema=f"id:{old}").schema("_rescued STRING, offset LONG").load()
        )
        alone = chosen.orderBy("offset").collect()
    rows = pykafka.spark.read.parquet(out).orderBy("offset").collect()
    assert [tuple(row) for row in rows] == [
        (0, 1, "a", None),
        (1, 2, "b", '{"maybe":0.5}'),
        (2, 2, "b", None),
    ]
    assert [row._rescued for row in alone] == [None, '{"maybe":0.5}', None]


FUNCTION = """
TEXTS = {texts!r}


def text_of(schema_id):
    return TEXTS.get(schema_id)
"""


@pytest.mark.extended
def test_schemas_by_a_function_and_text_keys_and_a_reader_schema_in_a_file(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    module = f"schemas_{uuid.uuid4().hex[:10]}"
    (tmp_path / f"{module}.py").write_text(FUNCTION.format(texts={3: json.dumps(READ_OLD)}))
    pykafka.spark.sparkContext.addPyFile(str(tmp_path / f"{module}.py"))
    (tmp_path / "reader.avsc").write_text(json.dumps(OLD))
    record = {"number": 1, "text": "a", "maybe": 1.0}
    values = [framed(3, READ_OLD, record), framed(4, READ_OLD, record), encoded(READ_OLD, record)]
    write(pykafka, topic, values, ["schlüssel".encode(), b"\xff", None])
    options = avro(schemaRegistry=f"{module}:text_of", keyFormat="string", readerSchema=f"file:{tmp_path}/reader.avsc")
    rows = pykafka.read(topic, **options, badRecords="column").orderBy("offset").collect()
    assert dicts(rows) == [{"number": 1, "text": "a"}, None, None]
    assert [row.key for row in rows] == ["schlüssel", None, None]
    assert rows[1].badRecord.schemaId == 4
    assert bytes(rows[1].badRecord.key) == b"\xff"
    with pytest.raises(PySparkException, match="a function knows ids alone"):
        pykafka.read(topic, **{**options, "readerSchema": "latest"})


SHOP = """syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
message Order {
  int64 id = 1; string note = 2; optional double price = 3; google.protobuf.Timestamp at = 4;
  google.protobuf.Duration took = 5; repeated Line lines = 6; map<string, int32> counts = 7; State state = 8;
}
message Line { string sku = 1; bytes code = 2; }
enum State { NEW = 0; SENT = 1; }
"""
ORDER_IN_SPARK = (
    "struct<id:bigint,note:string,price:double,at:timestamp,took:interval day to second,"
    "lines:array<struct<sku:string,code:binary>>,counts:map<string,int>,state:string>"
)


def test_protobuf_records_have_the_types_of_from_protobuf(pykafka, kafka_topic):
    """The bytes are written by hand: field 1 is a varint, 2 a text, 4 and 5 times, 6 lines, 7 a map, 8 an enum."""
    topic = kafka_topic(partitions=1)
    order = (
        b"\x08\x05\x12\x02hi\x22\x06\x08\x80\x94\xeb\xdc\x03\x2a\x03\x08\x90\x1c"  # took an hour
        b"\x32\x05\x0a\x01s\x12\x00\x3a\x05\x0a\x01k\x10\x09\x40\x01"
    )
    with a_registry() as registry:
        number = registry.add(f"{topic}-value", SHOP, "PROTOBUF").to_bytes(4, "big")
        values = [b"\0" + number + index + record for index, record in ((b"\0", order), (b"\0", b""), (b"\2\2", b""))]
        write(pykafka, topic, [*values, None, b"\0" + number + b"\0\x12\x01\xff"])
        options = {
            "valueFormat": "protobuf", "schemaRegistry.url": registry.url, "badRecords": "column",
            "messageName": "shop.Order",
        }  # fmt: skip
        frame = pykafka.read(topic, **options)
        assert dict(frame.dtypes)["value"] == ORDER_IN_SPARK
        columns = ["value.*", "badRecord.reason", "offset", "unix_micros(value.at) AS micros"]
        first, empty, other, tombstone, bad = frame.selectExpr(*columns).orderBy("offset").collect()
        with pytest.raises(PySparkException, match=r"declares shop\.Order, shop\.Line: say which"):
            pykafka.read(topic, **{name: each for name, each in options.items() if name != "messageName"})
    assert (first.id, first.note, first.price, first.state) == (5, "hi", None, "SENT")
    assert first.micros == 1_000_000_000_000_000
    assert (first.took, first.lines, first.counts) == (dt.timedelta(hours=1), [("s", None)], {"k": 9})
    assert (empty.id, empty.lines, empty.counts, empty.took, empty.reason) == (None, [], {}, None, None)
    assert "the record is a shop.Line" in other.reason
    assert (tombstone.lines, tombstone.reason) == (None, None)
    assert "field $.note: a string is not UTF-8" in bad.reason


def test_bare_keys_and_values_are_read_back_in_batch_and_stream_without_a_registry(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    avro_schema = json.dumps(OLD)
    proto = 'syntax = "proto3"; message Other {} message Key { int64 id = 1; }'
    formats = {"valueFormat": "avro", "keyFormat": "protobuf", "keyMessageName": "Key", "schemaIdIn": "none"}
    rows = pykafka.spark.sql(
        "SELECT named_struct('id', id) AS key, named_struct('number', id, 'text', 't') AS value FROM range(1, 4)"
    )
    pykafka.write(rows, topic, **formats, writerSchema=avro_schema, keyWriterSchema=proto)
    bytes_of = {bytes(row.value) for row in pykafka.read(topic).collect()}
    assert bytes_of == {encoded(OLD, {"number": n, "text": "t"}) for n in (1, 2, 3)}
    write(pykafka, topic, [b"\x02"])
    options = {**formats, "readerSchema": avro_schema, "keyReaderSchema": proto, "badRecords": "column"}
    columns = ["key.id", "value.number", "value.text", "badRecord.reason"]
    stream = pykafka.reading(topic, stream=True, startingOffsets="earliest", **options).load().selectExpr(*columns)
    writing = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writing.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    for found in (
        pykafka.read(topic, **options).selectExpr(*columns),
        pykafka.spark.read.parquet(str(tmp_path / "out")),
    ):
        *good, bad = sorted(found.collect(), key=lambda row: row.number or 9)
        assert [tuple(row) for row in good] == [(n, n, "t", None) for n in (1, 2, 3)]
        assert (bad.number, "field $.text" in bad.reason) == (None, True)
