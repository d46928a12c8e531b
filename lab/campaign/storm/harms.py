"""Faults of a storm's processes that the campaign does not have."""

from __future__ import annotations

import threading

from lab.campaign.fault_log import FaultLog
from lab.campaign.faults import Fault
from lab.campaign.harms.application import ApplicationHarms
from lab.campaign.harms.lane import NotPossible
from lab.campaign.storm.processes import StormProcesses
from lab.campaign.watch import Watch


class StormHarms(ApplicationHarms):
    def __init__(self, processes: StormProcesses, whole: threading.Lock, watch: Watch, log: FaultLog) -> None:
        super().__init__(processes, whole, watch, log)
        self._processes = processes
        self._by_kind |= {
            "clock jumps": lambda fault: processes.jump(float(fault.variant), fault.lasts_s),
            "roll back a checkpoint": self._roll_back,
        }

    def _roll_back(self, fault: Fault) -> None:
        if not self._processes.roll_back(fault.draw, planned=fault.variant == "not yet done"):
            raise NotPossible("the last batch of the query is not done")
