"""Faults that wait for their requests."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from kafkasource.kafka.protocol.apis import API_VERSIONS
from lab.campaign.faults import Fault
from lab.campaign.storm.faults import ANY, BY_API_NAME, OF_LOGINS

_FIRST = {api.key for api in (API_VERSIONS, *OF_LOGINS)}  # of each connection: most faults would meet these


class Asked(NamedTuple):
    """A request, as its first bytes say."""

    api_key: int
    client_id: str


@dataclass(frozen=True)
class WaitingFault:
    fault: Fault
    armed_ms: int


class WaitingFaults:
    """Any thread may call any method. A fault leaves once: to the first request that it may meet, or as too old."""

    def __init__(self, client_id: str) -> None:
        """`client_id`: faults meet the requests of this client alone."""
        self.client_id = client_id
        self._lock = threading.Lock()
        self._of_nodes: dict[int, deque[WaitingFault]] = {}
        self._of_apis: dict[int, deque[WaitingFault]] = {}

    def add(self, fault: Fault, now_ms: int) -> None:
        waiting = WaitingFault(fault, now_ms)
        with self._lock:
            if fault.variant == ANY:
                self._of_nodes.setdefault(fault.node, deque()).append(waiting)
            else:
                self._of_apis.setdefault(BY_API_NAME[fault.variant].key, deque()).append(waiting)

    def take(self, node: int, asked: Asked) -> WaitingFault | None:
        """What this request meets."""
        if asked.client_id != self.client_id:
            return None
        with self._lock:
            any_request = None if asked.api_key in _FIRST else self._of_nodes.get(node)
            for queue in (self._of_apis.get(asked.api_key), any_request):
                if queue:
                    return queue.popleft()
        return None

    def take_old(self, before_ms: int) -> list[WaitingFault]:
        """Remove those that wait since an earlier time."""
        old = []
        with self._lock:
            for queue in (*self._of_apis.values(), *self._of_nodes.values()):
                while queue and queue[0].armed_ms < before_ms:
                    old.append(queue.popleft())
        return old
