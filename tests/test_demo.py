"""The demo's manners that show without Spark."""

import logging
import os
import signal

import pytest

from kafkasource.testing.demo import _CtrlC, _next
from kafkasource.tools.cli import parser_of_all


@pytest.fixture(autouse=True)
def handler():
    before = signal.getsignal(signal.SIGINT)
    yield before
    assert signal.getsignal(signal.SIGINT) is before
    assert logging.root.isEnabledFor(logging.ERROR)


def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_waits_for_spark_to_be_up_and_is_not_forgotten(capsys):
    steps = []

    def start_spark():
        with _CtrlC() as interruption, interruption.waits():
            ctrl_c()
            steps.append("spark is up")

    with pytest.raises(KeyboardInterrupt):
        start_spark()
    assert steps == ["spark is up"]
    assert "as soon as Spark has started" in capsys.readouterr().out


def test_the_next_commands_that_it_names_are_commands():
    lines = [line.partition("#")[0] for line in _next("pykafka").splitlines() if line.startswith("    ")]
    assert len(lines) == 5
    for line in lines:
        words = line.partition("pykafka ")[2].split()
        assert parser_of_all().parse_args(words).run


def test_later_it_interrupts_at_once_without_the_traces_of_py4j(capsys, monkeypatch):
    def job():
        with _CtrlC() as interruption:
            with interruption.waits():
                signal.signal(signal.SIGINT, lambda *_: None)  # as pyspark does
            try:
                ctrl_c()
            finally:
                logging.exception("KeyboardInterrupt while sending command.")  # as py4j does

    monkeypatch.setattr(logging.root, "handlers", [logging.StreamHandler()])
    with pytest.raises(KeyboardInterrupt):
        job()
    assert capsys.readouterr().err == ""
