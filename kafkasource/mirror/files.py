"""The files beside a mirror's checkpoints: in a folder of this machine, or in a file system of Hadoop's.

Spark's JVM reads and writes the second kind.

    <checkpoint>/<source>/flows-7.json    the record (`positions.PositionRecord`); the highest number counts
    <checkpoint>/<source>/7               Spark's checkpoint of a reader, by its name

A file is written whole under another name, and then renamed to a name that was never used. So a reader sees all of it
or nothing, whatever the file system promises about replacing a file.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kafkasource.errors import KafkaSourceError
from kafkasource.exactly_once.query_identity import location_parts
from kafkasource.kafka.security.quoting import without_password
from kafkasource.mirror.positions import MirrorReader, PositionRecord, from_text, to_text
from kafkasource.mirror.restart import Progress
from kafkasource.source.plan.checkpoint import Files, checkpoint_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

_RECORD = re.compile(r"flows-(\d+)\.json")


class LocalFiles:
    """Files below a folder of this machine."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._root = Path(location_parts(location)[2])

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._root / folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _unreadable(self.location, error.strerror) from None

    def text(self, path: str) -> str:
        try:
            return (self._root / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(f"{self.location}/{path}", error) from None

    def write(self, path: str, text: str) -> None:
        final = self._root / path
        written = final.with_name(f"{final.name}.tmp")
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            with written.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            written.rename(final)
            folder = os.open(final.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise _unwritable(f"{self.location}/{path}", error) from None

    def delete(self, path: str) -> None:
        target = self._root / path
        try:
            shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(f"{self.location}/{path}", error) from None


class HadoopFiles:
    """Files below a location in a file system that Hadoop knows (hdfs:, s3a:). Spark's settings say how to reach it."""

    def __init__(self, location: str, spark: SparkSession) -> None:
        self.location = location
        self._jvm: Any = spark.sparkContext._jvm
        self._root = self._jvm.org.apache.hadoop.fs.Path(location)
        configuration = spark.sparkContext._jsc.hadoopConfiguration()
        self._fs = self._calling(lambda: self._root.getFileSystem(configuration))

    def names(self, folder: str) -> list[str]:
        path = self._path(folder)
        if not self._calling(lambda: self._fs.exists(path)):
            return []
        return sorted(each.getPath().getName() for each in self._calling(lambda: self._fs.listStatus(path)))

    def text(self, path: str) -> str:
        def read() -> str:
            stream = self._fs.open(self._path(path))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

        return self._calling(read)

    def write(self, path: str, text: str) -> None:
        written = self._path(f"{path}.tmp")

        def write() -> bool:
            stream = self._fs.create(written, True)
            try:
                stream.write(bytearray(text, "utf-8"))
            finally:
                stream.close()
            return bool(self._fs.rename(written, self._path(path)))

        if not self._calling(write):
            raise _unwritable(f"{self.location}/{path}", "it could not be renamed")

    def delete(self, path: str) -> None:
        self._calling(lambda: self._fs.delete(self._path(path), True))

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, path) if path else self._root

    def _calling(self, call: Callable[[], T]) -> T:
        from py4j.protocol import Py4JJavaError

        try:
            return call()
        except Py4JJavaError as error:
            raise _unreadable(self.location, error.java_exception.toString()) from None


MirrorFiles = LocalFiles | HadoopFiles


def files_at(location: str, spark: SparkSession, default_scheme: str) -> MirrorFiles:
    """`default_scheme`: of the file system that Hadoop takes for a location without one."""
    scheme = location_parts(location)[0] or default_scheme
    return LocalFiles(location) if scheme == "file" else HadoopFiles(location, spark)


def newest_record(files: Files, folder: str) -> PositionRecord | None:
    """The record in this folder. Raises KafkaSourceError where it cannot be read."""
    numbers = [int(match[1]) for match in map(_RECORD.fullmatch, files.names(folder)) if match]
    if not numbers:
        return None
    path = f"{folder}/{_file(max(numbers))}"
    return from_text(files.text(path), without_password(f"{files.location}/{path}"))


def record_before_rename(files: Files, sources: Collection[str], cluster_id: str | None) -> PositionRecord | None:
    """The record of a source that is not among these any more, and whose cluster has this id."""
    for name in files.names("") if cluster_id is not None else ():
        record = None if name in sources else newest_record(files, name)
        if record is not None and record.source == name and record.cluster_ids.get(name) == cluster_id:
            return record
    return None


def progress_of(files: Files, source: str, reader: MirrorReader) -> Progress:
    """Read the progress of this reader of a source from its checkpoint."""
    found = checkpoint_in(files, f"{source}/{reader.name}")
    if found is None:
        return Progress(None)
    newest = found.planned or found.done
    ids = {topic: str(its) for topic, its in newest.topic_ids.items()}
    if found.done_batch is not None:
        return Progress(found.done.offsets, found.planned_batch is not None, ids)
    start = found.planned.start if found.planned is not None else None
    return Progress(start.offsets if start is not None else reader.start or {}, True, ids)


def save(files: MirrorFiles, record: PositionRecord) -> None:
    files.write(f"{record.source}/{_file(record.number)}", to_text(record))


def tidy(files: MirrorFiles, record: PositionRecord) -> None:
    """Delete all that this record does not name."""
    kept = {_file(record.number), *(reader.name for reader in record.readers)}
    for name in files.names(record.source):
        if name not in kept and (_RECORD.fullmatch(name.removesuffix(".tmp")) or name[:1].isdigit()):
            files.delete(f"{record.source}/{name}")


def _file(number: int) -> str:
    return f"flows-{number}.json"


def _unreadable(where: str, reason: object) -> KafkaSourceError:
    return KafkaSourceError(without_password(f"{where} cannot be read: {reason}"))


def _unwritable(where: str, reason: object) -> KafkaSourceError:
    return KafkaSourceError(without_password(f"{where} cannot be written: {reason}"))
