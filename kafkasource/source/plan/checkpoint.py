"""Reads the offsets of a streaming query from the files of its checkpoint, without Spark.

    <location>/offsets/N    the plan of micro-batch N: version, metadata, then a line for each source's end offset, in
                            version 2 (sources that can be added and removed, Spark 4.2) with its name and : before
    <location>/commits/N    there when micro-batch N is done

A location may be a URI that pyarrow reads (s3://, gs://, hdfs://). Sources that are not Kafka are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.security.quoting import without_password
from kafkasource.source.plan.offsets import StreamOffset, from_json
from kafkasource.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Next offsets to read, of all Kafka sources of a query together; where two read a partition, the lesser."""

    shown_location: str  # for people: without a password
    done_batch: int | None  # the last micro-batch that is done; None: none yet
    done: StreamOffset  # its end
    planned_batch: int | None  # one that was begun and is not known to be done
    planned: StreamOffset | None


def read_checkpoint(location: str) -> Checkpoint:
    """The checkpoint there; else the only one in folders beneath, as a mirror's folder has them. Raises
    KafkaSourceError where there is none, more than one beneath, or none of a query that reads Kafka."""
    files = StoredFiles(location)
    found = checkpoint_in(files, "")
    if found is None:
        beneath = [f"{location.rstrip('/')}/{path}" for path in _checkpoints(files)]
        if len(beneath) == 1:
            return read_checkpoint(beneath[0])
        raise KafkaSourceError(
            f"{location} has the checkpoints of several queries: name one of {', '.join(beneath)}"
            if beneath
            else f"{location} is not the checkpoint of a streaming query: its folder `offsets` is missing or has no "
            "micro-batch, and no folder in it is one"
        )
    if not found.done.offsets and not (found.planned and found.planned.offsets):
        raise KafkaSourceError(f"{location} is the checkpoint of a query that does not read from Kafka")
    return found


class Files(Protocol):
    """Files below a location; paths are relative to it. Raises KafkaSourceError where they cannot be read."""

    location: str

    def names(self, folder: str) -> list[str]:
        """The names of files and folders there, sorted; none where there is no such folder."""

    def text(self, path: str) -> str: ...


def checkpoint_in(files: Files, folder: str) -> Checkpoint | None:
    """The checkpoint in this folder; None if no micro-batch was planned there yet."""
    base = f"{folder}/" if folder else ""
    plans = _numbers(files, f"{base}offsets")
    if not plans:
        return None
    commits = _numbers(files, f"{base}commits")
    done = max((number for number in plans if commits and number <= max(commits)), default=None)
    planned = max(plans) if done is None or max(plans) > done else None

    def plan(number: int | None) -> StreamOffset | None:
        return None if number is None else _merged(files.text(f"{base}offsets/{number}"))

    where = without_password(f"{files.location.rstrip('/')}/{folder}" if folder else files.location)
    return Checkpoint(where, done, plan(done) or StreamOffset({}), planned, plan(planned))


def _checkpoints(files: Files) -> Iterator[str]:
    """Folders with a micro-batch: beneath, or one below, as a mirror has them (`<source>/<reader>`)."""
    for name in files.names(""):
        for path in (name, *(f"{name}/{one}" for one in files.names(name) if one not in ("offsets", "commits"))):
            if _numbers(files, f"{path}/offsets"):
                yield path


def _numbers(files: Files, folder: str) -> list[int]:
    return sorted(int(name) for name in files.names(folder) if name.isdecimal())


class StoredFiles:
    """A folder of this machine, or one that pyarrow reads by its URI."""

    def __init__(self, location: str) -> None:
        from pyarrow import fs

        try:
            if "://" in location:
                self._fs, self._root = fs.FileSystem.from_uri(location)
            else:
                self._fs, self._root = fs.LocalFileSystem(), location.removeprefix("file:").rstrip("/")
        except (OSError, ValueError, ImportError) as error:
            raise KafkaSourceError(f"{location} cannot be read: {error}") from None
        self._selector = fs.FileSelector
        self.location = location

    def names(self, folder: str) -> list[str]:
        try:
            found = self._fs.get_file_info(self._selector(self._path(folder), allow_not_found=True))
        except OSError as error:
            raise KafkaSourceError(f"{self.location} cannot be read: {error}") from None
        return sorted(each.base_name for each in found)

    def text(self, path: str) -> str:
        try:
            with self._fs.open_input_stream(self._path(path)) as stream:
                return bytes(stream.read()).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise KafkaSourceError(f"{self.location}/{path} cannot be read: {error}") from None

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root


def _merged(text: str) -> StreamOffset:
    """`start` is None where no source's line has one, and leaves a partition out whose start one of them does not
    know."""
    sources = list(_kafka_offsets(text))
    starts = [one.start for one in sources if one.start is not None]
    offsets = _least(one.offsets for one in sources)
    start = _least(one.offsets for one in starts)
    for one in sources:
        for tp in one.offsets:
            if one.start is None or tp not in one.start.offsets:
                start.pop(tp, None)
    ids: dict[str, UUID] = {}
    for one in sources:
        ids.update(one.topic_ids)
    return StreamOffset(offsets, ids, start=StreamOffset(start) if starts else None)


def _least(each: Iterable[Mapping[TopicPartition, int]]) -> dict[TopicPartition, int]:
    least: dict[TopicPartition, int] = {}
    for offsets in each:
        for tp, offset in offsets.items():
            least[tp] = min(offset, least.get(tp, offset))
    return least


def _kafka_offsets(text: str) -> Iterator[StreamOffset]:
    """Find the offset in each source's line that is one of Kafka's; in version 2 the source's name stands before it."""
    version, *lines = text.splitlines() or [""]
    for line in lines[1:]:  # the first is metadata
        try:
            found = from_json(json.loads(line.partition(":")[2] if version.strip() == "v2" else line))
        except (KafkaSourceError, ValueError, RecursionError):
            continue
        if found.offsets:
            yield found
