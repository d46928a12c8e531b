"""What `pykafka read` prints, byte by byte, and that `pykafka write` takes it back."""

import io
import json
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from kafkasource.cli import formats
from kafkasource.cli.write import from_json
from kafkasource.records.columns import ROW_SCHEMA_WITH_HEADERS

WHEN = datetime(2026, 11, 21, 22, 26, 40, 250_000, timezone.utc)
ROWS = [
    {"key": b"k", "value": b"v\xc3\xa9", "offset": 7, "headers": [{"key": "h", "value": b"1"}]},
    {"key": None, "value": b"\xff\x00", "offset": 8, "headers": [
        {"key": "h", "value": None}, {"key": "h", "value": b"\xfe"}]},
    {"key": b"", "value": None, "offset": 10, "headers": None},
]  # fmt: skip


def batch(rows=ROWS):
    constant = {"topic": "t", "partition": 3, "timestamp": WHEN, "timestampType": 0}
    return pa.RecordBatch.from_pylist([{**constant, **row} for row in rows], schema=ROW_SCHEMA_WITH_HEADERS)


def written(name, style=formats.Style(), rows=ROWS):  # noqa: B008
    stream = io.BytesIO()
    output = formats.BY_NAME[name].open(stream, style)
    output.write(batch(rows))
    output.close()
    return stream.getvalue()


def test_text_is_values_one_a_line_and_bytes_stay_what_they_are():
    assert written("text") == b"v\xc3\xa9\n\xff\x00\n\n"


def test_text_has_keys_and_marks_nulls_where_that_is_asked_for():
    style = formats.Style(b"\t", b"NULL")
    assert written("text", style) == b"k\tv\xc3\xa9\nNULL\t\xff\x00\n\tNULL\n"


def test_json_is_an_object_a_line_with_bytes_in_base64():
    first, second, third = map(json.loads, written("json").splitlines())
    assert first == {
        "topic": "t", "partition": 3, "offset": 7, "timestamp": "2026-11-21T22:26:40.250Z",
        "key": "k", "value": "vé", "headers": [{"key": "h", "value": "1"}],
    }  # fmt: skip
    assert second["value_base64"] == "/wA="
    assert "value" not in second
    assert second["headers"] == [{"key": "h", "value": None}, {"key": "h", "value_base64": "/g=="}]
    assert (third["key"], third["value"]) == ("", None)
    assert "headers" not in third


def test_what_was_printed_as_json_is_written_back_as_it_was():
    back = [from_json(json.loads(line)) for line in written("json").splitlines()]
    assert [(row["key"], row["value"]) for row in back] == [(row["key"], row["value"]) for row in ROWS]
    assert [row["headers"] for row in back] == [row["headers"] or [] for row in ROWS]
    assert {row["timestamp"] for row in back} == {WHEN}
    assert {row["partition"] for row in back} == {3}


def test_hex_shows_place_length_bytes_and_what_can_be_read():
    lines = written("hex", rows=[{**ROWS[0], "value": bytes(range(60, 78))}]).decode().splitlines()
    assert lines == [
        "t-3 offset 7  2026-11-21T22:26:40.250Z",
        "  key: 1 bytes",
        "    00000000  6b                                               k",
        "  value: 18 bytes",
        "    00000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK",
        "    00000010  4c 4d                                            LM",
        "  header 'h': 1 bytes",
        "    00000000  31                                               1",
    ]


def test_parquet_holds_every_column():
    table = parquet.read_table(io.BytesIO(written("parquet")))
    assert table.column_names == ROW_SCHEMA_WITH_HEADERS.names
    assert table.column("value").to_pylist() == [row["value"] for row in ROWS]
    assert table.column("offset").to_pylist() == [7, 8, 10]


def test_arrow_holds_the_rows_as_they_are():
    assert pa.ipc.open_file(io.BytesIO(written("arrow"))).read_all().equals(pa.Table.from_batches([batch()]))


def test_a_record_without_a_timestamp_shows_none():
    row = {**ROWS[0], "timestamp": datetime(1969, 12, 31, 23, 59, 59, 999_000, timezone.utc)}
    assert json.loads(written("json", rows=[row]))["timestamp"] is None


@pytest.mark.parametrize(
    ("file", "name"), [("a.parquet", "parquet"), ("A.JSONL", "json"), ("x.txt", "text"), ("x", None), ("x.csv", None)]
)
def test_a_files_name_says_its_format(file, name):
    found = formats.of_file(file)
    assert (found and found.name) == name
