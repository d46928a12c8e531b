"""A stream whose reader cannot be made: pyspark's own process says why, and nothing else."""

from __future__ import annotations

import io
import struct
import sys
from importlib.machinery import ModuleSpec

import pytest
from pyspark.serializers import write_int, write_with_length
from pyspark.sql.streaming import python_streaming_source_runner as runner

from kafkasource.datasource import KafkaDataSource
from kafkasource.errors import OptionError

GIVEN = {"kafka.bootstrap.servers": "nobody:9092", "subscribe": "t", "startingOffsets": "erliest"}
INITIAL_OFFSET, LATEST_OFFSET = runner.INITIAL_OFFSET_FUNC_ID, runner.LATEST_OFFSET_FUNC_ID


@pytest.fixture
def in_the_runner(monkeypatch):
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # so that it is put back
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "pyspark.daemon", runner.__name__])
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("pyspark.daemon", None))


@pytest.fixture
def of_stream():
    source = KafkaDataSource(dict(GIVEN))
    return source, source.schema()


@pytest.fixture
def answers(in_the_runner, of_stream, monkeypatch):
    """Sends calls to pyspark's process as the JVM does; returns its answers."""
    source, schema = of_stream
    monkeypatch.setattr(runner, "check_python_version", lambda infile: None)
    monkeypatch.setattr(runner, "setup_spark_files", lambda infile: None)
    monkeypatch.setattr(runner, "read_command", lambda serializer, infile: source)

    def call(*functions):
        asks, says = io.BytesIO(), io.BytesIO()
        write_with_length(schema.json().encode(), asks)
        write_int(10_000, asks)
        for each in functions:
            write_int(each, asks)
        asks.seek(0)
        with pytest.raises(SystemExit):
            runner.main(asks, says)
        return says.getvalue()

    return call


def check_error(answer):
    failed, length = struct.unpack(">ii", answer[:8])
    text = answer[8 : 8 + length].decode()
    assert failed == -2
    assert text.startswith("kafkasource.errors.OptionError: option 'startingOffsets'")
    assert text.count("\n") == 1


@pytest.mark.parametrize("asked", [INITIAL_OFFSET, LATEST_OFFSET])
def test_pysparks_process_says_the_wrong_option_and_nothing_else(answers, asked):
    """Before, it ended with an UnboundLocalError."""
    answer = answers(asked)
    assert answer[:4] == bytes(4)  # a reader
    check_error(answer[4:])


@pytest.mark.needs_spark("limited_available_now")
def test_under_available_now_the_wrong_option_comes_before_any_word_on_the_trigger(answers):
    answer = answers(runner.CHECK_SUPPORTED_FEATURES_ID, runner.PREPARE_FOR_TRIGGER_AVAILABLE_NOW_FUNC_ID)
    _, features = struct.unpack(">ii", answer[:8])
    assert features & runner.SUPPORTS_TRIGGER_AVAILABLE_NOW  # else Spark warns that the source lacks it
    check_error(answer[8:])


def test_elsewhere_the_error_is_raised_at_once(of_stream):
    source, schema = of_stream
    with pytest.raises(OptionError, match="startingOffsets"):
        source.streamReader(schema)
