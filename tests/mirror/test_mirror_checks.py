"""`pykafka mirror --check` and what `pykafka offsets translate` says; no broker is asked, no Spark started."""

import argparse
import json
from pathlib import Path

import pytest
from fake_broker import LOG_END, LOG_START, FakeKafka, serve

from kafkasource.mirror import toml_file
from kafkasource.mirror.files import LocalFiles, save
from kafkasource.mirror.offset_map import Translated
from kafkasource.mirror.plan import routes
from kafkasource.mirror.positions import MirrorReader, PositionRecord
from kafkasource.sink.clusters.offset_spans import Mapped, OffsetSpan
from kafkasource.tools.cli import main, mirror_flows, translate
from kafkasource.types import TopicPartition

EXAMPLE = Path(__file__).parent.parent.parent / "examples/mirror.toml"
ORDERS = TopicPartition("orders", 0)


def test_a_check_tells_each_flow_and_how_cycles_end(capsys):
    assert main(["mirror", str(EXAMPLE), "--check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [["east", "west"], ["east", "archive"], ["west", "east"]]
    assert lines[1].endswith("by name")
    assert lines[-1] == "2 queries, checkpoints below /checkpoints/mirror"


@pytest.mark.parametrize(
    ("topic", "recognized"),
    [("${topic}", "by header"), ("${source}.${topic}", "by name"), ("copied-${topic}", "by header")],
)
def test_a_check_says_how_a_flow_one_way_recognizes_the_records_that_it_leaves_out(tmp_path, capsys, topic, recognized):
    """docs/mirror-topics.md: a flow that keeps names leaves out records that have been at its target, also one way."""
    file = tmp_path / "mirror.toml"
    file.write_text(
        'checkpoint = "/here"\n'
        'clusters.A."kafka.bootstrap.servers" = "a:1"\n'
        'clusters.B."kafka.bootstrap.servers" = "b:1"\n'
        f'[[flows]]\nfrom = "A"\nto = "B"\ntopics = "orders"\ntopic = "{topic}"\n'
    )
    assert main(["mirror", str(file), "--check"]) == 0
    flow = capsys.readouterr().out.splitlines()[1]
    assert flow.partition("${topic}")[2].strip() == recognized


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
        (Translated(ORDERS, 5, True, 7), "the mirror is 7 offsets behind"),
        (None, "before the map, which begins at 3"),
    ],
)
def test_what_is_to_be_known_of_a_translation_is_said(found, remark):
    known = {ORDERS: Mapped("orders", (OffsetSpan(3, 9, 0, 6, -3),))}
    assert translate._translation(ORDERS, found, known)[2] == remark
    assert translate._translation(TopicPartition("other", 0), None, known) == (None, None, "not mirrored")


def test_setting_offsets_needs_a_group(capsys):
    assert main(["offsets", "translate", "-b", "h:1", "--source", "A", "-o", "orders:0:1", "--yes"]) == 1
    assert "--yes needs --group" in capsys.readouterr().err
    assert main(["offsets", "translate", "-b", "h:1", "--source", "A", "--group", "g"]) == 1
    assert "--source-servers" in capsys.readouterr().err


# Where the flows are.

ALL = 2 * (LOG_END - LOG_START)
FLOWS = """
checkpoint = "{checkpoint}"
[clusters.east]
kafka.bootstrap.servers = "{east}"
[clusters.west]
kafka.bootstrap.servers = "{west}"
[clusters.archive]
kafka.bootstrap.servers = "{west}"
[[flows]]
from = "east"
to = {to}
topics = ["orders", "users"]
"""


@pytest.fixture
def status(tmp_path, capsys):
    """Returns what --status says of a mirror to these targets, in which `orders` is 6 offsets behind at west."""
    east = FakeKafka(topics={"orders": 1, "users": 1}, cluster_id="E")
    with serve(east) as here, serve(FakeKafka(cluster_id="W")) as there:
        servers = {"east": "{}:{}".format(*here), "west": "{}:{}".format(*there)}

        def ask(to, *arguments, run=True, **other):
            file = tmp_path / "mirror.toml"
            file.write_text(FLOWS.format(to=json.dumps(to), **{"checkpoint": tmp_path / "ck", **servers, **other}))
            if run:
                text = FLOWS.format(to='"west"', checkpoint=tmp_path / "ck", **servers)
                (route,) = routes(toml_file.parse(text, "x"), {"east": "E", "west": "W"})
                start = {ORDERS: LOG_END - 6, TopicPartition("users", 0): LOG_END}
                ids = {"east": "E", "west": "W"}
                record = PositionRecord(
                    1, "east", ids, route.rules, (MirrorReader("1", route.rules.flows, start),), {}, {}
                )
                save(LocalFiles(str(tmp_path / "ck")), record)
            code = main(["mirror", str(file), *(arguments or ("--status",))])
            told = capsys.readouterr()
            return code, [" ".join(line.split()) for line in told.out.splitlines()], told.err

        yield ask


def test_the_status_says_what_a_start_would_copy(status):
    _, lines, _ = status(["west", "archive"])
    assert lines == [
        "FROM TO THERE A START TOPICS BEHIND",
        "east west ${topic} goes on 2 6",
        f"east archive ${{topic}} copies the history in 2 topics 2 {ALL}",
    ]
    _, lines, _ = status(["archive"])
    assert "east west ${topic} nothing: not in the file - -" in lines


def test_a_mirror_that_has_not_run_begins(status):
    _, lines, _ = status(["west"], run=False)
    assert lines[1] == f"east west ${{topic}} begins 2 {ALL}"


def test_the_check_says_it_too_when_there_are_positions(status):
    _, lines, _ = status(["west"], "--check", run=False)
    assert lines[-1].startswith("1 query, checkpoints below ")
    _, lines, _ = status(["west"], "--check")
    assert lines[-1] == "east west ${topic} goes on 2 6"


def test_a_source_that_is_away_is_named_and_the_rest_is_said(status, monkeypatch):
    monkeypatch.setattr(mirror_flows, "ASKED_MS", 300)
    _, lines, _ = status(["west", "archive"], east="127.0.0.1:1")
    assert lines[1:3] == ["east west ${topic} goes on - -", "east archive ${topic} begins - -"]
    assert lines[3].startswith("east does not answer: ")
    assert "127.0.0.1:1" in lines[3]


def test_a_start_that_would_be_refused_is_refused_here(status, tmp_path):
    with serve(FakeKafka(cluster_id="another")) as there:
        code, _, said = status(["west"], west="{}:{}".format(*there))
    assert code == 1
    assert "cluster 'west' has the id another now, and had the id W" in said
