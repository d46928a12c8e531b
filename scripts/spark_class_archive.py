"""Writes an archive of the Java classes that a Spark driver loads into FILE (class data sharing, JEP 350).

A driver that maps it needs a third less processor time (17 s instead of 26 with the queries below). tests/conftest.py
gives it to every driver of the tests. Java takes it for the jars of this environment alone; where it does not fit, Java
loads the classes from the jars.

The job has one query of each kind that the tests run, because the archive holds what was loaded when the JVM ended.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import class_archive
import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

from kafkasource.spark.releases import DataSourceStreamArrowWriter

FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Rows(DataSourceReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([b"a", b"b"])], names=["value"])


class RowsOfAStream(DataSourceStreamReader):
    """Three micro-batches."""

    def __init__(self) -> None:
        self._end = 0

    def initialOffset(self) -> dict[str, int]:
        return {"end": 0}

    def latestOffset(self, *_: object) -> dict[str, int]:
        self._end = min(self._end + 1, 3)
        return {"end": self._end}

    def partitions(self, start: object, end: object) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return Rows().read(partition)


class Writer(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class StreamWriter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Writer().write(iterator)


class Format(DataSource):
    @classmethod
    def name(cls) -> str:
        return "any"

    def schema(self) -> str:
        return "value binary"

    def reader(self, schema: object) -> Rows:
        return Rows()

    def streamReader(self, schema: object) -> RowsOfAStream:
        return RowsOfAStream()

    def writer(self, schema: object, overwrite: bool) -> Writer:
        return Writer()

    def streamWriter(self, schema: object, overwrite: bool) -> StreamWriter:
        return StreamWriter()


def main(file: Path, folder: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_SUBMIT_OPTS"] = f"{FLAGS} {class_archive.writing(Path(folder))} -Djava.io.tmpdir={folder}"
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.dataSource.register(Format)
    rows = spark.read.format("any").load()
    rows.selectExpr("cast(value as string) word").groupBy("word").count().toPandas()
    rows.mapInArrow(lambda batches: batches, "value binary").collect()
    rows.write.format("any").mode("append").save()
    rows.write.parquet(f"{folder}/parquet")
    spark.read.parquet(f"{folder}/parquet").count()
    stream = spark.readStream.format("any").load()
    writing = stream.writeStream.option("checkpointLocation", f"{folder}/to-format")
    query = writing.format("any").start()
    query.processAllAvailable()
    query.stop()
    each = stream.writeStream.option("checkpointLocation", f"{folder}/to-batches")
    query = each.foreachBatch(lambda batch, _: batch.count()).start()
    query.processAllAvailable()
    query.stop()
    spark.stop()
    driver = SparkContext._gateway.proc
    driver.stdin.close()  # it ends for this, and writes the archive
    driver.wait()
    class_archive.take(Path(folder), file)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spark-classes-", ignore_cleanup_errors=True) as made:
        main(Path(sys.argv[1]).resolve(), made)
