"""The demo's manners that show without Spark."""

import os
import signal

import pytest

from kafkasource.testing.demo import ctrl_c_waits, next_steps
from kafkasource.tools.cli import parser_of_all


@pytest.fixture(autouse=True)
def handler():
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_waits_for_spark_to_be_up_and_is_not_forgotten():
    steps = []

    def start_spark():
        with ctrl_c_waits():
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("spark is up")
            signal.signal(signal.SIGINT, lambda *_: None)  # as pyspark does

    with pytest.raises(KeyboardInterrupt):
        start_spark()
    assert steps == ["spark is up"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_next_commands_that_it_names_are_commands():
    lines = [line.partition("#")[0] for line in next_steps("pykafka").splitlines() if line.startswith("    ")]
    assert len(lines) == 5
    for line in lines:
        words = line.partition("pykafka ")[2].split()
        assert parser_of_all().parse_args(words).run
