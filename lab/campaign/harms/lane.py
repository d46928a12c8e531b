"""A lane of faults: a thread that walks its schedule, and does one fault after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from lab.campaign.fault_log import FaultLog
from lab.campaign.faults import Fault

Doing = Callable[[Fault], None]


class NotPossible(Exception):
    """There is nothing that this fault could meet now."""


class Lane(threading.Thread):
    """Until `stop`."""

    def __init__(self, name: str, faults: Iterator[Fault], do: Doing, log: FaultLog) -> None:
        super().__init__(daemon=True)
        self.lane, self._faults, self._do, self._log = name, faults, do, log
        self._ending = threading.Event()

    def run(self) -> None:
        for fault in self._faults:
            if self._ending.wait(fault.pause_s):
                return
            began_ms = self._log.now_ms()
            try:
                self._do(fault)
            except Exception as error:
                self._log.add(fault, began_ms, repr(error)[:300])
            else:
                self._log.add(fault, began_ms, None)

    def stop(self) -> None:
        self._ending.set()

    def wait(self) -> None:
        self.join(600)
        if self.is_alive():
            self._log.note("a lane did not end", lane=self.lane)
