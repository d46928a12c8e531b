"""Rows that become dead letters: with a `badRecord` that is not null, or not as a writer's schema takes them."""

from __future__ import annotations

import datetime as dt
import json
import pickle

import pyarrow as pa
import pytest
from fake_registry import a_registry
from kept_schemas import framed
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import StructType

from kafkasource import metrics, options
from kafkasource.errors import BadRecord, OptionError
from kafkasource.formats.reading.formats import BAD_RECORD_TYPE
from kafkasource.kafka.producer.rows import InvalidRow
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.sink.clusters import targets
from kafkasource.sink.columns import checked_rows
from kafkasource.sink.schema import InvalidSchema, SinkSchema
from kafkasource.sink.writer import BatchWriter
from kafkasource.tools.admin.dead_letters import LetterOrigin
from kafkasource.tools.admin.replay import Choice

TYPES = {
    "value": pa.binary(),
    "key": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "headers": HEADERS_TYPE,
    "badRecord": BAD_RECORD_TYPE,
}
BASE = {"kafka.bootstrap.servers": "localhost:9092"}


def schema_of(*names):
    found = StructType()
    for name in names:
        found = found.add(name, from_arrow_type(TYPES[name]))
    return found


def bad(number, key=b"k", cluster_id="of the source"):
    return {
        "reason": f"the value of schema id 7: reason {number}",
        "schemaId": 7,
        "key": key,
        "value": b"\0%d" % number,
        "clusterId": cluster_id,
    }


def batch(names, **columns):
    return pa.record_batch([pa.array(columns[name], TYPES[name]) for name in names], names=list(names))


ROWS = {
    "value": [b"good 0", None, b"good 2", None],
    "key": [b"a", None, b"b", None],
    "topic": ["orders", "orders", "orders", "payments"],
    "partition": [None, 1, None, 2],
    "offset": [10, 11, 12, 2**40],
    "timestamp": [1_000_000, 2_000_000, 3_000_000, None],
    "headers": [None, [("x", b"1"), ("x", None)], None, None],
    "badRecord": [None, bad(1), None, bad(3, key=None, cluster_id=None)],
}


def test_dead_letters_are_the_records_as_they_were_read_and_say_from_where_and_why():
    schema = pickle.loads(pickle.dumps(SinkSchema.check(schema_of(*TYPES), "clean", dead_letter_topic="dlq.orders")))
    dead, good = checked_rows(schema, batch(TYPES, **ROWS))
    assert (dead.topic, dead.count, dead.keys.to_pylist()) == ("dlq.orders", 2, [b"k", None])
    assert dead.values.to_pylist() == [b"\x001", b"\x003"]
    assert dead.timestamps_ms.to_pylist() == [2000, None]
    assert dead.partitions is None  # the topic of dead letters need not have the partition
    assert [[(each["key"], each["value"]) for each in row] for row in dead.headers.to_pylist()] == [
        [
            ("x", b"1"),
            ("x", None),
            ("__dlq.errors.topic", b"orders"),
            ("__dlq.errors.partition", b"1"),
            ("__dlq.errors.offset", b"11"),
            ("__dlq.errors.message", b"the value of schema id 7: reason 1"),
            ("__dlq.errors.cluster.id", b"of the source"),
        ],
        [
            ("__dlq.errors.topic", b"payments"),
            ("__dlq.errors.partition", b"2"),
            ("__dlq.errors.offset", b"1099511627776"),
            ("__dlq.errors.message", b"the value of schema id 7: reason 3"),
        ],
    ]
    assert (good.topic, good.values.to_pylist(), good.keys.to_pylist()) == (
        "clean",
        [b"good 0", b"good 2"],
        [b"a", b"b"],
    )
    assert good.headers is good.partitions is None


def test_a_batch_of_only_good_or_only_bad_rows_is_one():
    schema = SinkSchema.check(schema_of(*TYPES), None, dead_letter_topic="dlq")
    rows = batch(TYPES, **ROWS)
    assert [each.topic for each in checked_rows(schema, rows.slice(0, 1))] == ["orders"]
    assert [each.topic for each in checked_rows(schema, rows.slice(1, 1))] == ["dlq"]
    assert list(checked_rows(schema, rows.slice(0, 0))) == []


@pytest.mark.parametrize("name", ["topic", "partition", "offset"])
def test_a_dead_letter_without_its_place_is_refused(name):
    schema = SinkSchema.check(schema_of(*TYPES), "clean", dead_letter_topic="dlq")
    with pytest.raises(InvalidRow, match=f"column '{name}' is null"):
        list(checked_rows(schema, batch(TYPES, **{**ROWS, name: [None] * 4})))


@pytest.mark.parametrize("name", ["topic", "partition", "offset", "headers"])
def test_a_plan_without_a_column_that_dead_letters_need_is_refused_before_a_task(name):
    names = [each for each in TYPES if each != name]
    with pytest.raises(InvalidSchema, match=f"needs the column '{name}'"):
        SinkSchema.check(schema_of(*names), "clean", dead_letter_topic="dlq")


def test_without_bad_records_a_plan_needs_no_more_columns_for_what_cannot_be_written():
    schema = SinkSchema.check(schema_of("value"), "clean", dead_letter_topic="dlq")
    assert (schema.positions, schema.dead_letter_topic) == ({"value": 0}, "dlq")
    packed = SinkSchema.check(StructType().add("records", "binary"), None, dead_letter_topic="dlq")
    assert (packed.positions, packed.dead_letter_topic) == ({"records": 0}, "dlq")


def test_another_column_of_that_name_is_refused_with_dead_letters_and_ignored_without():
    schema = schema_of(*TYPES)
    schema = StructType([each for each in schema if each.name != "badRecord"]).add("badRecord", "string")
    with pytest.raises(InvalidSchema, match="badRecord attribute unsupported type string"):
        SinkSchema.check(schema, "clean", dead_letter_topic="dlq")
    assert "badRecord" not in SinkSchema.check(schema, "clean").positions


def test_without_a_topic_for_it_a_bad_record_fails_the_task_and_is_named():
    """As a null value, it would delete its key from a compacted topic."""
    with pytest.raises(BadRecord, match=r"topic orders, partition 1, offset 11: .*reason 1.*badRecords=topic:NAME"):
        list(checked_rows(SinkSchema.check(schema_of(*TYPES), "clean"), batch(TYPES, **ROWS)))
    few = ("value", "badRecord")
    with pytest.raises(BadRecord, match="a row: "):
        list(checked_rows(SinkSchema.check(schema_of(*few), "clean"), batch(few, **ROWS)))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"badRecords": "column"}, "is for reading"),
        ({"badRecords": "topic"}, "expected fail, column"),
        ({"badRecords": "topic:"}, "expected fail, column"),
        ({"badRecords": "topic:a b"}, "expected fail, column"),
        ({"badRecords": "topic:.."}, "expected fail, column"),
        ({"badRecords": "topic:t", "topic": "t"}, "both name 't'"),
        (
            {
                **{"badRecords": "topic:dlq", "topic": "t", "atomicBatch": "true"},
                **{"deliveryGuarantee": "exactly_once", "transactionalIdPrefix": "p"},
            },
            "cannot be combined with 'atomicBatch'",
        ),
    ],
)
def test_what_a_write_cannot_do_with_bad_records_is_refused(given, words):
    with pytest.raises(OptionError, match=words):
        targets.parse({**BASE, **given})


def test_a_read_has_no_dead_letters():
    with pytest.raises(OptionError, match="is for writing"):
        options.parse({**BASE, "subscribe": "t", "badRecords": "topic:dlq"}, "source")


@pytest.mark.parametrize("given", [{"topic": "dlq"}, {"topic": "t", "clusters.east.topic": "dlq"}])
def test_the_dead_letters_of_a_cluster_need_another_topic_than_its_rows(given):
    with pytest.raises(OptionError, match="both name 'dlq'"):
        targets.parse({"clusters.east.kafka.bootstrap.servers": "e:1", "badRecords": "topic:dlq", **given})


def test_the_topic_keeps_its_case():
    assert targets.parse({**BASE, "badRecords": "TOPIC:Dlq.Orders"}).dead_letter_topic == "Dlq.Orders"
    assert targets.parse(BASE).dead_letter_topic is None


# Rows that a writer's schema does not take: with badRecords=topic:NAME dead letters, as JSON.

ORDER = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"},
    {"name": "colour", "type": {"type": "enum", "name": "C", "symbols": ["RED", "BLUE"]}},
    {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "L", "fields": [
        {"name": "price", "type": "double"}]}}},
    {"name": "took", "type": ["null", "long"], "default": None},
]}  # fmt: skip
VALUE = pa.struct([
    ("id", pa.int64()), ("colour", pa.string()), ("lines", pa.list_(pa.struct([("price", pa.float64())]))),
    ("took", pa.duration("us")),
])  # fmt: skip


def order(number, **more):
    return {"id": number, "colour": "RED", "lines": [{"price": 1.5}], "took": None, **more}


def written(url, columns, **options):
    given = {"kafka.bootstrap.servers": "localhost:1", "topic": "orders", "valueFormat": "avro",
             "badRecords": "topic:dlq", "schemaRegistry.url": url, **options}  # fmt: skip
    return BatchWriter(
        targets.parse({name: text for name, text in given.items() if text is not None}),
        from_arrow_schema(pa.schema(list(columns.items()))),
    )


def rows_of(writer, columns, monkeypatch, **values):
    monkeypatch.setattr("kafkasource.sink.dead_letters.require_topic", lambda *_, **__: "the cluster")
    arrays = {name: pa.array(values[name], kind) for name, kind in columns.items()}
    return list(checked_rows(pickle.loads(pickle.dumps(writer))._schema, pa.RecordBatch.from_pydict(arrays)))


@pytest.fixture
def registry():
    with a_registry() as found:
        found.add("orders-value", json.dumps(ORDER))
        yield found


COLUMNS = {
    "key": pa.string(),
    "value": VALUE,
    "headers": HEADERS_TYPE,
    "partition": pa.int32(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def test_rows_that_the_schema_does_not_take_are_dead_letters_as_json_with_the_field_and_the_reason(
    registry, monkeypatch
):
    values = [order(0), order(1, colour="GREEN"), None, order(3, lines=[{"price": 2}, {"price": None}]), order(None)]
    values[3]["took"] = dt.timedelta(seconds=2)
    at = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    found = rows_of(
        written(registry.url, COLUMNS),
        COLUMNS,
        monkeypatch,
        key=["a", "b", "c", None, "e"],
        value=values,
        headers=[None, [{"key": "h", "value": b"1"}], None, None, None],
        partition=[None, 1, None, 7, None],
        timestamp=[at] * 5,
    )
    (dead,) = [rows for rows in found if rows.topic == "dlq"]
    good = [rows for rows in found if rows is not dead]
    assert {rows.topic for rows in good} == {"orders"}
    assert [each for rows in good for each in rows.values.to_pylist()] == [framed(1, ORDER, values[0]), None]
    assert [each for rows in good for each in rows.keys.to_pylist()] == [b"a", b"c"]
    assert (dead.topic, dead.count, dead.partitions) == ("dlq", 3, None)
    assert dead.keys.to_pylist() == [b"b", None, b"e"]
    assert [json.loads(each) for each in dead.values.to_pylist()] == [
        {"id": 1, "colour": "GREEN", "lines": [{"price": 1.5}]},
        {"id": 3, "colour": "RED", "lines": [{"price": 2.0}, {}], "took": 2_000_000},  # microseconds
        {"colour": "RED", "lines": [{"price": 1.5}]},
    ]
    assert dead.timestamps_ms.to_pylist() == [1767225600000] * 3
    null = "the value is null or not there, and the writer's schema has no null there"
    symbol = "the text is not a symbol of the schema's enum"

    def why(field, reason, partition):
        said = {
            "topic": "orders",
            "partition": partition,
            "message": f"column 'value' cannot be encoded: {field}: {reason}",
        }
        said |= {"cluster.id": "the cluster", "field": field, "value.format": "json"}
        return [(f"__dlq.errors.{name}", text) for name, text in said.items() if text is not None]

    assert [[(each["key"], each["value"].decode()) for each in row] for row in dead.headers.to_pylist()] == [
        [("h", "1"), *why("$.colour", symbol, "1")],
        why("$.lines[].price", null, "7"),
        why("$.id", null, None),
    ]


def test_keys_and_values_that_are_both_encoded_are_both_json_and_no_row_is_lost_or_doubled(registry, monkeypatch):
    monkeypatch.setattr("kafkasource.formats.writing.rows.MOST_BYTES", 200)  # many pieces, of keys and of values
    registry.add("keys", '{"type":"enum","name":"K","symbols":["A","B"]}')
    columns = {"topic": pa.string(), "key": pa.string(), "value": VALUE}
    options = {"keyFormat": "avro", "keyWriterSchema": "subject:keys", "writerSchema": "id:1", "topic": None}
    count = 500
    keys = ["C" if n % 7 == 3 else "AB"[n % 2] for n in range(count)]
    values = [order(n, colour="GREEN" if n % 5 in (1, 2) else "BLUE") for n in range(count)]
    found = rows_of(
        written(registry.url, columns, **options), columns, monkeypatch,
        topic=["tu"[n % 2] for n in range(count)], key=keys, value=values,
    )  # fmt: skip
    bad = [n for n in range(count) if n % 7 == 3 or n % 5 in (1, 2)]
    dead = [rows for rows in found if rows.topic == "dlq"]
    assert [json.loads(each)["id"] for rows in dead for each in rows.values.to_pylist()] == bad
    assert [json.loads(each) for rows in dead for each in rows.keys.to_pylist()] == [keys[n] for n in bad]
    formats = [[each["key"] for each in row][-2:] for rows in dead for row in rows.headers.to_pylist()]
    assert {tuple(each) for each in formats} == {("__dlq.errors.key.format", "__dlq.errors.value.format")}
    good = {topic: [r for rows in found if rows.topic == topic for r in rows.values.to_pylist()] for topic in "tu"}
    assert good == {
        topic: [framed(1, ORDER, values[n]) for n in range(at, count, 2) if n not in bad]
        for at, topic in enumerate("tu")
    }


def test_each_kind_of_fault_is_counted_by_topic(registry, monkeypatch):
    counted = []
    monkeypatch.setattr(metrics, "count", lambda name, amount, *labels: counted.append((name, amount, *labels)))
    rows_of(
        written(registry.url, {"value": VALUE}), {"value": VALUE}, monkeypatch,
        value=[order(None), order(1), order(None), order(3, colour="")],
    )  # fmt: skip
    name = "kafkasource_dead_letters_total"
    assert sorted(each for each in counted if each[0] == name) == [
        (name, 1, "localhost:1", "orders", "unknown symbol"),
        (name, 2, "localhost:1", "orders", "null value"),
    ]


def test_without_the_option_such_a_row_fails_its_task(registry, monkeypatch):
    with pytest.raises(InvalidRow, match=r"^column 'value' cannot be encoded: \$\.id: the value is null"):
        rows_of(
            written(registry.url, {"value": VALUE}, badRecords=None), {"value": VALUE}, monkeypatch, value=[order(None)]
        )


def test_a_replay_knows_such_letters_from_records_and_from_letters_of_a_second_life():
    said = [{"key": f"__dlq.errors.{name}", "value": b"x"} for name in ("topic", "message", "field")]
    mark = {"key": "__dlq.errors.value.format", "value": b"json"}
    choice = Choice("dlq")
    assert choice.takes(LetterOrigin.of(said))
    assert not choice.takes(LetterOrigin.of([*said, mark]))
    assert choice.takes(LetterOrigin.of([*said, mark, *said]))  # it was read, and could not be decoded
