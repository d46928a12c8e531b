"""The lane of a storm's connections: arms faults at their rate, and counts those that take effect."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator

from kafkasource.kafka.protocol.apis import APIS
from lab.campaign.fault_log import FaultLog
from lab.campaign.faults import NODES, Fault
from lab.campaign.storm.connections import Met, StormProxy
from lab.campaign.storm.waiting import WaitingFault, WaitingFaults

MOST_WAITS_MS = 5_000  # for a request to meet; a rarer one does not come
CLIENT_ID = "campaign"


class Arming(threading.Thread):
    """Until `stop`. Its proxies run from the start, and harm nothing before."""

    def __init__(self, log: FaultLog, tls: Callable[[], ssl.SSLContext] | None = None) -> None:
        """`tls`: see `StormProxy`."""
        super().__init__(daemon=True)
        self._log = log
        self._waiting = WaitingFaults(CLIENT_ID)
        self.proxies = [StormProxy(node, self._waiting, self._took_effect, tls) for node in NODES]
        self._ending = threading.Event()
        self._faults: Iterator[Fault] = iter(())

    @property
    def refused_handshakes(self) -> list[str]:
        return [each for proxy in self.proxies for each in proxy.refused_handshakes]

    def begin(self, faults: Iterator[Fault]) -> None:
        self._faults = faults
        self.start()

    def run(self) -> None:
        for fault in self._faults:
            if self._ending.wait(fault.pause_s):
                return
            self._waiting.add(fault, self._log.now_ms())
            self._drop(self._log.now_ms() - MOST_WAITS_MS)

    def stop(self) -> None:
        self._ending.set()
        self.join()
        self._drop(self._log.now_ms() + 1)

    def _drop(self, before_ms: int) -> None:
        for old in self._waiting.take_old(before_ms):
            self._log.add(old.fault, old.armed_ms, "no such request came")

    def _took_effect(self, waiting: WaitingFault, met: Met) -> None:
        api = APIS[met.api_key].name
        self._log.add(
            waiting.fault, waiting.armed_ms, None, met=api, at_node=met.node, at_byte=met.at_byte, of_bytes=met.of_bytes
        )
