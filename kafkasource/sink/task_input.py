"""Tells the end of a task's rows from a connection that Spark closed in the middle of them.

Spark cancels a task (`query.stop()`, another task of the job failed) by closing the connection to its Python worker.
pyarrow takes that for the end of the stream of batches. So the task would flush its rows, report success to nobody,
and leave its transaction open.

After the stream of batches Spark always sends one word more, which PySpark's worker reads when the task is done
(`SpecialLengths.END_OF_STREAM`). Where the connection ends before it, the input was cut off.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkasource.errors import TaskCancelled

if TYPE_CHECKING:
    import pyarrow as pa


def to_the_end(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of the task that runs in this thread. Raises TaskCancelled instead of ending early."""
    yield from batches
    connection = _from_spark()
    if connection is not None and not connection.peek(1):
        raise TaskCancelled("Spark cancelled this task: it closed the connection before the rows were complete")


def _from_spark() -> io.BufferedReader | io.BufferedRWPair | None:
    """The file from which PySpark's worker reads. PySpark hands it to nobody, so it is looked for in the worker's
    function that runs the task; None where there is none, as in tests."""
    frame = sys._getframe()
    while (caller := frame.f_back) is not None:
        frame = caller
        if frame.f_code.co_name == "main" and frame.f_globals.get("__name__") in ("pyspark.worker", "__main__"):
            file = frame.f_locals.get("infile")
            if isinstance(file, (io.BufferedReader, io.BufferedRWPair)):
                return file
    return None
