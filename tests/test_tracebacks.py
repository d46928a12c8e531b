"""What a process of Spark's tells the JVM of an error, by pyspark's own function."""

import io
import sys
from importlib.machinery import ModuleSpec

import pytest
from pyspark.util import handle_worker_exception

from kafkasource.errors import OptionError, ProtocolError
from kafkasource.tracebacks import without_tracebacks


@without_tracebacks("partitions")
class Reader:
    def __init__(self, error):
        self.error = error

    def partitions(self):
        raise self.error


@pytest.fixture
def told(monkeypatch):
    """What the JVM is told of an error of `partitions`."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # so that it is put back

    def tell(error, process):
        monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec(process, None))
        out = io.BytesIO()
        try:
            Reader(error).partitions()
        except Exception as raised:
            handle_worker_exception(raised, out)
        return out.getvalue()[8:].decode()

    return tell


def test_spark_is_told_an_error_for_the_user_in_one_line(told):
    assert told(OptionError("say a topic"), "pyspark.daemon") == "kafkasource.errors.OptionError: say a topic\n"


@pytest.mark.parametrize("error", [ProtocolError("odd bytes"), ZeroDivisionError("a bug")])
def test_what_may_be_a_bug_keeps_its_traceback(told, error):
    assert "in partitions" in told(error, "pyspark.daemon")


def test_a_program_of_the_users_keeps_its_tracebacks(told):
    assert "in partitions" in told(OptionError("say a topic"), "pytest.__main__")
