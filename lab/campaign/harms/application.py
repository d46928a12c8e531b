"""Faults of the processes: of the application that runs the queries, and of the group's members."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from confluent_kafka import KafkaException

from lab.campaign.fault_log import FaultLog
from lab.campaign.faults import Fault
from lab.campaign.harms.lane import Doing, NotPossible
from lab.campaign.members import Members
from lab.campaign.processes import DRIVER, EXECUTOR, Processes
from lab.campaign.watch import Watch

MEMBERS_SETTLE_S = 5.0  # after each fault of a member: a group that always rebalances reads nothing
CRASH_S = 60.0  # for a process to come to a point


class Application(Protocol):
    """What runs the queries: Spark, or what stands for it."""

    crash_file: Path

    def start_application(self) -> None: ...
    def kill_application(self) -> None: ...
    def kill_a_python_process(self, draw: float) -> str | None: ...
    def hang_a_python_process(self, draw: float, lasts_s: float) -> bool:
        """False: there is none."""
        ...

    def crash_at(self, point: str) -> None: ...
    def keep_running(self) -> bool:
        """Start again what has ended by itself. False: all ran."""
        ...


class ApplicationHarms:
    """Of any application; a class for each kind of application adds to `_by_kind`. `whole`: see `Brokers`."""

    def __init__(self, application: Application, whole: threading.Lock, watch: Watch, log: FaultLog) -> None:
        self._application, self._whole, self._watch, self._log = application, whole, watch, log
        self._by_kind: dict[str, Doing] = {
            "kill a Python process": self._kill_python,
            "crash at a point": self._crash,
            "kill the driver": self._kill_driver,
            "hang a Python process": self._hang_python,
        }

    def do(self, fault: Fault) -> None:
        self._by_kind[fault.kind](fault)

    def _kill_python(self, fault: Fault) -> None:
        _need(self._application.kill_a_python_process(fault.draw))
        self._keep_running()

    def _crash(self, fault: Fault) -> None:
        self._application.crash_at(fault.variant)
        deadline = time.monotonic() + CRASH_S
        while self._application.crash_file.exists():
            if time.monotonic() > deadline:
                self._application.crash_file.unlink(missing_ok=True)
                raise NotPossible(f"no process came to {fault.variant!r} within {CRASH_S:g} s")
            time.sleep(0.05)
        self._keep_running()

    def _hang_python(self, fault: Fault) -> None:
        _need(self._application.hang_a_python_process(fault.draw, fault.lasts_s))
        self._keep_running()

    def _kill_driver(self, _fault: Fault) -> None:
        self._end(self._application.kill_application)

    def _end(self, how: Callable[[], None]) -> None:
        """End the application, look at what is left while nothing runs, start it again, and wait until all go on."""
        how()
        try:
            with self._whole:
                self._watch.look(at_rest=True)
        except KafkaException as error:
            self._log.note("no look at rest", error=str(error)[:200])
        self._application.start_application()
        self._watch.await_progress()

    def _keep_running(self) -> None:
        if self._application.keep_running():
            self._log.note("the application had ended by itself")


class SparkHarms(ApplicationHarms):
    """Of an application that runs in Spark."""

    def __init__(self, processes: Processes, whole: threading.Lock, watch: Watch, log: FaultLog) -> None:
        super().__init__(processes, whole, watch, log)
        self._by_kind |= {
            "kill an executor": lambda fault: _need(processes.send(EXECUTOR, fault.draw, signal.SIGKILL)),
            "hang an executor": lambda fault: _need(processes.hang(EXECUTOR, fault.draw, fault.lasts_s)),
            "hang the driver": lambda fault: _need(processes.hang(DRIVER, fault.draw, fault.lasts_s)),
            "stop the driver": lambda _fault: self._end(processes.stop_application),
        }


def _need(found: object) -> None:
    if not found:
        raise NotPossible("the application has no such process now")


class MemberHarms:
    def __init__(self, members: Members) -> None:
        self._by_kind: dict[str, Doing] = {
            "kill a member": lambda fault: members.kill(fault.draw, fault.lasts_s),
            "hang a member": lambda fault: members.hang(fault.draw, fault.lasts_s),
            "a member leaves": lambda fault: members.leave(fault.draw, fault.lasts_s),
        }

    def do(self, fault: Fault) -> None:
        self._by_kind[fault.kind](fault)
        time.sleep(MEMBERS_SETTLE_S)
