"""`pykafka mirror --check` and what `pykafka offsets translate` says; no broker is asked, no Spark started."""

import argparse
import json
from pathlib import Path

import pytest

from kafkasource.cli import main, translate
from kafkasource.offset_map import Translated
from kafkasource.sink.clusters.offset_spans import Mapped, OffsetSpan
from kafkasource.types import TopicPartition

EXAMPLE = Path(__file__).parent.parent.parent / "examples/mirror.toml"
ORDERS = TopicPartition("orders", 0)


def test_a_check_tells_each_flow_and_how_cycles_end(capsys):
    assert main(["mirror", str(EXAMPLE), "--check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [["east", "west"], ["east", "archive"], ["west", "east"]]
    assert lines[1].endswith("by name")
    assert lines[-1] == "2 queries, checkpoints below /checkpoints/mirror"


def test_a_check_in_json_is_what_spark_is_given(capsys):
    assert main(["mirror", str(EXAMPLE), "--check", "--json"]) == 0
    east, west = json.loads(capsys.readouterr().out)
    assert (east["query"], east["flows"]) == ("mirror-east", ["east->west", "east->archive"])
    assert east["write"]["clusters"].keys() == {"west", "archive"}
    assert west["read"]["kafka.bootstrap.servers"] == "west-1:9092"


def test_the_command_line_may_say_where_the_checkpoint_is(tmp_path, capsys):
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\nx = 1\n"
    )
    assert main(["mirror", str(file), "--check"]) == 1
    assert "needs a checkpoint" in capsys.readouterr().err
    assert main(["mirror", str(file), "--check", "--checkpoint", "/here"]) == 0
    told = capsys.readouterr()
    assert "mm2.properties: x: unknown, and ignored" in told.err
    assert "below /here" in told.out


def test_a_file_that_cannot_be_read_is_said_in_one_line(tmp_path, capsys):
    assert main(["mirror", str(tmp_path / "none.toml")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "none.toml: cannot be read" in line


@pytest.mark.parametrize("text", ["orders", "orders:0", "orders:x:1", ":0:1", "orders:0:-1"])
def test_a_place_that_is_none_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="TOPIC:PARTITION:OFFSET"):
        translate._place(text)


def test_a_place_is_topic_partition_and_offset():
    assert translate._place("orders:0:1500") == (ORDERS, 1500)


@pytest.mark.parametrize(
    ("found", "remark"),
    [
        (Translated(ORDERS, 5, True), "exact"),
        (Translated(ORDERS, 5, False), "some before it may be read twice"),
        (Translated(ORDERS, 5, True, 7), "the mirror is 7 offsets behind it"),
        (None, "before the map, which begins at 3"),
    ],
)
def test_what_is_to_be_known_of_a_translation_is_said(found, remark):
    known = {ORDERS: Mapped("orders", (OffsetSpan(3, 9, 0, 6, -3),))}
    assert translate._told(ORDERS, found, known)[2] == remark
    assert translate._told(TopicPartition("other", 0), None, known) == (None, None, "not mirrored")


def test_setting_offsets_needs_a_group(capsys):
    assert main(["offsets", "translate", "-b", "h:1", "--source", "A", "-o", "orders:0:1", "--yes"]) == 1
    assert "--yes needs --group" in capsys.readouterr().err
    assert main(["offsets", "translate", "-b", "h:1", "--source", "A", "--group", "g"]) == 1
    assert "--source-servers" in capsys.readouterr().err
