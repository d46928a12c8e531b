"""Rows that a writer's schema does not take: with badRecords=topic:NAME dead letters, as JSON."""

from __future__ import annotations

import datetime as dt
import json
import pickle

import pyarrow as pa
import pytest
from fake_registry import a_registry
from kept_schemas import framed
from pyspark.sql.pandas.types import from_arrow_schema

from kafkasource import metrics
from kafkasource.kafka.producer.rows import InvalidRow
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.sink.clusters import targets
from kafkasource.sink.writer import BatchWriter
from kafkasource.tools.admin.dead_letters import Origin
from kafkasource.tools.admin.replay import Choice

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
    monkeypatch.setattr("kafkasource.sink.writer.require_topic", lambda *_, **__: "the cluster")
    arrays = {name: pa.array(values[name], kind) for name, kind in columns.items()}
    return list(pickle.loads(pickle.dumps(writer))._schema.rows(pa.RecordBatch.from_pydict(arrays)))


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


def test_they_go_to_the_topic_of_dead_letters_as_json_with_the_field_and_the_reason(registry, monkeypatch):
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
    null = "the value is null, and the writer's schema has no null there"
    symbol = "the text is not a symbol of the schema's enum"
    assert [[(each["key"], each["value"].decode()) for each in row] for row in dead.headers.to_pylist()] == [
        [
            ("h", "1"),
            ("__dlq.errors.topic", "orders"),
            ("__dlq.errors.partition", "1"),
            ("__dlq.errors.message", f"column 'value' cannot be encoded: $.colour: {symbol}"),
            ("__dlq.errors.cluster.id", "the cluster"),
            ("__dlq.errors.field", "$.colour"),
            ("__dlq.errors.value.format", "json"),
        ],
        [
            ("__dlq.errors.topic", "orders"),
            ("__dlq.errors.partition", "7"),
            ("__dlq.errors.message", f"column 'value' cannot be encoded: $.lines[].price: {null}"),
            ("__dlq.errors.cluster.id", "the cluster"),
            ("__dlq.errors.field", "$.lines[].price"),
            ("__dlq.errors.value.format", "json"),
        ],
        [
            ("__dlq.errors.topic", "orders"),
            ("__dlq.errors.message", f"column 'value' cannot be encoded: $.id: {null}"),
            ("__dlq.errors.cluster.id", "the cluster"),
            ("__dlq.errors.field", "$.id"),
            ("__dlq.errors.value.format", "json"),
        ],
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
    assert choice.takes(Origin.of(said))
    assert not choice.takes(Origin.of([*said, mark]))
    assert choice.takes(Origin.of([*said, mark, *said]))  # it was read, and could not be decoded
