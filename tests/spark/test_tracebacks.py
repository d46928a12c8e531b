"""The text of an error that a process of Spark's sends to the JVM, by pyspark's own function."""

import inspect
import io
import sys
import traceback
from importlib.machinery import ModuleSpec

import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.util import handle_worker_exception

from kafkasource.errors import OptionError, ProtocolError
from kafkasource.kafka.producer.partitioner import PartitionerFailed
from kafkasource.kafka.records.compression import ZSTD, Arena, RecordBatchTooLarge, compress, decompress_section
from kafkasource.sink.writer import BatchWriter, StreamWriter
from kafkasource.source.spark.input_partition import PartitionReader
from kafkasource.spark.tracebacks import without_tracebacks


@without_tracebacks("partitions", "read")
class Reader:
    def __init__(self, error):
        self.error = error

    def partitions(self):
        raise self.error

    def read(self):
        yield "a row"
        raise self.error


@pytest.fixture
def told(monkeypatch):
    """The text that the JVM gets for an error of a method."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # so that it is put back

    def tell(error, process, method="partitions"):
        monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec(process, None))
        out = io.BytesIO()
        try:
            list(getattr(Reader(error), method)())
        except Exception as raised:
            handle_worker_exception(raised, out)
        return out.getvalue()[8:].decode()

    return tell


def test_spark_is_told_an_error_for_the_user_in_one_line(told):
    assert told(OptionError("say a topic"), "pyspark.daemon") == "kafkasource.errors.OptionError: say a topic\n"


def test_so_is_a_batch_that_is_too_large_and_its_text_names_the_option(told):
    section = compress(ZSTD, memoryview(bytes(100_000)))
    with pytest.raises(RecordBatchTooLarge) as raised:
        decompress_section(Arena(), ZSTD, section, 1024, "t-0 at offset 7")
    (line,) = told(raised.value, "pyspark.daemon", "read").splitlines()
    assert line.startswith("kafkasource.kafka.records.compression.RecordBatchTooLarge: t-0 at offset 7: ")
    assert "raise 'kafka.max.decompressed.batch.bytes'" in line


def test_so_is_an_error_in_the_midst_of_a_tasks_rows(told):
    assert told(OptionError("say a topic"), "pyspark.daemon", "read") == "kafkasource.errors.OptionError: say a topic\n"


@pytest.mark.parametrize("writer", [BatchWriter, StreamWriter])
def test_tasks_that_write_and_those_that_read_are_among_them(writer):
    for method in (writer.write, writer.commit, writer.__getstate__, PartitionReader.read):
        assert inspect.unwrap(method) is not method


class Unready:
    """A writer whose topic cannot be created."""

    def __getstate__(self):
        raise OptionError("option 'createTopic': brokers before Kafka 2.4 have no defaults")


def test_an_error_that_comes_while_spark_pickles_a_writer_stays_what_it_is(capsys, monkeypatch):
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # so that it is put back
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("pyspark.daemon", None))
    unready = without_tracebacks("__getstate__")(Unready)()
    with pytest.raises(OptionError, match="option 'createTopic'") as raised:
        CloudPickleSerializer().dumps(unready)
    assert traceback.format_exception_only(raised.value)[0].startswith("kafkasource.errors.OptionError: ")
    assert capsys.readouterr().err == ""


def test_an_error_of_a_function_of_the_users_keeps_its_traceback(told):
    def divide():
        return 1 / 0

    failed = PartitionerFailed("the partitioner failed")
    try:
        divide()
    except ZeroDivisionError as error:
        failed.__cause__ = error
    assert "in divide" in told(failed, "pyspark.daemon")


@pytest.mark.parametrize("error", [ProtocolError("odd bytes"), ZeroDivisionError("a bug")])
def test_what_may_be_a_bug_keeps_its_traceback(told, error):
    assert "in partitions" in told(error, "pyspark.daemon")


def test_a_program_of_the_users_keeps_its_tracebacks(told):
    assert "in partitions" in told(OptionError("say a topic"), "pytest.__main__")
