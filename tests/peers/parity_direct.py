"""Runs the batch reads of a parity case without Spark: the same calls of the data source, in this process.

`make test` reads so, as each plan and each task of Spark's costs a Python process. Streams go through Spark there, too;
`make extended` takes every read through Spark, with both connectors.
"""

from __future__ import annotations

import pickle

import pyarrow as pa
import pyarrow.compute as pc
from parity_run import Run
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from kafkasource.datasource import KafkaDataSource

NAMES = ("topic", "partition", "offset", "key", "value", "timestamp", "timestampType", "headers")
EPOCH = pa.scalar(0, pa.timestamp("us", "UTC"))


class DirectRun(Run):
    """One case through ours."""

    def _batch(self, step):
        self.frame = None
        with self._watched() as seen:
            self.frame = Frame(self._options(step), step.schema)
            self.frame.show(seen, self._add)

    def _again(self, _):
        with self._watched() as seen:
            self.frame.show(seen, self._add)


class Frame:
    """Stands for a DataFrame of Spark's: planned once, read as often as rows are wanted."""

    def __init__(self, options, ddl):
        source = KafkaDataSource(CaseInsensitiveDict(options))
        self._schema = source.schema() if ddl is None else StructType.fromDDL(ddl)
        reader = source.reader(self._schema)
        self._tasks = [pickle.dumps((reader, partition)) for partition in reader.partitions()]

    def show(self, seen, add):
        seen.columns = [(field.name, field.dataType.simpleString()) for field in self._schema.fields]
        add(seen, [(task, *row) for task, pickled in enumerate(self._tasks) for row in _rows(*pickle.loads(pickled))])


def _rows(reader, partition):
    for batch in reader.read(partition):
        columns = batch.to_pydict()
        columns["timestamp"] = [ms.as_py() for ms in pc.milliseconds_between(EPOCH, batch["timestamp"])]
        if "headers" in columns:
            columns["headers"] = [of and [(one["key"], one["value"]) for one in of] for of in columns["headers"]]
        yield from zip(*(columns[name] for name in NAMES if name in columns), strict=True)
