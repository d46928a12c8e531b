"""Options of keys and values in a format: what is refused on the driver, and with which words."""

from __future__ import annotations

import pytest

from kafkasource import options
from kafkasource.errors import OptionError

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
AVRO = {**BASE, "valueFormat": "avro", "schemaRegistry.url": "http://localhost:8081"}


def test_the_column_of_bad_records_is_the_last_or_where_it_is_named():
    parsed = options.parse({**AVRO, "badRecords": "column"}, "source")
    assert parsed["columns"] == (
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"),
        "badRecord",
    )
    assert options.parse({**AVRO, "badRecords": "column", "columns": "badRecord,value"}, "source")["columns"] == (
        *("badRecord", "value"),
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({**BASE, "valueFormat": "avro"}, "schemaRegistry.url"),
        ({**BASE, "schemaRegistry.url": "http://r"}, "needs 'valueFormat'"),
        ({**BASE, "schemaRegistry": "m:f", "valueFormat": "string"}, "needs 'valueFormat'"),
        ({**AVRO, "schemaRegistry": "m:f"}, "both say where schemas are"),
        ({**BASE, "badRecords": "column"}, "set 'valueFormat' or 'keyFormat'"),
        ({**BASE, "readerSchema": "latest"}, "needs 'valueFormat'"),
        ({**AVRO, "keyReaderSchema": "latest"}, "needs 'keyFormat'"),
        ({**AVRO, "packRecords": "true"}, "packed records are copied as the bytes that they are"),
        ({**AVRO, "columns": "value,badRecord"}, "badRecord"),
        ({**AVRO, "valueFormat": "orc"}, "expected one of binary, string, avro, protobuf, json"),
        ({**AVRO, "messageName": "Order"}, "needs 'valueFormat'=protobuf"),
        ({**BASE, "valueFormat": "protobuf"}, "the format protobuf needs the schemas"),
        ({**AVRO, "protobuf.enums.as.ints": "true"}, "needs 'valueFormat' or 'keyFormat' to be protobuf"),
        ({**AVRO, "recordTypes": "a,,b"}, "names, each once, separated by commas"),
        ({**BASE, "valueFormat": "json", "recordTypes": "a"}, "'valueFormat'=avro"),
    ],
)
def test_what_makes_no_sense_is_refused(given, words):
    with pytest.raises(OptionError, match=words):
        options.parse(given, "source")


def test_a_write_knows_no_formats_yet():
    warned: list[str] = []
    options.parse({"kafka.bootstrap.servers": "a:1", "valueFormat": "avro"}, "sink", warn=warned.append)
    assert "valueFormat" in warned[0]
