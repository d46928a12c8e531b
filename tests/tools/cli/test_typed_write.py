"""`pykafka write --value-format` on a real Kafka: fastavro reads the records, and `pykafka read` prints them again."""

import io
import json

import pytest
from confluent_reader import messages_of
from fake_registry import a_registry

from kafkasource.tools.cli import main

fastavro = pytest.importorskip("fastavro")
pytestmark = pytest.mark.broker

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
LINES = ['{"id":1,"at":"2026-11-24T03:04:05.006000Z","note":"é"}', '{"id":2,"at":"1970-01-01T00:00:00.000000Z"}']


@pytest.fixture
def registry():
    with a_registry() as fake:
        yield fake


def test_lines_of_json_are_encoded_by_the_topics_schema_until_one_does_not_fit(
    kafka_broker, kafka_topic, registry, monkeypatch, tmp_path, capfdbinary
):
    topic = kafka_topic(1)
    schema_id = registry.add(f"{topic}-value", json.dumps(ORDER))
    more = ["--value-format", "avro", "--schema-registry", registry.url, "-b", kafka_broker.bootstrap_servers]

    def run(command, *lines):
        with (tmp_path / "stdin").open("w+") as file:
            file.write("\n".join(lines))
            file.seek(0)
            monkeypatch.setattr("sys.stdin", file)
            code = main([command, topic, *more])
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    code, _, err = run("write", *LINES, '{"id":"3"}', LINES[0])
    assert code == 1
    assert "2 records written" in err
    assert 'line 3 cannot be encoded: the value, $.id: expected a whole number of 64 bits, got "3"' in err
    values = [message.value() for message in messages_of(kafka_broker.bootstrap_servers, topic)]
    assert [value[:5] for value in values] == [b"\0" + schema_id.to_bytes(4, "big")] * 2
    records = [fastavro.schemaless_reader(io.BytesIO(value[5:]), ORDER) for value in values]
    assert [(record["id"], record["note"]) for record in records] == [(1, "é"), (2, None)]
    code, out, _ = run("read")
    assert (code, [json.loads(line) for line in out.splitlines()]) == (
        0,
        [json.loads(LINES[0]), {**json.loads(LINES[1]), "note": None}],
    )
