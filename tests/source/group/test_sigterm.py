"""What a Python process of Spark still does when Spark ends it with SIGTERM."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import kafkasource

# The main thread is interrupted while it holds the lock without which the other thread cannot say goodbye.
HOLDS_THE_LOCK = """
import os, signal, threading, time
from kafkasource.source.group.committer import close_at_sigterm

lock = threading.RLock()

class Member:
    def close(self, timeout_s):
        leaves = threading.Thread(target=self.leave)
        leaves.start()
        leaves.join(timeout_s)

    def leave(self):
        with lock:
            os.write(1, b"left")

close_at_sigterm(Member())
with lock:
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(1000):  # the handler runs here
        pass
while True:
    time.sleep(60)
"""


def test_it_leaves_the_group_though_it_was_interrupted_where_it_held_the_members_lock():
    environment = {**os.environ, "PYTHONPATH": str(Path(kafkasource.__file__).parents[1])}
    command = [sys.executable, "-c", HOLDS_THE_LOCK]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert (done.stdout, done.returncode) == (b"left", -signal.SIGTERM), done.stderr
