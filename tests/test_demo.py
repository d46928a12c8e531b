"""The demo's manners that show without Spark."""

import os
import signal

import pytest

from kafkasource import demo


def test_ctrl_c_waits_for_spark_to_be_up_and_is_not_forgotten():
    steps, before = [], signal.getsignal(signal.SIGINT)

    def start_spark():
        with demo._ctrl_c_waits():
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("spark is up")

    with pytest.raises(KeyboardInterrupt):
        start_spark()
    assert steps == ["spark is up"]
    assert signal.getsignal(signal.SIGINT) is before


def test_the_handler_that_spark_sets_meanwhile_is_kept():
    def sparks(*_):
        pass

    before = signal.getsignal(signal.SIGINT)
    try:
        with demo._ctrl_c_waits():
            signal.signal(signal.SIGINT, sparks)
        assert signal.getsignal(signal.SIGINT) is sparks
    finally:
        signal.signal(signal.SIGINT, before)
