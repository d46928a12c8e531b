"""The command line's manners: exit codes, one-line errors. What it does with a broker is in tests/broker."""

import json
import os
import subprocess
import sys

import pytest

from kafkasource import cli
from kafkasource.broker import detached
from kafkasource.cli import main


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


def test_ctrl_c_ends_with_130(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(detached, "stop", interrupted)
    assert main(["broker", "stop"]) == cli.INTERRUPTED == 130
    assert capsys.readouterr().err == "pykafka: interrupted\n"


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


def test_a_state_file_of_nonsense_counts_as_none(cache, capsys):
    (cache / "broker.json").write_text('{"pids": 7}')
    assert main(["broker", "status"]) == 1
    assert "no broker is running" in capsys.readouterr().out


def test_python_dash_m_is_the_same_command(tmp_path):
    done = subprocess.run([sys.executable, "-m", "kafkasource", "--version"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("pykafka ")
