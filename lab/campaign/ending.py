"""How a campaign ends early: SIGTERM unwinds it as Ctrl-C does, and what it has started ends when it is gone.

Spark and the follower are sessions of their own, as faults kill them, so no signal of a terminal reaches them. The
brokers have a supervisor that does the same (`kafkasource.testing.broker.supervisor`).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType


def on_sigterm_unwind() -> None:
    """For the main thread of a campaign. A second SIGTERM does not disturb the end that the first one began."""

    def unwind(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, unwind)


def end_with_starter() -> None:
    """For a process that a campaign started with a pipe as its stdin: kills its process group once the pipe is closed,
    which the kernel does even for a campaign that was killed with -9."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
