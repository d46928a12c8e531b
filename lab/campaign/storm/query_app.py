"""Stands for Spark: runs one query of the campaign with the connector's own source and sink, called as by Spark.

    python -m lab.campaign.storm.query_app QUERY BOOTSTRAP STEM FOLDER

What Spark has in several processes is here in one, one task after the other; what crosses a process is pickled. A
batch that fails is aborted, and the query starts anew from its checkpoint. Ends when it is killed.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

from kafkasource import options as option_table
from kafkasource.exactly_once.errors import CheckpointBehind
from kafkasource.mirror.offset_map import OffsetMapTopic
from kafkasource.sink import writer as writer_module
from kafkasource.sink.clusters import targets
from kafkasource.sink.commit_report import SinkCommit
from kafkasource.sink.reports import TaskReport
from kafkasource.sink.writer import StreamWriter
from kafkasource.source.spark.input_partition import KafkaInputPartition, PartitionReader
from kafkasource.source.spark.stream import StreamReader
from lab.campaign import lines
from lab.campaign.clock import jumps_by_file
from lab.campaign.ending import end_with_starter
from lab.campaign.queries import FAN, GROUP_OF, OWNER, POLICIES, SINKS, Names
from lab.campaign.storm.checkpoint import Checkpoint
from lab.campaign.storm.lives import SERVERS, connection
from lab.campaign.storm.micro_batches import MicroBatches

COLUMNS = ("key", "value", "headers")
SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField(
            "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
        ),
    ]
)
RESTART_S = 0.2
DISCARDED = "CAMPAIGN_DISCARDED"  # the file in which queries tell of records that they left out


@dataclass
class TaskContext:
    """What the sink asks Spark of the task that it runs in."""

    batch_id: int
    query_id: str
    slot: int

    def partitionId(self) -> int:
        return self.slot

    def attemptNumber(self) -> int:
        return 0

    def cpus(self) -> int:
        return 1

    def getLocalProperty(self, key: str) -> str | None:
        known = {"streaming.sql.batchId": str(self.batch_id), "sql.streaming.queryId": self.query_id}
        return known.get(key)


class TaskContexts:
    """In the place of pyspark's class."""

    current: TaskContext | None = None

    @classmethod
    def get(cls) -> TaskContext | None:
        return cls.current


class Query:
    """From one start to the next failure."""

    def __init__(self, name: str, servers: str, names: Names, folder: Path) -> None:
        self._checkpoint = Checkpoint(folder / "checkpoints" / name)
        self._sink = _sink_options(name, servers, names, self._checkpoint.folder)
        self._reader = StreamReader(option_table.parse(_source_options(name, servers, names), "source"))

    def run(self) -> None:
        """Raises what a batch raised, once it is aborted."""
        MicroBatches(self._reader, self._checkpoint, self._batch).run()

    def _batch(self, number: int, partitions: Sequence[KafkaInputPartition]) -> None:
        sent = pickle.dumps(self._writer())
        task_reader = pickle.loads(pickle.dumps(self._reader))
        messages: list[TaskReport | None] = []
        try:
            for slot, partition in enumerate(partitions):
                TaskContexts.current = TaskContext(number, self._checkpoint.query_id, slot)
                rows = _rows(task_reader, pickle.loads(pickle.dumps(partition)))
                messages.append(pickle.loads(pickle.dumps(pickle.loads(sent).write(rows))))
            TaskContexts.current = None
            self._writer().commit(messages, number)
        except BaseException:
            TaskContexts.current = None
            self._writer().abort([*messages, *[None] * (len(partitions) - len(messages))], number)
            raise

    def _writer(self) -> StreamWriter:
        return StreamWriter(targets.parse(self._sink), SCHEMA, OffsetMapTopic)


def _rows(reader: PartitionReader, partition: KafkaInputPartition) -> Iterator[pa.RecordBatch]:
    for batch in reader.read(partition):
        yield batch.select(COLUMNS)


def _source_options(query: str, servers: str, names: Names) -> dict[str, str]:
    found = connection(servers) | {
        "kafka.isolation.level": "read_committed",
        "subscribe": names.source,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": "1000",
        "trigger": "processingTime",
    }
    if query in GROUP_OF:
        found["kafka.group.id"] = names.group(query)
    if query == OWNER:
        found["groupOwnership"] = "exclusive"
    if query == "atomic":
        found["maxPartitions"] = "1"  # only one task may write to a partition
    else:
        found["minRecordsPerPartition"] = "1"
    return found


def _sink_options(query: str, servers: str, names: Names, checkpoint: Path) -> dict[str, str]:
    found = connection(servers)
    bootstrap = found.pop(SERVERS)
    several = query == FAN or query in POLICIES
    clusters = [f"clusters.{cluster}.{SERVERS}" for cluster in ("east", "west")] if several else [SERVERS]
    return {
        **found,
        **dict.fromkeys(clusters, bootstrap),
        "topic": names.target(query),
        "checkpointLocation": str(checkpoint),
        "commitListener": "lab.campaign.storm.query_app:listener",
        **(SINKS | POLICIES)[query],
    }


def listener(commit: SinkCommit) -> None:
    """Tells how many records a batch discarded, by topic."""
    if commit.discarded:
        with lines.append_to(os.environ[DISCARDED]) as out:
            counts = Counter[str]()
            for tp, discarded in commit.discarded.items():
                counts[tp.topic] += discarded.records
            out.write(json.dumps(counts) + "\n")


def main(query: str, servers: str, stem: str, folder: str) -> None:
    end_with_starter()
    jumps_by_file()
    writer_module.TaskContext = TaskContexts  # type: ignore[attr-defined]
    while True:
        try:
            Query(query, servers, Names(stem), Path(folder)).run()
        except CheckpointBehind as error:
            print(time.strftime("%H:%M:%S"), "restores its checkpoint:", error, flush=True)
            Checkpoint(Path(folder) / "checkpoints" / query).restore()
        except Exception:
            print(time.strftime("%H:%M:%S"), "died:", traceback.format_exc()[-3000:], flush=True)
        time.sleep(RESTART_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
