"""Calls a stream reader as Spark calls it, micro-batch after micro-batch, and keeps a checkpoint as Spark does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from kafkasource.source.spark.input_partition import KafkaInputPartition
from kafkasource.source.spark.stream import StreamReader
from lab.campaign.storm.checkpoint import Checkpoint

TRIGGER_S = 0.2
Do = Callable[[int, Sequence[KafkaInputPartition]], None]
"""All of a batch, by its number and partitions, but the checkpoint. What it raises ends the run."""


class MicroBatches:
    """From one start to the next failure. A batch that is planned and not done comes first, again."""

    def __init__(self, reader: StreamReader, checkpoint: Checkpoint, do: Do) -> None:
        self._reader, self._checkpoint, self._do = reader, checkpoint, do

    def run(self, until_s: float = float("inf")) -> None:
        """Until that time of `time.monotonic`. Raises what a batch raised."""
        reader, checkpoint = self._reader, self._checkpoint
        try:
            start = reader.initialOffset() if checkpoint.done() < 0 else checkpoint.end_of(checkpoint.done())
            if checkpoint.planned() > checkpoint.done():
                start = self._batch(checkpoint.planned(), start, checkpoint.end_of(checkpoint.planned()))
            while time.monotonic() < until_s:
                end = reader.latestOffset(start, reader.getDefaultReadLimit())
                if end != start:
                    number = checkpoint.done() + 1
                    checkpoint.plan(number, end)
                    if number == 0:
                        start = reader.initialOffset()  # Spark asks again
                    start = self._batch(number, start, end)
                time.sleep(TRIGGER_S)
        finally:
            reader.stop()

    def _batch(self, number: int, start: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
        self._do(number, self._reader.partitions(start, end))
        self._checkpoint.finish(number)
        self._reader.commit(end)
        return end
