"""The writers that Spark sees: `write` in the executors' Python workers, the rest on the driver.

At least once: a task reports success when every record is acknowledged, so commit has nothing left to do; a task
that is run again writes its rows again. Spark pickles a writer to its tasks, so it holds plain values only.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kafkasource.sink.columns import SinkSchema
from kafkasource.sink.commit_log import gathered, tell
from kafkasource.sink.config import ProducerConfig
from kafkasource.sink.functions import load
from kafkasource.types import TopicPartition, Written
from kafkasource.worker import spare_imports_from_gc

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkasource.options import Options


@dataclass(frozen=True)
class TaskReport(WriterCommitMessage):
    """What one task wrote, all of it acknowledged. Pickled to the driver."""

    written: dict[TopicPartition, Written] = field(default_factory=dict)
    kernel_compiled: bool = True  # in the worker that wrote
    query_id: str | None = None  # only tasks know it; None: a batch write

    @property
    def records(self) -> int:
        return sum(one.records for one in self.written.values())


class _Writer:
    """What both writers share."""

    def __init__(self, options: Options, schema: StructType) -> None:
        """Checks the schema; contacts nobody. Runs on the driver, more than once for a micro-batch."""
        self._schema = SinkSchema.check(schema, options["topic"])
        self._config = ProducerConfig.from_options(options)
        self._query_name = options.sparks_own.get("queryname")
        self._listener: str | None = options["commitListener"]
        if self._listener is not None:
            load(self._listener, "commitListener")  # what is not there is refused before a task runs
        spare_imports_from_gc()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskReport:
        """Write a task's rows; returns when all are acknowledged. Executor side."""
        from kafkasource.records import COMPILED
        from kafkasource.sink.partitioner import Partitioner
        from kafkasource.sink.producer import shared_producer

        spare_imports_from_gc()
        producer = shared_producer(self._config)
        partitioner = Partitioner(self._config.batch_bytes)
        with producer.delivery() as delivery:
            for batch in iterator:
                for rows in self._schema.rows(batch):
                    producer.append(rows, partitioner, delivery)
        return TaskReport(delivery.written, COMPILED, _query_id())

    def _committed(self, messages: Sequence[TaskReport | None], batch_id: int | None = None) -> None:
        """Driver side, after all tasks succeeded."""
        spare_imports_from_gc()
        if any(message is not None and not message.kernel_compiled for message in messages):
            _warn_uncompiled()
        query_id = next((message.query_id for message in messages if message is not None), None)
        commit = gathered(messages, batch_id=batch_id, query_id=query_id, query_name=self._query_name)
        tell(commit, self._listener)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """`df.write.format("pykafka").mode("append")`."""

    def commit(self, messages: list[TaskReport | None]) -> None:
        self._committed(messages)

    def abort(self, messages: list[TaskReport | None]) -> None:
        """Nothing can be taken back: what the failed job wrote stays in the topics."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream.format("pykafka")`. Output mode complete appends each result whole, as the JVM connector does."""

    def commit(self, messages: list[TaskReport | None], batchId: int) -> None:
        self._committed(messages, batchId)

    def abort(self, messages: list[TaskReport | None], batchId: int) -> None:
        """Nothing can be taken back; the micro-batch is run again and its rows are written again."""


def _query_id() -> str | None:
    """Of the streaming query whose task runs here; it survives restarts."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty("sql.streaming.queryId")


_warned = False


def _warn_uncompiled() -> None:
    """Once per driver process: each micro-batch would say it again."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "executors ran kafkasource's kernel uncompiled: correct, but about a hundred times slower. Install the "
            "package with a C compiler present on the Python that Spark's workers use (a zip given by --py-files never "
            "has it).",
            RuntimeWarning,
            stacklevel=2,
        )
