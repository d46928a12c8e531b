"""Options of keys and values in a format: what is refused on the driver, and with which words."""

from __future__ import annotations

import pytest

from kafkasource import options
from kafkasource.errors import OptionError
from kafkasource.sink.clusters import targets

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


def test_the_column_of_rescued_fields_is_in_front_of_bad_records_or_where_it_is_named():
    both = {**AVRO, "rescuedColumn": "_rescued", "badRecords": "column"}
    assert options.parse(both, "source")["columns"][-3:] == ("timestampType", "_rescued", "badRecord")
    assert options.parse({**both, "columns": "_rescued,offset"}, "source")["columns"] == (
        *("_rescued", "offset", "badRecord"),
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({**BASE, "valueFormat": "avro"}, "schemaRegistry.url"),
        ({**BASE, "schemaRegistry.url": "http://r"}, "needs 'valueFormat'"),
        ({**BASE, "schemaRegistry": "m:f", "valueFormat": "string"}, "needs 'valueFormat'"),
        ({**AVRO, "schemaRegistry": "m:f"}, "both say where schemas are"),
        ({**BASE, "badRecords": "column"}, "set 'valueFormat' or 'keyFormat'"),
        ({**BASE, "readerSchema": "latest"}, "needs 'valueFormat'=avro, protobuf or json, got 'binary'"),
        ({**AVRO, "keyReaderSchema": "latest"}, "needs 'keyFormat'"),
        ({**AVRO, "packRecords": "true"}, "packed records are copied as the bytes that they are"),
        ({**AVRO, "columns": "value,badRecord"}, "badRecord"),
        ({**AVRO, "valueFormat": "orc"}, "expected one of binary, string, avro, protobuf, json"),
        ({**AVRO, "messageName": "Order"}, "needs 'valueFormat'=protobuf"),
        ({**BASE, "valueFormat": "protobuf"}, "the format protobuf needs the schemas"),
        ({**AVRO, "protobuf.enums.as.ints": "true"}, "needs 'valueFormat' or 'keyFormat' to be protobuf"),
        ({**AVRO, "schemaIdIn": "none"}, "'schemaIdIn'=none needs 'readerSchema' with 'valueFormat'=avro"),
        (
            {**AVRO, "readerSchema": '"long"', "schemaIdIn": "none", "keyFormat": "protobuf"},
            "needs 'keyReaderSchema' with 'keyFormat'=protobuf",
        ),
        ({**BASE, "valueFormat": "json", "schemaIdIn": "none"}, "leave 'schemaIdIn' out"),
        (
            {**BASE, "valueFormat": "protobuf", "readerSchema": "message M {}", "schemaIdIn": "fingerprint"},
            "'schemaIdIn'=fingerprint needs 'valueFormat' or 'keyFormat' to be avro",
        ),
        (
            {**AVRO, "readerSchema": '"long"', "schemaIdIn": "none", "recordTypes": "a"},
            "'recordTypes' cannot be combined with 'schemaIdIn'=none",
        ),
        ({**BASE, "rescuedColumn": "r"}, "'rescuedColumn' needs 'valueFormat'=avro, protobuf or json, got 'binary'"),
        (
            {**AVRO, "valueFormat": "binary", "keyFormat": "avro", "rescuedColumn": "r"},
            "'rescuedColumn' needs 'valueFormat'=avro, protobuf or json, got 'binary'",
        ),
        ({**AVRO, "recordTypes": "a", "rescuedColumn": "r"}, "'rescuedColumn' cannot be combined with 'recordTypes'"),
        (
            {**AVRO, "readerSchema": '"long"', "schemaIdIn": "none", "rescuedColumn": "r"},
            "'rescuedColumn' cannot be combined with 'schemaIdIn'=none",
        ),
        ({**AVRO, "rescuedColumn": "Value"}, "the source has a column 'Value' already"),
        ({**AVRO, "rescuedColumn": "badRecord", "badRecords": "column"}, "has a column 'badRecord' already"),
        ({**AVRO, "rescuedColumn": " "}, "'rescuedColumn'"),
        ({**AVRO, "rescuedColumn": "r", "packRecords": "true"}, "packed records"),
        ({**AVRO, "columns": "value,_rescued"}, "the source has no column '_rescued'"),
        ({**AVRO, "recordTypes": "a,,b"}, "names, each once, separated by commas"),
        ({**BASE, "valueFormat": "json", "recordTypes": "a"}, "needs 'valueFormat'=avro or protobuf, got 'json'"),
        (
            {**AVRO, "valueFormat": "string", "recordTypes": "a", "keyFormat": "avro"},
            "needs 'valueFormat'=avro or protobuf, got 'string'",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(given, words):
    with pytest.raises(OptionError, match=words):
        options.parse(given, "source")


@pytest.mark.parametrize("word", ["prefix", "header"])
def test_a_read_takes_the_place_that_a_write_gives_to_ids_and_finds_them_anywhere(word):
    assert options.parse({**AVRO, "schemaIdIn": word}, "source")["valueFormat"] == "avro"


WRITE = {"kafka.bootstrap.servers": "a:1", "valueFormat": "avro"}
URL = {"schemaRegistry.url": "http://r"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (WRITE, "needs 'schemaRegistry.url'"),
        ({**WRITE, "writerSchema": '"long"'}, "needs 'schemaRegistry.url'"),
        ({**WRITE, "schemaIdIn": "none"}, "needs 'schemaRegistry.url'"),
        (
            {**WRITE, "writerSchema": '"long"', "schemaIdIn": "none", "keyFormat": "avro"},
            "option 'keyFormat'=avro needs",
        ),
        ({**WRITE, **URL, "messageName": "Order"}, "needs 'valueFormat'=protobuf"),
        ({**WRITE, **URL, "valueFormat": "binary"}, "needs 'valueFormat' or 'keyFormat'"),
        ({**WRITE, **URL, "valueFormat": "binary", "schemaIdIn": "header"}, "needs 'valueFormat' or 'keyFormat'"),
        ({**WRITE, **URL, "valueFormat": "string", "writerSchema": "latest"}, "needs 'valueFormat'"),
        ({**WRITE, **URL, "keyWriterSchema": "latest"}, "needs 'keyFormat'"),
        ({**WRITE, **URL, "schemaIdIn": "front"}, "expected one of prefix, header, none"),
        ({**WRITE, **URL, "schemaIdIn": "fingerprint"}, "'schemaIdIn'=fingerprint is for reading"),
    ],
)
def test_what_makes_no_sense_for_a_write_is_refused(given, words):
    with pytest.raises(OptionError, match=words):
        options.parse(given, "sink")


@pytest.mark.parametrize(
    ("option", "value"), [("valueFormat", "avro"), ("schemaRegistry", "m:f"), ("schemaRegistry.url", "http://r")]
)
def test_one_of_several_clusters_has_no_format_and_no_registry_of_its_own(option, value):
    with pytest.raises(OptionError, match=f"'{option}' is for all clusters"):
        targets.parse({"clusters.a.kafka.bootstrap.servers": "a:1", f"clusters.a.{option}": value, "topic": "t"})
