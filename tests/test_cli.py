"""The command line's manners: exit codes, one-line errors. What it does with a broker is in tests/testing/broker."""

import io
import json
import logging
import os
import signal
import subprocess
import sys
import warnings
from typing import Any

import pytest
from fake_broker import FakeKafka, serve
from fake_transactions import FakeTransaction

from kafkasource.errors import DeadlineExceeded
from kafkasource.exactly_once.decision import Decision
from kafkasource.exactly_once.names import WrittenTransaction
from kafkasource.testing.broker import detached
from kafkasource.tools import cli
from kafkasource.tools.cli import main
from kafkasource.tools.cli.doctor.finding import WARNING, Finding


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKASOURCE_CACHE", str(tmp_path))
    return tmp_path


def test_an_expected_error_is_one_line_and_exit_code_1(monkeypatch, capsys):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "kafka:9092")
    assert main(["broker", "start"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("pykafka: KAFKA_BOOTSTRAP_SERVERS=kafka:9092")
    assert said.count("\n") == 1


def test_what_others_named_does_not_reach_the_terminal_as_control_characters(monkeypatch, capsys):
    def fails():
        logging.getLogger("kafkasource.client").warning("group '\x1b]0;warned\x07' is empty")
        raise DeadlineExceeded("group '\x1b[31mé\x9b' has no coordinator")

    monkeypatch.setattr(detached, "stop", fails)
    assert main(["broker", "stop"]) == 1
    assert capsys.readouterr().err == (
        "pykafka: group '\\x1b]0;warned\\x07' is empty\npykafka: group '\\x1b[31mé\\u009b' has no coordinator\n"
    )


@pytest.mark.parametrize("stream", ["out", "err"])
def test_whatever_a_command_prints_is_escaped(stream, monkeypatch, capsys):
    def shows():
        print("rack \x1b]0;owned\x07\u202e", file=getattr(sys, f"std{stream}"))

    before = sys.stdout, sys.stderr
    monkeypatch.setattr(detached, "stop", shows)
    assert main(["broker", "stop"]) == 0
    assert (sys.stdout, sys.stderr) == before
    assert getattr(capsys.readouterr(), stream).splitlines()[0] == r"rack \x1b]0;owned\x07\u202e"


def test_what_the_terminals_encoding_does_not_have_is_escaped(monkeypatch):
    found = Finding(WARNING, "größe", "10 €", "say less")
    monkeypatch.setattr("kafkasource.tools.cli.doctor.machine_findings", lambda job: [found])
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="latin-1"))
    assert main(["doctor"]) == 0
    first, second, *_ = out.getvalue().splitlines()
    assert first.split() == [b"warning", "größe".encode("latin-1"), b"10", b"\\u20ac"]
    assert second.split() == [b"\\u2192", b"say", b"less"]


def test_a_reader_that_has_enough_ends_a_command_as_it_ends_cat():
    reading, writing = os.pipe()
    os.close(reading)
    commands = [["cat", __file__], [sys.executable, "-m", "kafkasource", "completion", "bash"]]
    cats, ours = (subprocess.run(each, stdout=writing).returncode for each in commands)
    os.close(writing)
    assert (cats, ours) == (-signal.SIGPIPE, 128 + signal.SIGPIPE)  # a shell shows both as 141
    assert ours == cli.PIPE_CLOSED


def test_ctrl_c_ends_with_130(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(detached, "stop", interrupted)
    assert main(["broker", "stop"]) == cli.INTERRUPTED == 130
    assert capsys.readouterr().err == "pykafka: interrupted\n"


@pytest.mark.parametrize("module", ["pyspark.sql.pandas.conversion", "pandas", "kafkasource.testing.demo"])
def test_what_pyspark_and_pandas_will_change_is_not_told_to_who_types_a_command(module, monkeypatch, capsys):
    def warns():
        warnings.warn_explicit("it will change", FutureWarning, "file.py", 1, module)

    monkeypatch.setattr(detached, "stop", warns)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(["broker", "stop"]) == 0
    assert capsys.readouterr().err == ("pykafka: it will change\n" if module.startswith("kafkasource") else "")


def test_a_malformed_property_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["broker", "start", "--property", "num.partitions"])
    assert caught.value.code == 2
    assert "NAME=VALUE" in capsys.readouterr().err


def test_a_pid_of_somebody_else_is_never_signalled(cache, capsys):
    state = {"bootstrap_servers": "127.0.0.1:1", "version": "4.3.1", "pids": [os.getpid()], "keeps_data": True}
    (cache / "broker.json").write_text(json.dumps({**state, "folder": str(cache / "data")}))
    assert main(["broker", "status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["running"] is False
    assert main(["broker", "stop"]) == 0  # and we are still here
    assert not (cache / "broker.json").exists()


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (["--security", "ssl"], "--security"),
        (["--port", "9192"], "--port"),
        (["--kafka-version", "3.9.2", "--nodes", "3"], "--kafka-version and --nodes"),
        (["--data", "elsewhere"], "--data"),
        ([], None),
        (["--kafka-version", "4.3.1", "--nodes", "1", "--port", "1"], None),
    ],
)
def test_a_broker_that_runs_is_not_taken_for_another_one_that_is_asked_for(cache, monkeypatch, capsys, asked, named):
    state = {"bootstrap_servers": "127.0.0.1:1", "version": "4.3.1", "pids": [os.getpid()], "keeps_data": True}
    (cache / "broker.json").write_text(json.dumps({**state, "folder": str(cache / "data")}))
    monkeypatch.setattr(detached, "is_ours", lambda pid, folder: True)
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    assert main(["broker", "start", *asked]) == (0 if named is None else 1)
    out, err = capsys.readouterr()
    assert out == ("127.0.0.1:1\n" if named is None else "")
    assert named is None or f"already running at 127.0.0.1:1, not as {named} asks for" in err


def test_a_state_file_of_nonsense_counts_as_none(cache, capsys):
    (cache / "broker.json").write_text('{"pids": 7}')
    assert main(["broker", "status"]) == 1
    assert "no broker is running" in capsys.readouterr().out


def test_before_topics_are_deleted_it_is_said_how_much_is_in_them_and_what_nobody_knows(capsys, monkeypatch):
    kafka: Any = FakeKafka(topics={"t": 3})
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with serve(kafka) as (host, port):
        assert main(["topics", "delete", "t", "-b", f"{host}:{port}"]) == 1
        assert "delete t with 300 offsets of records?" in capsys.readouterr().err
        kafka.topics["t"].leaders[1] = -1
        assert main(["topics", "delete", "t", "-b", f"{host}:{port}"]) == 1
    said = "delete t with 200 offsets of records, and those of 1 partition whose offsets are not known?"
    assert said in capsys.readouterr().err


def test_python_dash_m_is_the_same_command(tmp_path):
    done = subprocess.run([sys.executable, "-m", "kafkasource", "--version"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("pykafka ")


@pytest.fixture
def kafka():
    """Brokers in this process: the query `orders` has decided batch 7, whose task 1 was not ended; task 2 is newer."""
    kafka: Any = FakeKafka(topics={"t": 2})
    kafka.transactions = {
        "orders-driver": FakeTransaction(1000, epoch=5, state="CompleteCommit"),
        "orders-0": FakeTransaction(1001, epoch=3, state="CompleteCommit"),
        "orders-1": FakeTransaction(1002, epoch=4, state="Ongoing", partitions={("t", 0), ("t", 1)}),
        "orders-2": FakeTransaction(1003, epoch=9, state="Ongoing", partitions={("t", 1)}),
        "orders-eu-1": FakeTransaction(1004, epoch=2, state="Ongoing", partitions={("t", 1)}),  # another query's
    }
    transactions = (
        WrittenTransaction(0, 1001, 3, 10, 1),
        WrittenTransaction(1, 1002, 4, 10, 2),
        WrittenTransaction(2, 1003, 8, 10, 3),
    )
    (text,) = Decision(1, "query", 7, 2, transactions).parts()
    kafka.committed["orders-marker", "t", 0] = 7
    kafka.committed_metadata["orders-marker", "t", 0] = text
    with serve(kafka) as (host, port):
        kafka.bootstrap_servers = f"{host}:{port}"
        yield kafka


def transactions(kafka, *words):
    return main(["transactions", *words, "--bootstrap-servers", kafka.bootstrap_servers])


def states(kafka):
    return {name: transaction.state for name, transaction in kafka.transactions.items()}


def test_open_transactions_are_listed_with_what_is_decided_of_them(kafka, capsys):
    before = states(kafka)
    assert transactions(kafka, "list", "--prefix", "orders") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("orders-1: Ongoing")
    assert first.endswith("producer 1002 epoch 4, in t-0, t-1; batch 7 is decided with it")
    assert second.startswith("orders-2: Ongoing")
    assert second.endswith("producer 1003 epoch 9, in t-1")
    assert states(kafka) == before


def test_open_transactions_are_json_for_a_script(kafka, capsys):
    assert transactions(kafka, "list", "--prefix", "orders", "--json") == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["transactional_id"], first["decided_batch_id"]) == ("orders-1", 7)
    assert (second["transactional_id"], second["decided_batch_id"]) == ("orders-2", None)
    assert second["partitions"] == ["t-1"]


def test_abort_leaves_what_is_decided_and_what_is_another_querys(kafka, capsys):
    assert transactions(kafka, "abort", "--prefix", "orders") == 1
    out, err = capsys.readouterr()
    assert [line.split(":")[0] for line in out.splitlines()] == ["aborted orders-2", "left alone orders-1"]
    assert "start the query again" in err
    after = states(kafka)
    assert (after["orders-1"], after["orders-eu-1"]) == ("Ongoing", "Ongoing")
    assert after["orders-2"] != "Ongoing"
    assert kafka.transactions["orders-driver"].epoch == 6  # a query that still runs can decide nothing more


def test_what_is_decided_is_aborted_only_by_name(kafka, capsys):
    assert transactions(kafka, "abort", "--prefix", "orders", "--even-decided") == 0
    assert states(kafka)["orders-1"] != "Ongoing"
    assert transactions(kafka, "list", "--prefix", "orders") == 0
    assert "no transaction of 'orders' is open" in capsys.readouterr().out


def test_a_prefix_mistyped_makes_no_transactional_id(kafka, capsys):
    before = set(kafka.transactions)
    assert transactions(kafka, "abort", "--prefix", "ordres") == 0
    assert capsys.readouterr().out == "no transaction of 'ordres' was open\n"
    assert set(kafka.transactions) == before


@pytest.mark.parametrize("spelled", ["{0}", "{0}/", "file:{0}", "file://{0}"])
def test_a_checkpoint_stands_for_its_query_however_it_is_spelled(kafka, capsys, tmp_path, spelled):
    (tmp_path / "metadata").write_text('{"id":"1-2"}')
    kafka.transactions["kafkasource-1-2-3"] = FakeTransaction(1005, state="Ongoing")
    kafka.transactions["kafkasource-1-2-east-driver"] = FakeTransaction(1006, state="CompleteCommit")
    kafka.transactions["kafkasource-1-2-east-0"] = FakeTransaction(1007, state="Ongoing")
    assert transactions(kafka, "list", "--checkpoint", spelled.format(tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["kafkasource-1-2-3", "kafkasource-1-2-east-0"]
    assert transactions(kafka, "abort", "--checkpoint", spelled.format(tmp_path), "--cluster", "east") == 0
    assert capsys.readouterr().out.startswith("aborted kafkasource-1-2-east-0")
    assert kafka.transactions["kafkasource-1-2-3"].state == "Ongoing"


def test_a_location_without_a_checkpoint_is_an_error_not_an_all_clear(kafka, capsys, tmp_path):
    for command in ("list", "abort"):
        assert transactions(kafka, command, "--checkpoint", str(tmp_path)) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert f"cannot be read from '{tmp_path}': there is no file 'metadata' on this machine" in err


def test_no_cluster_named_is_said_so(monkeypatch, capsys):
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    assert main(["transactions", "list", "--prefix", "orders"]) == 1
    assert "Give --bootstrap-servers" in capsys.readouterr().err
