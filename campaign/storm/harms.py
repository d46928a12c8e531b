"""Faults of a storm's processes that the campaign does not have."""

from __future__ import annotations

import threading

from campaign.fault_log import FaultLog
from campaign.faults import Fault
from campaign.harms.application import ApplicationHarms
from campaign.harms.lane import NotPossible
from campaign.storm.processes import StormProcesses
from campaign.watch import Watch


class StormHarms:
    def __init__(self, processes: StormProcesses, whole: threading.Lock, watch: Watch, log: FaultLog) -> None:
        self._processes = processes
        self._others = ApplicationHarms(processes, whole, watch, log)

    def do(self, fault: Fault) -> None:
        if fault.kind == "clock jumps":
            self._processes.jump(float(fault.variant), fault.lasts_s)
        elif fault.kind == "roll back a checkpoint":
            if not self._processes.roll_back(fault.draw, planned=fault.variant == "not yet done"):
                raise NotPossible("the last batch of the query is not done")
        else:
            self._others.do(fault)
