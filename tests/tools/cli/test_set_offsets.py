"""`pykafka offsets set`: which partitions it moves, on brokers in this process."""

import json

import fake_broker
import pytest
from fake_broker import FakeKafka, serving

from kafkasource.tools.cli import main


@pytest.fixture
def kafka():
    with serving(FakeKafka(topics={"orders": 3, "other": 1})) as kafka:
        yield kafka


@pytest.fixture
def set_offsets(kafka, capsys):
    """`set_offsets(*words)`: exit code, the offsets that the group has then, standard error."""

    def run(*words):
        code = main(["offsets", "set", "-g", "g", *words, "--yes", "-b", kafka.bootstrap_servers])
        moved = {(topic, partition): at for (_, topic, partition), at in kafka.committed.items()}
        return code, moved, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("words", "partitions"),
    [
        ("-t orders:0 -t orders:1", {0, 1}),
        ("-t orders:0,1 -t orders:1,2", {0, 1, 2}),
        ("-t orders -t orders:1", {0, 1, 2}),
        ("-t orders:1 -t orders", {0, 1, 2}),
    ],
)
def test_a_topic_that_is_named_twice_is_meant_both_times(set_offsets, words, partitions):
    code, moved, _ = set_offsets("--to", "earliest", *words.split())
    assert (code, moved) == (0, {("orders", partition): 0 for partition in partitions})


@pytest.mark.parametrize("sure", [["--yes"], []])
@pytest.mark.parametrize(
    ("to", "said", "is_set"),
    [
        ("9000", "offset 9000 is beyond the log's end, which {} set instead: other-0", 100),
        ("7", "offset 7 is before the log's start, which {} set instead: other-0", 50),
        ("100", "", 100),
        ("-1000", "", 50),
        ("earliest", "", 50),
    ],
)
def test_an_offset_that_the_log_does_not_hold_is_moved_with_a_warning(
    kafka, capsys, monkeypatch, to, said, is_set, sure
):
    monkeypatch.setattr(fake_broker, "LOG_START", 50)
    assert fake_broker.LOG_END == 100
    code = main(
        ["offsets", "set", "-g", "g", "--to", to, "-t", "other", "--json", *sure, "-b", kafka.bootstrap_servers]
    )
    printed = capsys.readouterr()
    assert (code, json.loads(printed.out)["offsets"]) == (0, {"other": {"0": is_set}})
    assert kafka.committed == ({("g", "other", 0): is_set} if sure else {})
    assert printed.err == (f"pykafka: {said.format('is' if sure else 'would be')}\n" if said else "")


@pytest.mark.parametrize(
    ("words", "missing"),
    [("-t other", "other"), ("-t orders:0,1 -t orders:2", "orders-1, orders-2"), ("-t orders -t other:0", "other-0")],
)
def test_what_the_checkpoint_does_not_have_is_named_and_nothing_is_set(set_offsets, checkpoint, words, missing):
    checkpoint(0, json.dumps({"orders": {"0": 0}}))
    code, moved, err = set_offsets("--to-checkpoint", checkpoint.location, *words.split())
    assert (code, moved, err.count("\n")) == (1, {}, 1)
    assert f"has no offset of {missing}. Nothing was changed" in err


@pytest.mark.parametrize("words", ["-t orders:2 -t orders:0", "-t orders"])  # the topic has grown by partition 1 since
def test_what_the_checkpoint_has_of_the_named_topics_is_set(set_offsets, checkpoint, words):
    checkpoint(0, json.dumps({"orders": {"0": 0, "2": 0}, "other": {"0": 0}}))
    code, moved, _ = set_offsets("--to-checkpoint", checkpoint.location, *words.split())
    assert (code, moved) == (0, {("orders", 0): 0, ("orders", 2): 0})


def test_a_partition_without_a_leader_is_not_said_to_be_gone(set_offsets, kafka, checkpoint):
    kafka.topics["orders"].leaders[1] = -1
    checkpoint(0, json.dumps({"orders": {"0": 5, "1": 5}}))
    code, moved, err = set_offsets("--to-checkpoint", checkpoint.location)
    assert (code, moved, err.count("\n")) == (1, {}, 1)
    assert "at offset 5 of orders-1, which has no leader now" in err
