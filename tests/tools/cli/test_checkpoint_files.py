"""Spark's checkpoint, from its files. The texts are what Spark 4.2 wrote."""

import json
from types import SimpleNamespace

import pytest
from pyarrow import fs

from kafkasource.errors import KafkaSourceError
from kafkasource.source.plan.checkpoint import read_checkpoint
from kafkasource.tools.cli import main
from kafkasource.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_the_last_batch_that_is_done_is_where_the_query_stands(checkpoint):
    for number, offset in ((8, 80), (9, 90), (10, 100)):
        checkpoint(number, json.dumps({"t": {"0": offset, "1": 1}}), done=number < 10)
    stored = read_checkpoint(checkpoint.location)
    assert (stored.done_batch, stored.done.offsets) == (9, {T0: 90, T1: 1})
    assert (stored.planned_batch, stored.planned.offsets) == (10, {T0: 100, T1: 1})


def test_our_own_entry_beside_the_topics_is_no_topic(checkpoint):
    checkpoint(0, '{"t":{"0":23},"@1;t/2b1yVQz0RZmGV9kUS9nT6A/0=5":{}}')
    stored = read_checkpoint("file:" + checkpoint.location + "/")
    assert stored.done.offsets == {T0: 23}
    assert "t" in stored.done.topic_ids
    assert stored.planned_batch is None


def test_other_sources_of_the_query_are_passed_over_and_two_of_kafka_taken_together(checkpoint):
    checkpoint(0, '{"logOffset":5}', '{"t":{"0":23}}', "-", '{"t":{"0":20,"1":4}}')
    assert read_checkpoint(checkpoint.location).done.offsets == {T0: 20, T1: 4}


def test_a_newer_log_that_names_its_sources_is_read_too(checkpoint):
    checkpoint(0, 'orders:{"t":{"0":23}}', 'files:{"logOffset":5}', "later:-", version="v2")
    assert read_checkpoint(checkpoint.location).done.offsets == {T0: 23}


def test_a_query_that_has_only_planned_says_so(checkpoint, capsys):
    checkpoint(0, '{"t":{"0":23}}', done=False)
    assert main(["offsets", "show", "--checkpoint", checkpoint.location]) == 0
    out = capsys.readouterr().out
    assert "no micro-batch is done; 0 is planned, or under way" in out
    assert out.splitlines()[-1].split() == ["t", "0", "-", "23"]


def test_offsets_as_json_are_what_startingOffsets_takes(checkpoint, capsys):
    checkpoint(3, '{"t":{"1":7,"0":23}}')
    assert main(["offsets", "show", "--checkpoint", checkpoint.location, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["offsets"] == {"t": {"0": 23, "1": 7}}


@pytest.mark.parametrize("location", ["/nonexistent/checkpoint", "nosuchscheme://x/y"])
def test_where_no_checkpoint_is_the_error_is_one_line(location, capsys):
    assert main(["offsets", "show", "--checkpoint", location]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("secret", ["wJalrXUtnFEMI", "wJalr/XUtn+FEMI"])
def test_no_error_shows_the_secret_in_a_location(secret, capsys):
    assert main(["offsets", "show", "--checkpoint", f"nosuchscheme://KEY:{secret}@bucket/orders"]) == 1
    said = capsys.readouterr().err
    assert "nosuchscheme://KEY:[hidden]@bucket/orders cannot be read" in said
    assert "wJalr" not in said


def test_no_report_shows_the_secret_in_a_location(checkpoint, monkeypatch):
    checkpoint(0, '{"t":{"0":23}}')
    store = fs.LocalFileSystem(), checkpoint.location
    monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=lambda _: store))
    stored = read_checkpoint("s3://KEY:wJalrXUtnFEMI@bucket/orders")
    assert (stored.shown_location, stored.done.offsets) == ("s3://KEY:[hidden]@bucket/orders", {T0: 23})


def test_an_empty_file_is_no_offset(checkpoint, tmp_path):
    checkpoint(0, '{"t":{"0":23}}')
    (tmp_path / "offsets" / "1").write_text("")
    assert read_checkpoint(checkpoint.location).planned.offsets == {}


def test_a_query_without_kafka_is_told_so(checkpoint):
    checkpoint(0, '{"logOffset":5}')
    with pytest.raises(KafkaSourceError, match="does not read from Kafka"):
        read_checkpoint(checkpoint.location)


def test_a_folder_of_several_checkpoints_is_answered_with_their_names(tmp_path):
    for name in ("east", "west"):
        (tmp_path / name / "offsets").mkdir(parents=True)
        (tmp_path / name / "offsets" / "0").write_text("v1\n{}\n{}")
    (tmp_path / "else").mkdir()
    with pytest.raises(KafkaSourceError, match=f"name one of {tmp_path}/east, {tmp_path}/west"):
        read_checkpoint(str(tmp_path))
