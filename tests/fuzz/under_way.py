"""The input that a process feeds just now, and the end of a process that hangs where no signal reaches Python.

A hang is told by processor time: on a machine that has much else to do, an input may take minutes and be none. Only an
input that waits uses none of it, so waits are told by the wall, with a limit that no busy machine comes near.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
from pathlib import Path

HANG_SECONDS = 20  # of processor time for one input
WAIT_SECONDS = 900  # on the wall, for INPUTS_AT_ONCE
INPUTS_AT_ONCE = 100  # the watch over waits is a thread: one for each input would take longer than the input


class UnderWay:
    """Of one process, in a file of its own. Where it hangs, it prints its stacks and dies."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / str(os.getpid()), os.O_CREAT | os.O_WRONLY)
        self._started = 0
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.register(signal.SIGPROF, chain=True)  # then what the signal does by default: the process dies

    def starts(self, number: int) -> None:
        os.pwrite(self._file, b"%20d" % number, 0)
        signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
        if self._started % INPUTS_AT_ONCE == 0:
            faulthandler.dump_traceback_later(WAIT_SECONDS, exit=True)
        self._started += 1

    def ends(self) -> None:
        """Until the next start: the process may be without work for any time."""
        self._started = 0
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()


def inputs_under_way(folder: Path) -> list[int]:
    """The last one that each process started."""
    return sorted(int(file.read_bytes()) for file in folder.iterdir() if file.stat().st_size)
