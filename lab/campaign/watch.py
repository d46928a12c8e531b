"""What is seen of the queries while they run: glimpses of their targets and groups, and how long they stood still."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from confluent_kafka import KafkaException

from lab.campaign.checker import Glimpse, Wait
from lab.campaign.fault_log import FaultLog
from lab.campaign.queries import GROUP_OF, IN_PARTITIONS, MIRROR, OUT_PARTITIONS, SINKS, Names
from lab.campaign.reading import committed, stable_ends
from lab.campaign.rig import Brokers

BETWEEN_S = 5.0
SETTLED_S = 2.0  # in which markers of ended transactions are written
PROMISED_MS = 300_000  # a query that was killed goes on within it, under faults, on two cores that are busy, too


class Watch(threading.Thread):
    """Looks at groups now and then, while no broker is harmed."""

    def __init__(self, rig: Brokers, names: Names, log: FaultLog) -> None:
        super().__init__(daemon=True)
        self._rig, self._names, self._log = rig, names, log
        self._ending = threading.Event()
        self.glimpses: list[Glimpse] = []
        self.waits: list[Wait] = []

    def run(self) -> None:
        while not self._ending.wait(BETWEEN_S):
            with suppress(KafkaException), self._rig.whole:
                self.look(at_rest=False)

    def stop(self) -> None:
        self._ending.set()
        self.join(120)

    def look(self, at_rest: bool) -> None:
        """Only with `rig.whole`. At rest: nothing runs that could end a transaction. Raises KafkaException."""
        source, servers = self._names.source, self._rig.servers
        partitions = range(self._rig.partitions(source))
        groups = {query: committed(servers, self._names.group(query), source, partitions) for query in GROUP_OF}
        time.sleep(SETTLED_S)
        for query in SINKS:
            ends = self._settled_ends(query) if at_rest else self.ends(query)
            self.glimpses.append(Glimpse(query, self._log.now_ms(), ends, groups.get(query, {}), at_rest))

    def _settled_ends(self, query: str) -> dict[int, int]:
        """When they no longer change."""
        before = self.ends(query)
        while True:
            time.sleep(SETTLED_S)
            if (now := self.ends(query)) == before:
                return now
            before = now

    def ends(self, query: str) -> dict[int, int]:
        count = IN_PARTITIONS if query == MIRROR else OUT_PARTITIONS
        return stable_ends(self._rig.servers, self._names.target(query), range(count))

    def await_progress(self) -> None:
        """After the application was started again: each query writes more, in the promised time."""
        began_ms, waiting = self._log.now_ms(), dict[str, dict[int, int]]()
        while len(waiting) < len(SINKS):
            with suppress(KafkaException):
                waiting |= {query: self.ends(query) for query in SINKS if query not in waiting}
        while waiting and not self._ending.is_set():
            now_ms = self._log.now_ms()
            for query, before in list(waiting.items()):
                with suppress(KafkaException):
                    if sum(self.ends(query).values()) > sum(before.values()):
                        self.waits.append(Wait(f"{query} goes on after a kill", began_ms, now_ms, PROMISED_MS))
                        del waiting[query]
            if now_ms - began_ms > PROMISED_MS:
                self.waits += [Wait(f"{query} goes on after a kill", began_ms, None, PROMISED_MS) for query in waiting]
                return
            time.sleep(0.5)
