"""`pykafka read --value-format` on a real Kafka. fastavro writes the records, a fake registry has their schemas."""

import json

import pyarrow.parquet as parquet
import pytest
from confluent_producer import ordered_producer
from fake_registry import Fault, a_registry
from kept_schemas import framed

from kafkasource.tools.cli import main

pytestmark = pytest.mark.broker

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": "int"}},
    ],
}
ORDERS = [{"id": 1, "note": "é", "lines": [1, 2]}, {"id": 2, "note": None, "lines": []}]


@pytest.fixture
def registry():
    with a_registry() as registry:
        yield registry


@pytest.fixture
def topic(kafka_broker, kafka_topic, registry):
    """A topic with two orders with keys, one record that is not Avro, and one without a value."""
    name = kafka_topic(1)
    schema_id = registry.add(f"{name}-value", json.dumps(ORDER))
    producer = ordered_producer(kafka_broker.bootstrap_servers)
    for n, value in enumerate([*(framed(schema_id, ORDER, order) for order in ORDERS), b"no avro", None]):
        producer.produce(name, value, b"k%d" % n)
    producer.flush()
    return name


@pytest.fixture
def read(kafka_broker, registry, topic, capfdbinary):
    def run(*words):
        words = ("read", topic, "--schema-registry", registry.url, "--value-format", "avro", *words)
        code = main([*words, "-b", kafka_broker.bootstrap_servers])
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


def test_values_are_lines_of_json_until_one_cannot_be_decoded_which_is_named(read, topic):
    code, out, err = read()
    assert (code, [*map(json.loads, out.splitlines())]) == (1, ORDERS)
    assert f"{topic}-0, offset 2" in err
    assert "-X badRecords=column" in err


def test_a_bad_record_behind_the_last_one_that_is_asked_for_does_no_harm(read):
    code, out, _ = read("-n", "2")
    assert (code, [*map(json.loads, out.splitlines())]) == (0, ORDERS)


def test_options_of_the_source_by_their_own_names_do_the_same(kafka_broker, registry, topic, capfdbinary):
    given = ("-X", "valueFormat=avro", "-X", f"schemaRegistry.url={registry.url}", "-X", "badRecords=fail")
    assert main(["read", topic, *given, "-b", kafka_broker.bootstrap_servers]) == 1
    out, err = capfdbinary.readouterr()
    assert [*map(json.loads, out.splitlines())] == ORDERS
    assert f"{topic}-0, offset 2" in err.decode()


def test_a_registry_that_gives_no_answer_ends_the_command_soon(read, registry, monkeypatch):
    monkeypatch.setattr("kafkasource.tools.cli.registry_arguments._FIRST_ANSWER_MS", "100")
    registry.always = Fault(503)
    code, out, err = read()
    assert (code, out) == (1, "")
    assert "asked again for 100 ms" in err


def test_with_bad_records_as_a_column_they_are_named_and_the_rest_is_read(read, topic):
    code, out, err = read("-X", "badRecords=column", "-K", "=", "--null", "-")
    assert code == 0
    assert out.splitlines() == [
        'k0={"id": 1, "note": "é", "lines": [1, 2]}', 'k1={"id": 2, "note": null, "lines": []}', "k2=-", "k3=-",
    ]  # fmt: skip
    assert err.count(f"{topic}-0, offset 2: ") == 1
    assert "offset 3" not in err


def test_json_holds_the_value_as_an_object_and_a_bad_record_with_its_bytes(read):
    code, out, _ = read("-X", "badRecords=column", "--json", "--key-format", "string")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [row["value"] for row in rows] == [*ORDERS, None, None]
    assert [row["key"] for row in rows] == ["k0", "k1", "k2", "k3"]
    assert ["badRecord" in row for row in rows] == [False, False, True, False]
    assert (rows[2]["badRecord"]["key"], rows[2]["badRecord"]["value"]) == ("k2", "no avro")


def test_a_format_string_prints_it_too(read):
    assert read("-n", "1", "-f", r"%k %s\n")[1] == 'k0 {"id": 1, "note": "é", "lines": [1, 2]}\n'


def test_a_parquet_file_has_the_typed_column(read, tmp_path):
    file = tmp_path / "orders.parquet"
    code, _, err = read("-n", "2", "--to", str(file))
    assert code == 0, err
    table = parquet.read_table(file)
    assert table["value"].to_pylist() == ORDERS
    assert "badRecord" not in table.column_names
    code, _, err = read("--to", str(tmp_path / "all.parquet"))
    assert (code, "Exception ignored" in err) == (1, False)
    assert not (tmp_path / "all.parquet").exists()


def test_a_dump_of_bytes_is_refused_before_anything_is_asked(read, registry):
    code, out, err = read("--format", "hex")
    assert (code, out, registry.requests) == (1, "", [])
    assert "leave out --value-format" in err


def test_a_format_without_its_registry_names_the_option(kafka_broker, topic, capsys):
    assert main(["read", topic, "--value-format", "avro", "-b", kafka_broker.bootstrap_servers]) == 1
    assert "schemaRegistry.url" in capsys.readouterr().err


def test_the_registry_of_the_environment_is_asked_where_no_argument_names_one(
    kafka_broker, registry, topic, capfdbinary, monkeypatch
):
    words = ["read", topic, "--value-format", "avro", "-n", "2", "-b", kafka_broker.bootstrap_servers]
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", "http://127.0.0.1:1")
    assert main([*words, "-X", f"schemaRegistry.url={registry.url}"]) == 0
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
    assert main(words) == 0
    assert [*map(json.loads, capfdbinary.readouterr().out.splitlines())] == 2 * ORDERS
