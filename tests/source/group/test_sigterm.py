"""What a Python process of Spark still does when Spark ends it with SIGTERM."""

import signal
import subprocess
import sys

import pytest
from child_environment import with_package

# `Member` leaves as a group's member does: on a thread of its own, which needs the lock of the caller.
MEMBER = """
import os, signal, threading
from kafkasource.source.group.committer import close_at_sigterm

lock = threading.RLock()
may_leave = threading.Event()

class Member:
    def close(self, timeout_s):
        leaves = threading.Thread(target=self.leave)
        leaves.start()
        leaves.join(timeout_s)

    def leave(self):
        may_leave.wait()
        with lock:
            os.write(1, b"left")

member = Member()
close_at_sigterm(member)
"""

# The handler of the signal runs within this lock.
HOLDS_THE_LOCK = """
may_leave.set()
with lock:
    signal.raise_signal(signal.SIGTERM)
threading.Event().wait()
"""

# As Spark does: once for the worker, once for all workers.
IS_TOLD_TWICE = """
signal.raise_signal(signal.SIGTERM)
signal.raise_signal(signal.SIGTERM)
may_leave.set()
threading.Event().wait()
"""


def ended(script):
    done = subprocess.run([sys.executable, "-c", MEMBER + script], env=with_package(), capture_output=True, timeout=60)
    return done.stdout, done.returncode, done.stderr


@pytest.mark.parametrize("script", [HOLDS_THE_LOCK, IS_TOLD_TWICE], ids=["holds the lock", "is told twice"])
def test_it_leaves_the_group_before_it_dies(script):
    assert ended(script) == (b"left", -signal.SIGTERM, b"")
