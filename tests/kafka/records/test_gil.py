"""What takes long runs without the GIL: another thread gets its turn meanwhile."""

from __future__ import annotations

import sys
import threading

import pyarrow as pa
import pytest
from record_wire import CODECS, batch, record

from kafkasource.kafka.records import COMPILED, kernel
from kafkasource.kafka.records.batches import decode
from kafkasource.kafka.records.builder import BatchBuilder, RecordColumns, append_spans, order_by_partition
from kafkasource.kafka.records.checksum import crc32c
from kafkasource.kafka.records.compression import compress
from kafkasource.kafka.records.partitions import partition_by_key

pytestmark = pytest.mark.skipif(not COMPILED, reason="the interpreted kernel is Python: it holds the GIL")

ROWS = 20_000
VALUES = pa.array([b"a value like the others, number %d" % i for i in range(ROWS)])
RANGE = {"topic": "t", "partition": 0, "start_offset": 0, "end_offset": 1 << 62}


@pytest.fixture
def no_forced_turns():
    """A thread keeps the GIL until it gives it up by itself."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(interval)


def lets_others_run(function, attempts=200):
    """Was this thread ever awake between the start and the end of `function` in another one?

    Once is the proof. That it was not may be the scheduler's doing, so it is tried again.
    """
    for _ in range(attempts):
        started, done = threading.Event(), []

        def work(started=started, done=done):
            started.set()
            function()
            done.append(True)

        worker = threading.Thread(target=work)
        worker.start()
        started.wait()
        seen = not done
        worker.join()
        if seen:
            return True
    return False


def decoding(codec):
    data = batch([record(i, value=value) for i, value in enumerate(VALUES.to_pylist())], codec=codec)
    return lambda: decode(data, **RANGE)


def compressing(codec):
    records = b"".join(record(i, value=value) for i, value in enumerate(VALUES.to_pylist()))
    return lambda: compress(CODECS[codec], memoryview(records))


def encoding():
    columns = RecordColumns(None, VALUES)
    order, spans = order_by_partition(pa.array([i % 100 for i in range(ROWS)], pa.int32()).buffers()[1], 100)
    builders = [BatchBuilder(bytearray(1 << 20)) for _ in range(100)]
    return lambda: append_spans(columns, order, [(builders[p], first, last) for p, first, last in spans])


@pytest.mark.usefixtures("no_forced_turns")
@pytest.mark.parametrize("codec", CODECS)
def test_other_threads_run_while_batches_are_decoded(codec):
    assert lets_others_run(decoding(codec))


@pytest.mark.usefixtures("no_forced_turns")
@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
def test_other_threads_run_while_batches_are_compressed(codec):
    assert lets_others_run(compressing(codec))


@pytest.mark.usefixtures("no_forced_turns")
def test_other_threads_run_while_rows_are_encoded_hashed_and_checked():
    data = bytes(4 << 20)
    assert lets_others_run(encoding())
    assert lets_others_run(lambda: partition_by_key(VALUES, 12))
    assert not kernel.CRC32C or lets_others_run(lambda: crc32c(data))


@pytest.mark.usefixtures("no_forced_turns")
def test_a_thread_that_keeps_the_gil_is_told_from_one_that_gives_it_up():
    assert not lets_others_run(lambda: sum(range(20_000)), attempts=20)
