"""The parent of one broker JVM: a process of its own, so that a test run killed with -9 leaves no Kafka behind.

Run as a script with nothing but the standard library. Its stdin is a pipe whose other end the starting process holds:

    end of file    the starter has ended, in whatever way: kill the JVM, remove the data
    b"d"           the starter leaves the broker running (`pykafka broker start`): only SIGTERM ends it from now on
    SIGTERM        stop the JVM cleanly, kill it after the grace period

A pipe rather than PR_SET_PDEATHSIG, which exists on Linux only and fires when the starting *thread* ends. A child that
the starter forked holds the pipe open as well, so the supervisor also watches its parent's pid.
The JVM stays in this process's group, which the supervisor leads: killing the group ends both at once.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from types import FrameType

GRACE_S = 20.0
POLL_S = 0.5


def main(argv: list[str]) -> int:
    """`supervisor.py STARTER_PID REMOVE_DIR|"" COMMAND...`; returns the command's exit code."""
    starter, remove, command = int(argv[0]), argv[1], argv[2:]
    asked_to_stop = False

    def on_sigterm(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked_to_stop
        asked_to_stop = True

    signal.signal(signal.SIGTERM, on_sigterm)
    # close_fds: the JVM inherits the pipe by which the starter sees that we both are gone.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, close_fds=False)
    watching = True
    while (code := child.poll()) is None and not asked_to_stop:
        if not watching:
            time.sleep(POLL_S)
            continue
        readable, _, _ = select.select([0], [], [], POLL_S)
        said = os.read(0, 1) if readable else None
        if said == b"d":
            watching = False
        elif said == b"" or os.getppid() != starter:
            child.kill()
            child.wait()
            if remove:
                shutil.rmtree(remove, ignore_errors=True)
            return 1
    if code is None:
        child.terminate()
        try:
            code = child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
