"""After the faults: wait until all copies are whole, read them, and lay everything together as a history."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from kafkasource.kafka.config import ClientConfig
from kafkasource.mirror.offset_map import OffsetMapTopic, translate
from kafkasource.types import TopicPartition
from lab.campaign.checker import Batch, Copy, History, Passed, Record, Translation, Wait, Written
from lab.campaign.fault_log import FaultLog
from lab.campaign.producers import Producing
from lab.campaign.queries import Names
from lab.campaign.reading import LogReader
from lab.campaign.watch import Watch

DRAIN_MS = 240_000  # promised, once nothing is harmed any more; what stands still for so long never comes


class GrowingLog(Protocol):
    """A log that is read while it grows."""

    @property
    def values(self) -> set[bytes]: ...

    @property
    def records(self) -> Sequence[Record]: ...

    def look(self) -> int:
        """Read what has come since the last look; how many records that were."""
        ...


class Drain:
    """Reads all logs of a campaign until every copy has what its source has."""

    def __init__(
        self,
        servers: str,
        source: str,
        copies: Sequence[Copy],
        told: Mapping[str, GrowingLog],
        log: FaultLog,
        drain_ms: int = DRAIN_MS,
    ) -> None:
        """`source`: the topic that all `copies` are of; `told`: their targets that are no topics, by name."""
        self._source, self._copies, self._log, self._drain_ms = source, copies, log, drain_ms
        topics = dict.fromkeys([source, *(copy.target for copy in copies if copy.target not in told)])
        self._readers = {topic: LogReader(servers, topic) for topic in topics}
        self._logs: dict[str, GrowingLog] = {**self._readers, **told}
        self.waits: list[Wait] = []

    def run(self) -> dict[str, Sequence[Record]]:
        """The logs. Ends when all is there, or nothing has come for the promised time."""
        came_ms = self._log.now_ms()
        lacking = {copy.name: copy for copy in self._copies if copy.left_out is None}
        while lacking:
            now_ms = self._log.now_ms()
            if sum(each.look() for each in self._logs.values()):
                came_ms = now_ms
            source = self._logs[self._source].values
            for copy in list(lacking.values()):
                if source and source <= self._logs[copy.target].values:
                    self.waits.append(Wait(f"{copy.name} has all", came_ms, now_ms, DRAIN_MS))
                    del lacking[copy.name]
            if now_ms - came_ms > self._drain_ms:
                self.waits += [Wait(f"{name} has all", came_ms, None, DRAIN_MS) for name in lacking]
                break
            time.sleep(0.2)
        return {name: each.records for name, each in self._logs.items()}

    def look_again(self) -> None:
        """What has come since, which nothing should."""
        for reader in self._readers.values():
            reader.look(1.0)

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()


def batches(checkpoint: Path, query: str, topic: str) -> list[Batch]:
    """Of a query, by the offsets in its checkpoint: a batch begins where the one before it ended."""
    files = sorted(int(file.name) for file in (checkpoint / "offsets").glob("[0-9]*"))
    found, before = [], dict[int, int]()
    for number in files:
        text = (checkpoint / "offsets" / str(number)).read_text().splitlines()[2]
        ends = {int(partition): end for partition, end in json.loads(text).get(topic, {}).items()}
        found.append(Batch(query, number, {p: (before.get(p, 0), end) for p, end in ends.items()}))
        before = ends
    return found


def translations(servers: str, names: Names, source: Sequence[Record]) -> list[Translation]:
    """What the mirror's map says of each offset of the source that has a record, and of the one behind."""
    asked = {(record.partition, offset) for record in source for offset in (record.offset, record.offset + 1)}
    with OffsetMapTopic(ClientConfig.of(servers), names.offset_map) as topic:
        known = topic.read()
    found = []
    for partition, offset in sorted(asked):
        said = translate(known, TopicPartition(names.source, partition), offset)
        if said is not None:
            exact = said.exact and said.behind == 0
            found.append(Translation("mirror", partition, offset, said.offset, exact))
    return found


def history(
    written: Sequence[Written],
    logs: dict[str, Sequence[Record]],
    of_copies: Sequence[Copy],
    of_batches: Sequence[Batch],
    of_translations: Sequence[Translation],
    watch: Watch,
    waits: Sequence[Wait],
    passed: Sequence[Passed] = (),
) -> History:
    all_waits = [*watch.waits, *waits]
    return History(written, logs, of_copies, of_batches, watch.glimpses, of_translations, all_waits, passed)


def of_producers(producers: Iterable[Producing]) -> tuple[list[Written], list[Wait]]:
    """What they wrote, and a wait that never ended for each one that failed."""
    written = [each for producer in producers for each in producer.written]
    return written, [Wait(f"a producer: {each.error}", 0, None, 0) for each in producers if each.error is not None]
