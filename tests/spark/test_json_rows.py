"""JSON records through Spark on a real Kafka, beside Spark's own from_json on the same bytes."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from fake_registry import a_registry
from pyspark.errors import PySparkException
from pyspark.sql.functions import expr

from kafkasource.reader import Reader

pytestmark = [pytest.mark.broker, pytest.mark.spark]

DDL = (
    "i INT, l BIGINT, y TINYINT, d DOUBLE, f FLOAT, c DECIMAL(4, 2), s STRING, o BOOLEAN, b BINARY, t TIMESTAMP, "
    "n TIMESTAMP_NTZ, e DATE, m MAP<STRING, INT>, a ARRAY<INT>, r STRUCT<x: INT, z: ARRAY<STRUCT<v: DOUBLE>>>"
)
BAD = "BAD"

SAME = [
    b"{}",
    b'{"i": 1, "l": -9223372036854775808, "y": -128, "d": 1.5e300, "f": 0.1, "c": 12.34}',
    b'{"s": "a\\u00e9\\n", "o": true}',
    b'{"b": "aGk=", "t": "2024-05-06T07:08:09.123456Z", "n": "2024-05-06T07:08:09", "e": "2024-02-29"}',
    b'{"m": {"a": 1, "b": null}, "a": [1, null], "r": {"x": null, "z": [{"v": 1}, null, {}]}, "unknown": [{}]}',
    b'{"s": {"a":[1,2]}, "t": "2024-05-06 07:08:09.5+02:00", "n": "2024-05-06"}',
    b'{"i": 1, "i": 2}',
    b'{"d": "NaN", "f": "-INF", "c": "1.5", "m": {}, "a": [], "i": null}',
    b'{"t": "2024-05-06T07:08:09.123456789Z", "d": 1e-400, "s": 1.5}',
    b' \n{"r" : {"z" : [ ] } } ',
]
# (record, column, here, by from_json): docs/json-rows.md has the table of it.
DIFFERENT = [
    (b'{"i": 2147483648}', "i", BAD, None),
    (b'{"i": "x", "s": "kept"}', "i", BAD, None),
    (b'{"i": 1.0}', "i", "1", None),
    (b'{"d": 1e400}', "d", BAD, "Infinity"),
    (b'{"d": NaN}', "d", BAD, "NaN"),
    (b'{"c": 1.239}', "c", BAD, "1.24"),
    (b'{"c": 123.4}', "c", BAD, None),
    (b'{"t": 1700000000}', "t", BAD, "2023-11-14 22:13:20"),
    (b'{"t": "2024-05-06T07:08:09"}', "t", BAD, "2024-05-06 07:08:09"),
    (b'{"t": "2024-05-06"}', "t", BAD, "2024-05-06 00:00:00"),
    (b'{"e": "2024-05-06T07:08:09Z"}', "e", BAD, "2024-05-06"),
    (b'{"e": "2024"}', "e", BAD, "2024-01-01"),
    (b'{"s": 1.50}', "s", "1.50", "1.5"),
    (b'{"s": {"a": [1]}}', "s", '{"a": [1]}', '{"a":[1]}'),
    (b'{"s": "\\ud800"}', "s", BAD, "?"),
    (b'{"s": "a"}{"s": "b"}', "s", BAD, "a"),
    (b'{"s": "a"} x', "s", BAD, "a"),
    (b'{"s": "a"', "s", BAD, None),
    (b'{"s": ' + b"1" * 1001 + b"}", "s", "1" * 1001, None),
    (b"{'s': 'a'}", "s", BAD, "a"),
    (b"[]", "s", BAD, None),
    (b"", "s", BAD, None),
]


def write(pykafka, topic, values):
    """Records in their order, in one partition."""
    rows = pa.table({"value": pa.array(values, pa.binary())})
    pykafka.write(pykafka.spark.createDataFrame(rows).coalesce(1), topic)


def as_json(**more):
    return {"valueFormat": "json", **more}


def test_what_fits_is_as_from_json_has_it_and_each_difference_is_known(pykafka, kafka_topic):
    topic = kafka_topic(partitions=1)
    write(pykafka, topic, [*SAME, *(each[0] for each in DIFFERENT)])
    zone = pykafka.spark.conf.get("spark.sql.session.timeZone")
    pykafka.spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        ours = pykafka.read(topic, **as_json(readerSchema=DDL, badRecords="column")).orderBy("offset")
        theirs = pykafka.read(topic).orderBy("offset")
        theirs = theirs.withColumn("value", expr(f"from_json(cast(value AS STRING), '{DDL}')"))
        assert ours.schema["value"].dataType == theirs.schema["value"].dataType
        whole = "to_json(value, map('ignoreNullFields', 'false')) AS whole"
        columns = [f"cast(value.{each} AS STRING) AS {each}" for each in "ildcsote"]
        ours_rows = ours.selectExpr(whole, "badRecord.reason", *columns).collect()
        theirs_rows = theirs.selectExpr(whole, *columns).collect()
    finally:
        pykafka.spark.conf.set("spark.sql.session.timeZone", zone)
    for row, other, record in zip(ours_rows, theirs_rows, SAME, strict=False):
        assert (row.reason, row.whole) == (None, other.whole), record
    behind = slice(len(SAME), None)
    found = [
        (record, column, BAD if row.reason else row[column], other[column])
        for (record, column, *_), row, other in zip(DIFFERENT, ours_rows[behind], theirs_rows[behind], strict=True)
    ]
    assert found == DIFFERENT


def test_the_columns_may_come_from_schema_with_bad_records_in_a_stream(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    records = [b'{"id":%d,"tags":["t%d"]}' % (n, n) for n in range(300)]
    for n in range(7, 300, 100):
        records[n] = records[n][:-3]
    write(pykafka, topic, [*records, None])
    schema = (
        "offset LONG, value STRUCT<id: BIGINT, tags: ARRAY<STRING>>, "
        "badRecord STRUCT<reason: STRING, schemaId: INT, key: BINARY, value: BINARY, clusterId: STRING>"
    )
    options = as_json(badRecords="column", startingOffsets="earliest")
    frame = pykafka.reading(topic, stream=True, **options).schema(schema).load()
    writing = frame.selectExpr("offset", "value.*", "badRecord.reason", "badRecord.value AS bytes").writeStream
    writing = writing.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writing.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    rows = pykafka.spark.read.parquet(str(tmp_path / "out")).orderBy("offset").collect()
    bad = set(range(7, 300, 100))
    assert [(row.id, row.tags) for row in rows] == [
        (n, [f"t{n}"]) if n not in bad and n < 300 else (None, None) for n in range(301)
    ]
    assert {row.offset: bytes(row.bytes) for row in rows if row.reason} == {n: records[n] for n in bad}
    assert all("field $.tags" in row.reason for row in rows if row.reason)


def test_the_columns_may_come_from_a_json_schema_of_the_registry(pykafka, kafka_topic):
    topic = kafka_topic(partitions=1)
    line = {"type": "object", "properties": {"sku": {"type": "string"}, "n": {"type": "integer"}}, "required": ["n"]}
    order = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": ["string", "null"], "format": "date-time"},
            "lines": {"type": "array", "items": {"$ref": "line.json"}},
            "any": {},
        },
        "required": ["id"],
    }
    with a_registry() as registry:
        registry.add("line", json.dumps(line), "JSON")
        number = registry.add(f"{topic}-value", json.dumps(order), "JSON", (("line.json", "line", 1),))
        framed = b"\0" + number.to_bytes(4, "big") + b'{"id":1,"lines":[{"n":5}],"any":{"a":[1]}}'
        write(pykafka, topic, [framed, b'{"id":2,"new":true}', b'{"lines":[{}]}', framed[:-1]])
        options = as_json(**{"schemaRegistry.url": registry.url, "badRecords": "column"})
        frame = pykafka.read(topic, **options)
        assert dict(frame.dtypes)["value"] == (
            "struct<id:bigint,at:timestamp,lines:array<struct<sku:string,n:bigint>>,any:string>"
        )
        assert not frame.schema["value"].dataType["id"].nullable
        first, second, third, cut = frame.orderBy("offset").collect()
        assert len([path for path in registry.paths if "/schemas/ids" in path]) == 0  # JSON says itself what it is
    assert first.value.asDict(recursive=True) == {
        "id": 1, "at": None, "lines": [{"sku": None, "n": 5}], "any": '{"a":[1]}'
    }  # fmt: skip
    assert second.value.id == 2
    assert "field $.lines[].n: a required field is missing" in third.badRecord.reason
    assert (cut.badRecord.schemaId, bytes(cut.badRecord.value)) == (number, framed[:-1])
    with Reader({"kafka.bootstrap.servers": pykafka.bootstrap_servers, "subscribe": topic,
                 **as_json(readerSchema="id BIGINT", badRecords="column")}) as reader:  # fmt: skip
        table = pa.Table.from_batches(list(reader))
    assert table.column("value").to_pylist() == [{"id": 1}, {"id": 2}, {"id": None}, None]


@pytest.mark.parametrize(
    ("options", "schema", "reason"),
    [
        (as_json(), None, r"the format json needs the columns: set 'readerSchema' to Spark's DDL"),
        (as_json(readerSchema="id INTERVAL"), None, r"option 'readerSchema': \$: no column .* 'interval'"),
        (as_json(readerSchema='{"type":"object","properties":{"a":{"$ref":"#"}}}'), None, "contains itself"),
        (as_json(), "value STRUCT<a: MAP<INT, INT>>", r"\.schema\(\), the column 'value': \$\.a: the keys of a map"),
        (as_json(readerSchema="id INT"), "value STRUCT<id: BIGINT>", r"the column 'value' is struct<id:int>"),
    ],
)
def test_a_schema_that_has_no_columns_is_an_error_of_load(pykafka, options, schema, reason):
    reading = pykafka.reading("none", **options)
    with pytest.raises(PySparkException, match=reason):
        (reading if schema is None else reading.schema(schema)).load().collect()
