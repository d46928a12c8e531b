"""What a Python process of Spark still does when Spark ends it with SIGTERM."""

import os
import signal
import subprocess
import sys

import pytest
from child_environment import with_package

# `Member` leaves as a group's member does: on a thread of its own, which needs the lock of the caller.
MEMBER = """
import os, signal, threading
from kafkasource.source.commits.sigterm import close_at_sigterm

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


# The state of a process that the signal found just before a read: Python has a note of it, and the read goes on. Here
# another thread of the process gets the signal, while the main thread is in one call of C, which prints and then reads.
READS_ON = """
import ctypes
may_leave.set()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
ctypes.CDLL(None).system(b"printf reads; read line")
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
threading.Event().wait()
"""


def test_it_leaves_the_group_though_the_main_thread_reads_on():
    script = [sys.executable, "-c", MEMBER + READS_ON]
    with subprocess.Popen(script, env=with_package(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.read(5) == b"reads"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read(4) == b"left"
        process.stdin.close()
        assert process.wait(60) == -signal.SIGTERM


IS_FORKED = """
may_leave.set()
child = os.fork()
if child == 0:
    os.write(1, b"reads")
    os.read(0, 1)
    threading.Event().wait()
os.write(1, f"{child} ".encode())
os.write(1, f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])} ".encode())
os.read(0, 1)
"""


def test_a_forked_childs_signal_ends_the_child_alone():
    script = [sys.executable, "-c", MEMBER + IS_FORKED]
    with subprocess.Popen(script, env=with_package(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        said = b""
        while b"reads" not in said or b" " not in said:
            said += os.read(process.stdout.fileno(), 100)
        os.kill(int(said.replace(b"reads", b"").split()[0]), signal.SIGTERM)
        assert os.read(process.stdout.fileno(), 100) == f"{-signal.SIGTERM} ".encode()
        process.stdin.close()
        assert process.stdout.read() == b""  # the parent left no group
        assert process.wait(60) == 0
