"""Starts Spark on this machine for a command of ours, without the lines that say nothing to its user.

The JVM, and the shell script that starts it, print these lines before any setting of Spark's logs applies. So the JVM's
stderr is a pipe, and a thread copies it to ours line by line, for as long as the JVM lives.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf, SparkContext

# Seen on Spark 4.0 to 4.3. Each is the start of a line, or of its text after date, time and level.
_NO_NEWS = (
    b"WARNING: Using incubator modules: ",
    b"Using Spark's default log4j profile: ",
    b"Setting default log level to ",
    b"To adjust logging level use ",
    b"Setting Spark log level to ",
    b"NativeCodeLoader: Unable to load native-hadoop library ",
)


def start_spark(name: str, master: str, checkpoint: str, more: Mapping[str, str] | None = None) -> SparkContext:
    """Start Spark on this machine, with settings that suit it. `checkpoint`: where its queries have theirs. `more`:
    further settings. Raises KafkaSourceError."""
    from pyspark import SparkConf, SparkContext

    from kafkasource.spark.releases import CHECKPOINT_FILE_MANAGER

    settings = SparkConf().setAppName(name).setMaster(master)
    settings.set("spark.log.level", "ERROR")
    settings.set("spark.ui.showConsoleProgress", "false")  # Spark's bar would be drawn over our lines
    settings.set("spark.python.unix.domain.socket.enabled", "true")
    settings.set("spark.python.daemon.module", "kafkasource.spark.daemon")
    if "://" not in checkpoint or checkpoint.startswith("file:"):
        # Spark's default starts twenty processes in each micro-batch, if Hadoop has no native library (decision 181).
        settings.set("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINT_FILE_MANAGER)
        settings.set("spark.hadoop.fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
    for key, value in (more or {}).items():
        settings.set(key, value)
    return SparkContext(conf=settings, gateway=_launch(settings))


def _launch(settings: SparkConf) -> JavaGateway:
    """The gateway of a new JVM. Signals to our process group do not reach it: the JVM and its workers would end in the
    middle of a micro-batch."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    reading, writing = os.pipe()
    copying = threading.Thread(target=_copy, args=(reading, 2), name="stderr of Spark's JVM", daemon=True)
    copying.start()
    try:
        gateway: JavaGateway = launch_gateway(settings, {"start_new_session": True, "stderr": writing})
    except PySparkRuntimeError as error:
        os.close(writing)
        writing = -1
        copying.join(timeout=5)  # what the JVM has said comes first
        raise KafkaSourceError(f"Spark did not start: {error}. `pykafka doctor` shows which Java it finds") from None
    finally:
        if writing >= 0:
            os.close(writing)
    return gateway


# A Python worker writes such a traceback when it flushes to a connection that the JVM has closed: the worker was idle,
# or its query has ended. Depending on a setting of Spark's, pyspark puts a line before it and an empty line behind it.
_FAILED_TO_FLUSH = b"PySpark daemon failed to flush the output to the worker process:"
_TRACEBACK = b"Traceback (most recent call last):"
_IN_DAEMON = rb'  File ".*daemon\.py", line \d+, in (worker|manager)'
_CONNECTION_CLOSED = rb"(BrokenPipeError|ConnectionResetError): .*"


def worth_showing(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of the JVM's stderr that are worth a user's time."""
    held: list[bytes] = []  # the beginning of what may be a traceback as above
    left_out = False  # the line before was the end of one
    for line in lines:
        bare = line.rstrip(b"\r\n")
        if held and _continues(held[-1], bare):
            held.append(line)
            continue
        if held and held[-1].startswith(b" ") and re.fullmatch(_CONNECTION_CLOSED, bare):
            held, left_out = [], True
            continue
        yield from held
        held = [line] if bare in (_FAILED_TO_FLUSH, _TRACEBACK) else []
        if not held and says_something(line) and (bare or not left_out):
            yield line
        left_out = False
    # The JVM has ended, and its worker in the middle of a traceback: nothing in `held` says why.


def _continues(before: bytes, bare: bytes) -> bool:
    """Whether a line may belong to such a traceback, behind the line before."""
    if bare == _TRACEBACK:
        return before.startswith(_FAILED_TO_FLUSH)
    code = bare.startswith(b"    ") and before.startswith(b" ")  # or the marks beneath it
    return code or re.fullmatch(_IN_DAEMON, bare) is not None


def says_something(line: bytes) -> bool:
    """Whether a line is, by itself."""
    return not any(line.startswith(text) or b" WARN " + text in line for text in _NO_NEWS)


def _copy(reading: int, to: int) -> None:
    with open(reading, "rb") as lines:
        for line in worth_showing(lines):
            _write(to, line)


def _write(to: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(to, data) :]
        except OSError:  # nobody reads our stderr; the JVM must not wait for that
            return
