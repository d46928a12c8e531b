"""`pykafka read` prints these bytes, and `pykafka write` takes them back."""

import argparse
import io
import json
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from kafkasource.kafka.records.arrow.columns import ROW_SCHEMA_WITH_HEADERS
from kafkasource.tools.admin.json_records import as_batch, from_json
from kafkasource.tools.cli import formats, main
from kafkasource.tools.cli.template import Template, format_of

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
    output = formats.BY_NAME[name].open(stream, style, ROW_SCHEMA_WITH_HEADERS)
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
    assert as_batch(back).column("timestamp").to_pylist() == [WHEN] * len(ROWS)
    assert {row["partition"] for row in back} == {3}


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (10_413_792_000_001, "2300-01-01T00:00:00.001Z"),  # a float of seconds is half a microsecond less
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, 253_402_300_800_000),
        (1_795_300_000_000_000, 1_795_300_000_000_000),  # from a producer that takes microseconds
        (9_223_372_036_854_775, 9_223_372_036_854_775),
    ],
)
def test_a_far_time_is_printed_as_it_is_and_written_back_as_it_was(ms, shown):
    at = pa.scalar(ms * 1000, pa.timestamp("us", "UTC"))
    row = json.loads(written("json", rows=[{**ROWS[0], "timestamp": at}]))
    assert row["timestamp"] == shown
    (column,) = as_batch([from_json(row)]).select(["timestamp"]).columns
    assert column.cast(pa.int64()).to_pylist() == [ms * 1000]


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
    form = formats.of_file(file)
    assert (form and form.name) == name


def printed(text, style=formats.Style()):  # noqa: B008
    stream = io.BytesIO()
    output = format_of(Template(text)).open(stream, style, ROW_SCHEMA_WITH_HEADERS)
    output.write(batch())
    output.close()
    return stream.getvalue()


@pytest.mark.parametrize(
    ("text", "expected"),
    [  # as kcat 1.7's format.c prints them
        (r"%t %p %o %k %s %h\n", b"t 3 7 k v\xc3\xa9 h=1\nt 3 8  \xff\x00 h=NULL,h=\xfe\nt 3 10   \n"),
        (r"%K:%S,", b"1:3,-1:2,0:-1,"),
        ("%R", b"\x00\x00\x00\x03\x00\x00\x00\x02\xff\xff\xff\xff"),
        ("%T;", b"1795300000250;" * 3),
        (r"100%%\x1f\t\033\\", b"100%\x1f\t\x1b\\" * 3),
    ],
)
def test_a_format_string_prints_what_kcat_prints(text, expected):
    assert printed(text) == expected


def test_a_letter_of_rpk_is_refused_with_kcats():
    with pytest.raises(argparse.ArgumentTypeError, match="kcat's letter for it is %s"):
        Template("%v")


def test_the_letters_are_listed_as_they_are_to_be_typed(capsys):
    with pytest.raises(SystemExit):
        main(["read", "t", "-f", "%z"])
    assert "-f: %z means nothing here; %s value, %k key, " in capsys.readouterr().err


EVIL: list[dict[str, Any]] = [
    {"key": b"\x9b1m", "value": "\x1b]0;title\x07 \x9b2J \u202eé\t".encode(), "offset": 7, "headers": None}
]


def test_control_bytes_are_shown_on_a_terminal_and_nowhere_else():
    on_terminal, plain = formats.Style(b"=", terminal=True), formats.Style(b"=")
    assert written("text", on_terminal, EVIL) == rb"\x9b1m=\x1b]0;title\x07 \u009b2J \u202e" + "é\t\n".encode()
    assert written("text", plain, EVIL) == b"=".join([EVIL[0]["key"], EVIL[0]["value"]]) + b"\n"
    as_json = written("json", on_terminal, EVIL)
    assert not [byte for byte in as_json.decode().rstrip("\n") if not byte.isprintable()]
    assert json.loads(as_json) == json.loads(written("json", rows=EVIL))
    assert b"\x1b" not in written("hex", on_terminal, EVIL)


@pytest.mark.parametrize(
    "headers", [[{"key": "a", "value": "1"}, {"key": "b", "value": None}], {"a": "1", "b": None}, ["a", "1", "b", None]]
)
def test_headers_are_taken_in_the_shape_of_each_client(headers):
    expected = [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    assert from_json({"value": "v", "headers": headers})["headers"] == expected


@pytest.mark.parametrize("headers", [["a"], "a=1", [["a", "1"]], [{"name": "a"}], [{"key": 1, "value": "1"}]])
def test_headers_in_another_shape_are_refused_with_the_shapes_that_are_taken(headers):
    with pytest.raises(ValueError, match=r'headers are \[\{"key": "name", "value": "text"\}\]'):
        from_json({"value": "v", "headers": headers})


def test_json_has_the_column_of_rescued_fields_under_its_own_name():
    texts = ['{"city":"Ulm"}', None, None]
    stream = io.BytesIO()
    formats.BY_NAME["json"].open(stream, formats.Style(), ROW_SCHEMA_WITH_HEADERS).write(
        batch().append_column("_rescued", pa.array(texts, pa.string()))
    )
    rows = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [row.get("_rescued") for row in rows] == texts
