"""Starts Spark's JVM for a command of ours, without the lines that say nothing to its user.

The JVM, and the shell script that starts it, print these lines before any setting of Spark's logs applies. So the JVM's
stderr is a pipe, and a thread copies it to ours line by line, for as long as the JVM lives.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf

# Seen on Spark 4.0 to 4.3. Each is the start of a line, or of its text after date, time and level.
_NO_NEWS = (
    b"WARNING: Using incubator modules: ",
    b"Using Spark's default log4j profile: ",
    b"Setting default log level to ",
    b"To adjust logging level use ",
    b"Setting Spark log level to ",
    b"NativeCodeLoader: Unable to load native-hadoop library ",
)


def launch(settings: SparkConf) -> JavaGateway:
    """The gateway of a new JVM. Signals to our process group do not reach it. Raises KafkaSourceError."""
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


# Of a Python worker that Spark has let go while it was idle: it flushes to a connection that the JVM has closed.
_LET_GO = (
    rb"PySpark daemon failed to flush the output to the worker process:",
    rb"Traceback \(most recent call last\):",
    rb'  File ".*daemon\.py", line \d+, in worker',
    rb"    outfile\.flush\(\)",
    rb"(BrokenPipeError|ConnectionResetError): .*",
    rb"",
)
_CARETS = rb" +[~^]+"  # of Python 3.13, beneath a line of code


def worth_showing(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of the JVM's stderr that are worth a user's time."""
    held: list[bytes] = []  # the beginning of what may be _LET_GO
    at = 0  # how much of _LET_GO has come
    for line in lines:
        bare = line.rstrip(b"\r\n")
        if at and re.fullmatch(_CARETS, bare):
            held.append(line)
            continue
        if at and not re.fullmatch(_LET_GO[at], bare):
            yield from held
            held, at = [], 0
        if re.fullmatch(_LET_GO[at], bare):
            at += 1
            held = [*held, line] if at < len(_LET_GO) - 1 else []  # from its error on nothing is given back
            at %= len(_LET_GO)
        elif says_something(line):
            yield line
    yield from held


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
