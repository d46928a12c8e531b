"""Writes a mirror's map of offsets (`offsetMap`) after each micro-batch, in the process of Spark's commits.

A thread for each topic keeps in memory what the topic holds, reads what other writers have added, and writes the
partitions that got records. The commit waits for it, but not for long (`Recorder`). The caller hands in the topic,
because reading it needs the source: `kafkasource.mirror.offset_map.OffsetMapTopic`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from kafkasource.errors import KafkaSourceError, few
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.process import PerProcess, Recent
from kafkasource.sink.clusters.offset_spans import OffsetMap, extended


class MapTopic(Protocol):
    """The topic that holds a map. For one thread at a time."""

    def add(self, mapped: OffsetMap) -> None:
        """Write what a micro-batch adds to the map. Blocks. Raises KafkaSourceError."""

    def close(self) -> None: ...


OpenMapTopic = Callable[[ClientConfig, str], MapTopic]
"""Opens a topic, from its cluster and its name. Blocks."""


class NotRecorded(KafkaSourceError):
    """The topic lacks spans of micro-batches that are written. A reader that translates offsets reads more records
    twice."""


class Recorder:
    """The thread that writes one topic's spans. Its methods are for the thread of the commits.

    While this process lives, it keeps spans that it could not write, and writes them with those of the next
    micro-batch. After a commit waited without success, commits do not wait for 10 times as long: an unreachable cluster
    costs the others at most a tenth of the time.
    """

    def __init__(
        self, open_topic: Callable[[], MapTopic], topic: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open_topic, self._name, self._clock = open_topic, topic, clock
        self._topic: MapTopic | None = None  # for the thread alone
        self._news = threading.Condition()
        self._lacking: OffsetMap = {}  # spans that were handed over and are not written
        self.busy = False  # the thread runs
        self._error: Exception | None = None  # the error of its last attempt
        self._impatient_until = float("-inf")

    def hand_over(self, mapped: OffsetMap) -> None:
        with self._news:
            self._lacking = _together(self._lacking, mapped)
            if not self.busy:
                self.busy = True
                threading.Thread(target=self._run, name="kafkasource-offset-map", daemon=True).start()

    def wait(self, wait_ms: int) -> None:
        """Return when all is written. Raises NotRecorded, also when that takes longer than `wait_ms`."""
        wait_s = wait_ms / 1000 if self._clock() >= self._impatient_until else 0.0
        with self._news:
            self._news.wait_for(lambda: not self.busy, wait_s)
            if not self._lacking:
                self._impatient_until = float("-inf")
                return
            if wait_s:
                self._impatient_until = self._clock() + 10 * wait_s
            why = "it has not answered yet" if self.busy else str(self._error)
            raise NotRecorded(
                f"{self._name} lacks the offsets of {_ranges(self._lacking)}. Their records are written ({why}). The "
                "sink adds the offsets with a later micro-batch of this run, if the cluster answers then"
            )

    def _run(self) -> None:
        while True:
            with self._news:
                if not self._lacking:
                    self._ended(None)
                    return
                mapped = self._lacking
            try:
                if self._topic is None:
                    self._topic = self._open_topic()
                self._topic.add(mapped)
            except Exception as error:  # any error: a later commit starts again
                if self._topic is not None:
                    self._topic.close()
                    self._topic = None
                with self._news:
                    self._ended(error)
                return
            with self._news:
                self._lacking = {tp: new for tp, new in self._lacking.items() if new is not mapped.get(tp)}

    def _ended(self, error: Exception | None) -> None:
        self.busy, self._error = False, error
        self._news.notify_all()


def _together(before: OffsetMap, new: OffsetMap) -> OffsetMap:
    return {**before, **{tp: extended(before.get(tp), each) for tp, each in new.items()}}


def _ranges(lacking: OffsetMap) -> str:
    """Offsets of the source, [first, next), by partition."""
    ranges = [
        f"{tp.topic}-{tp.partition} [{lacking[tp].spans[0].source_first}, {lacking[tp].spans[-1].source_next})"
        for tp in sorted(lacking)
        if lacking[tp].spans
    ]
    return few(ranges)


_recorders: PerProcess[Recent[tuple[ClientConfig, str], Recorder]] = PerProcess(lambda: Recent(256))


def record(open_topic: OpenMapTopic, config: ClientConfig, topic: str, mapped: OffsetMap) -> Recorder:
    """Hand over what a micro-batch adds to the map in this topic. Returns the recorder, which the process keeps; a
    commit may wait for it."""
    recorder = _recorders.get().of((config, topic), lambda: Recorder(partial(open_topic, config, topic), topic))
    recorder.hand_over(mapped)
    return recorder
