"""Lines of the stderr of Spark's JVM that a command shows."""

import pytest

from kafkasource.spark.launcher import worth_showing

HEAD = [b"PySpark daemon failed to flush the output to the worker process:\n", b"Traceback (most recent call last):\n"]
FLUSH = [b'  File "/x/pyspark/daemon.py", line 95, in worker\n', b"    outfile.flush()\n"]
# The lines of pyspark 4.2 on Python 3.11, when the JVM has closed the connection of an idle worker; and of 4.3 on 3.13.
LET_GO = [*HEAD, *FLUSH, b"BrokenPipeError: [Errno 32] Broken pipe\n", b"\n"]
LET_GO_3_13 = [*HEAD, *FLUSH, b"    ~~~~~~~~~~~~~^^\n", b"BrokenPipeError: [Errno 32] Broken pipe\n", b"\n"]
# The lines of pyspark 4.2 on Python 3.11, when the JVM has closed the connection of a query that has ended.
MANAGER = [
    b'  File "/x/pyspark/daemon.py", line 262, in manager\n',
    b"    code = worker(sock, authenticated)\n",
    b"           ^^^^^^^^^^^^^^^^^^^^^^^^^^^\n",
]
ENDED = [HEAD[1], *MANAGER, *FLUSH, b"BrokenPipeError: [Errno 32] Broken pipe\n"]
ERROR = [b"26/11/26 ERROR MicroBatchExecution: Query terminated with error\n", b"\tat org.apache.spark...\n"]


@pytest.mark.parametrize("let_go", [LET_GO, LET_GO_3_13, ENDED], ids=["idle, 3.11", "idle, 3.13", "query ended"])
def test_the_end_of_a_worker_is_no_news(let_go):
    assert [*worth_showing([*let_go, *ERROR, *let_go, *let_go, *ERROR])] == [*ERROR, *ERROR]
    for cut in range(len(let_go)):  # where the JVM ends while the worker writes
        assert [*worth_showing([*ERROR, *let_go[:cut]])] == ERROR


@pytest.mark.parametrize(
    "other",
    [
        [*HEAD, *FLUSH, b"MemoryError\n", b"\n"],
        [*HEAD, b'  File "/x/mine.py", line 1, in f\n', b"BrokenPipeError: [Errno 32] Broken pipe\n"],
        [HEAD[0], *ERROR],
        [HEAD[1], *MANAGER, *FLUSH, b"MemoryError\n"],
        [HEAD[1], *MANAGER, b'  File "/x/mine.py", line 1, in f\n', *FLUSH[1:], b"BrokenPipeError: [Errno 32]\n"],
        [HEAD[1], b"BrokenPipeError: [Errno 32] Broken pipe\n"],
        [b"\n", *ERROR, b"\n"],
    ],
)
def test_every_other_traceback_is_shown_in_full_and_in_order(other):
    assert [*worth_showing([*ERROR, *other])] == [*ERROR, *other]
    assert [*worth_showing([*other, *LET_GO, *ERROR])] == [*other, *ERROR]
    assert [*worth_showing([*LET_GO, *other])] == other
