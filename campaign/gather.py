"""After the faults: wait until all copies are whole, read them, and lay everything together as a history."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from campaign.checker import Batch, Copy, History, Record, Translation, Wait
from campaign.fault_log import FaultLog
from campaign.lines import Told
from campaign.members import Members
from campaign.producers import Producing
from campaign.queries import TOLD, Names, copies
from campaign.reading import LogReader
from campaign.watch import Watch
from kafkasource.client.config import ClientConfig
from kafkasource.offset_map import OffsetMapTopic, translate
from kafkasource.types import TopicPartition

DRAIN_MS = 240_000  # promised, once nothing is harmed any more; what stands still for so long never comes
FOLLOW = "what Reader.follow gave"


class Drain:
    """Reads all topics of a campaign until every copy has what its source has."""

    def __init__(
        self,
        servers: str,
        names: Names,
        followed: Path,
        members: Members,
        log: FaultLog,
        drain_ms: int = DRAIN_MS,
    ) -> None:
        self._names, self._log, self._drain_ms = names, log, drain_ms
        self._followed = Told(followed)
        self._follower: list[Record] = []
        self.copies = copies(names)
        topics = dict.fromkeys(
            [names.source, *(copy.target for copy in self.copies if copy.target not in (FOLLOW, TOLD))]
        )
        self._readers = {topic: LogReader(servers, topic) for topic in topics}
        self._sources: dict[str, LogReader | Members] = {**self._readers, TOLD: members}
        self.waits: list[Wait] = []

    def run(self) -> dict[str, Sequence[Record]]:
        """The logs. Ends when all is there, or nothing has come for the promised time."""
        came_ms = self._log.now_ms()
        lacking = {copy.name: copy for copy in self.copies if copy.target != FOLLOW}
        while lacking or not self._follower_has_all():
            now_ms = self._log.now_ms()
            if sum(each.look() for each in self._sources.values()):
                came_ms = now_ms
            source = self._readers[self._names.source].values
            for copy in list(lacking.values()):
                if source and source <= self._sources[copy.target].values:
                    self.waits.append(Wait(f"{copy.name} has all", came_ms, now_ms, DRAIN_MS))
                    del lacking[copy.name]
            if now_ms - came_ms > self._drain_ms:
                self.waits += [Wait(f"{name} has all", came_ms, None, DRAIN_MS) for name in lacking]
                break
            time.sleep(0.2)
        return {
            **{name: each.records for name, each in self._sources.items()},
            FOLLOW: self._follower,
        }

    def _follower_has_all(self) -> bool:
        self._follower += self._followed.more()
        return len(self._follower) >= len(self._readers[self._names.source].records) > 0

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
    producers: Sequence[Producing],
    logs: dict[str, Sequence[Record]],
    of_copies: Sequence[Copy],
    of_batches: Sequence[Batch],
    of_translations: Sequence[Translation],
    watch: Watch,
    waits: Sequence[Wait],
) -> History:
    written = [each for producer in producers for each in producer.written]
    of_producers = [Wait(f"a producer: {each.error}", 0, None, 0) for each in producers if each.error is not None]
    all_waits = [*watch.waits, *waits, *of_producers]
    return History(written, logs, of_copies, of_batches, watch.glimpses, of_translations, all_waits)
