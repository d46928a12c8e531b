"""`pykafka write` makes records of the lines of stdin."""

import argparse
import os
from types import SimpleNamespace

import pytest

from kafkasource.tools.admin.json_records import as_batch
from kafkasource.tools.cli import write
from kafkasource.tools.cli.write import _BadLine, _batch, _json_rows, _lines, _text_rows


def arguments(**given):
    default = {"key": None, "key_separator": None, "null": None, "header": [], "partition": None, "types": {}}
    known = SimpleNamespace(check_partition=lambda number: None)
    return argparse.Namespace(**{**default, "known": known, **given})


def rows(result):
    made, bad_line = result
    assert bad_line is None
    return [(row["key"], row["value"]) for row in made]


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    yield reader, lambda data: os.write(writer, data)
    os.close(reader)


def test_lines_come_as_soon_as_they_are_there(pipe):
    reader, send = pipe
    lines = _lines(reader)
    send(b"one\ntwo\nthr")
    assert next(lines) == (1, [b"one", b"two"])
    send(b"ee\r\n")
    assert next(lines) == (3, [b"three"])


def test_a_last_line_needs_no_end(tmp_path):
    (tmp_path / "in").write_bytes(b"a\n\nb")
    with open(tmp_path / "in", "rb") as file:
        assert list(_lines(file.fileno())) == [(1, [b"a", b""]), (3, [b"b"])]


def test_a_line_without_end_is_refused_before_it_fills_the_memory(pipe, monkeypatch):
    monkeypatch.setattr(write, "_MAX_LINE_BYTES", 3)
    reader, send = pipe
    send(b"ok\nlonger")
    lines = _lines(reader)
    assert next(lines) == (1, [b"ok"])
    with pytest.raises(_BadLine, match="line 2"):
        next(lines)


def test_text_is_value_or_key_and_value():
    assert rows(_text_rows([b"a=b", b""], 1, arguments())) == [(None, b"a=b"), (None, b"")]
    assert rows(_text_rows([b"a=b=c"], 1, arguments(key_separator="="))) == [(b"a", b"b=c")]
    assert rows(_text_rows([b"a\tNULL"], 1, arguments(key_separator="\\t", null="NULL"))) == [(b"a", None)]
    assert rows(_text_rows([b"x"], 1, arguments(key="k"))) == [(b"k", b"x")]


def test_a_line_without_its_key_is_named():
    made, bad_line = _text_rows([b"a=1", b"b", b"c=1"], 11, arguments(key_separator="="))
    assert str(bad_line) == "line 12 has no key separator '='"
    assert made == [{"key": b"a", "value": b"1"}]  # those before it are written


def test_headers_and_partition_of_the_command_go_with_every_record():
    given = arguments(header=[("a", "1"), ("b", "")], partition=2)
    batch = _batch(_text_rows([b"x"], 1, given)[0], given).to_pylist()
    assert batch[0]["headers"] == [{"key": "a", "value": b"1"}, {"key": "b", "value": b""}]
    assert batch[0]["partition"] == 2


def test_json_values_that_are_no_text_are_written_as_json():
    lines = [b'{"value": {"n": [1, null]}}', b'{"key": 7, "value": "text"}', b"", b'{"value": null, "key": "gone"}']
    assert rows(_json_rows(lines, 1, arguments())) == [
        (None, b'{"n":[1,null]}'),
        (b"7", b"text"),
        (b"gone", None),
    ]


def test_json_headers_may_be_an_object_and_times_a_number():
    given = arguments(header=[("b", "2")], partition=9)
    line = b'{"value": "v", "headers": {"a": "1"}, "timestamp": 1795300000250, "partition": 1}'
    (row,) = _batch(_json_rows([line], 1, given)[0], given).to_pylist()
    assert row["headers"] == [{"key": "a", "value": b"1"}, {"key": "b", "value": b"2"}]
    assert as_batch([row]).column("timestamp")[0].as_py().isoformat() == "2026-11-21T22:26:40.250000+00:00"
    assert row["partition"] == 1


# The form of kcat 1.8: `headers` only where there are some, `tstype` and `ts` only where there is a time. yajl
# escapes ", \\ and the bytes below 0x20. It leaves all other bytes as they are.
OF_KCAT = (
    rb'{"topic":"t","partition":3,"offset":7,"tstype":"create","ts":1795300000250,"broker":1,'
    rb'"headers":["a","1","a",null,"b",""],"key":"k","payload":"x\n\"\u0001/\\"}'
)


def test_lines_of_kcat_become_the_records_that_they_were():
    given = arguments()
    lines = [
        OF_KCAT,
        b'{"topic":"t","partition":0,"offset":8,"broker":1,"key":null,"payload":null}',
        b'{"topic":"t","partition":0,"offset":9,"tstype":"logappend","ts":5,"broker":-1,"key":"","payload":""}',
        b'{"topic":"t","partition":0,"offset":9,"tstype":"unknown","ts":0,"broker":-1,"key":"","payload":"7"}',
    ]
    kcat_rows, bad_line = _json_rows(lines, 1, given)
    assert bad_line is None
    made = _batch(kcat_rows, given).to_pylist()
    assert [(row["key"], row["value"]) for row in made] == [
        (b"k", b'x\n"\x01/\\'),
        (None, None),
        (b"", b""),
        (b"", b"7"),
    ]
    assert [row["partition"] for row in made] == [3, 0, 0, 0]  # topic, offset and broker count for nothing
    assert [timestamp and timestamp.timestamp() for timestamp in (row["timestamp"] for row in made)] == [
        1795300000.25,
        None,
        0.005,
        None,
    ]
    assert made[0]["headers"] == [
        {"key": "a", "value": b"1"},
        {"key": "a", "value": None},
        {"key": "b", "value": b""},
    ]


@pytest.mark.parametrize("data", [b"\xff\x00", bytes(range(0x80, 0x100)), "é".encode() + b"\xed\xa0\x80", b"\xc0\x80"])
def test_bytes_of_kcats_lines_that_are_no_utf_8_stay_as_they_are(data):
    printed = b"".join(b"\\u%04x" % byte if byte < 0x20 else bytes([byte]) for byte in data)
    line = b'{"partition":0,"headers":["h","%b"],"key":"%b","payload":"%b"}' % (printed, printed, printed)
    ((row,), bad_line) = _json_rows([line], 1, arguments())
    assert bad_line is None
    assert (row["key"], row["value"], row["headers"][0]["value"]) == (data, data, data)


@pytest.mark.parametrize("which", ["key", "payload"])
def test_a_record_that_kcat_could_not_decode_is_refused_as_its_bytes_are_not_there(which):
    line = b'{"partition":0,"key":null,"payload":null,"%b_error":"no such schema"}' % which.encode()
    _, bad_line = _json_rows([line], 1, arguments())
    assert "no such schema" in str(bad_line)
    assert "without -s" in str(bad_line)


@pytest.mark.parametrize(
    "line",
    [
        b"{", b"7", b"[]", b"{}", b'{"key": "k"}', b'{"value_base64": "!"}', b'{"value_base64": 7}',
        b'{"value": 1, "partition": "x"}',
        b'{"payload": "a", "value": "b"}', b'{"payload": "v", "ts": "soon", "tstype": "create"}',
        b'{"payload": "v", "headers": ["\xff", "v"]}', b'{"value": "\xff"}', b'{"payload": "\\ud800"}',
        b'{"value": "v", "headers": 7}', b'{"value": "v", "headers": [{"value": "no key"}]}',
        b'{"value": "v", "timestamp": "soon"}', b'{"value": "v", "timestamp": "latest"}', b"\xff", b"[" * 100_000,
        b'{"value": "v", "timestamp": 9223372036854776}', b'{"value": "v", "timestamp": 1e300}',
    ],
)  # fmt: skip
def test_json_that_is_no_record_is_refused_by_its_line(line):
    made, bad_line = _json_rows([b'{"value": 1}', line, b'{"value": 2}'], 4, arguments())
    assert str(bad_line).startswith("line 5 is not a record in JSON: ")
    assert [row["value"] for row in made] == [b"1"]
