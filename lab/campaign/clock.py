"""The wall clock of a campaign's process, which a fault makes jump.

Debian's libfaketime would slow down each call of each process, and moves the monotonic clock, too, by which clients
measure timeouts; no machine's does jump. So this replaces `time.time` of Python: what kafkasource knows of the date.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

ENVIRONMENT = "CAMPAIGN_CLOCK"  # a file with the seconds by which the clock is wrong
LOOK_AGAIN_S = 0.1


def jumps_by_file() -> None:
    """From now on `time.time` is wrong by what the file says. A process without the variable keeps its clock."""
    file = os.environ.get(ENVIRONMENT)
    if file is None:
        return
    right, wrong_by_s = time.time, [0.0]

    def watch() -> None:
        while True:
            wrong_by_s[0] = wrong_by(Path(file))
            time.sleep(LOOK_AGAIN_S)

    time.time = lambda: right() + wrong_by_s[0]
    threading.Thread(target=watch, daemon=True).start()


def wrong_by(file: Path) -> float:
    try:
        return float(file.read_text())
    except (OSError, ValueError):  # there is none, or it is being written
        return 0.0
