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


@pytest.mark.parametrize("asked", [INITIAL_OFFSET, LATEST_OFFSET])
def test_pysparks_process_says_the_wrong_option_and_nothing_else(in_the_runner, of_stream, monkeypatch, asked):
    """The loop of pyspark's process, over bytes as the JVM sends them. Before, it ended with an UnboundLocalError."""
    source, schema = of_stream
    monkeypatch.setattr(runner, "check_python_version", lambda infile: None)
    monkeypatch.setattr(runner, "setup_spark_files", lambda infile: None)
    monkeypatch.setattr(runner, "read_command", lambda serializer, infile: source)
    asks, says = io.BytesIO(), io.BytesIO()
    write_with_length(schema.json().encode(), asks)
    write_int(10_000, asks)
    write_int(asked, asks)
    asks.seek(0)
    with pytest.raises(SystemExit):
        runner.main(asks, says)
    made, failed, length = struct.unpack(">iii", says.getvalue()[:12])
    text = says.getvalue()[12 : 12 + length].decode()
    assert (made, failed) == (0, -2)  # a reader; an error
    assert text.startswith("kafkasource.errors.OptionError: option 'startingOffsets'")
    assert text.count("\n") == 1


def test_elsewhere_the_error_is_raised_at_once(of_stream):
    source, schema = of_stream
    with pytest.raises(OptionError, match="startingOffsets"):
        source.streamReader(schema)
