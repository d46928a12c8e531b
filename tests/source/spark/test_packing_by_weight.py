"""How many tasks a micro-batch has by what its records weigh, and what that costs in questions: brokers in this process
whose logs hold record batches that we did not encode.
"""

import pytest
from fake_broker import FakeNet
from thin_line import BigLog

from kafkasource import options
from kafkasource.kafka.protocol.apis import FETCH
from kafkasource.source.spark.stream import StreamReader

MIB = 1 << 20


@pytest.fixture
def query():
    """Micro-batches of four partitions; `next(size)` is the next one, of so many offsets of each: its tasks."""
    made = []

    class Query:
        def __init__(self, log, **given):
            self.log, self.net = log, FakeNet(log)
            self.log.log_end = 0
            written = {"kafka.bootstrap.servers": "bootstrap:9092", "subscribe": "t", "startingOffsets": "earliest"}
            self.reader = StreamReader(options.parse({**written, **given}, "source"), lambda config: self.net.cluster())
            self.offset = self.reader.initialOffset()
            made.append(self.reader)

        def next(self, size):
            self.log.log_end += size
            end = self.reader.latestOffset(self.offset, self.reader.getDefaultReadLimit())
            tasks = self.reader.partitions(self.offset, end)
            self.offset = end
            return [len(task.value) for task in tasks]

    yield Query
    for reader in made:
        reader.stop()


def test_few_records_of_a_megabyte_are_not_one_task(query):
    """4 x 5,000 of them, 20 GB, were one."""
    assert query(BigLog(10**6, value_bytes=MIB, partitions=4, rows=1)).next(5_000) == [1, 1, 1, 1]


def test_small_records_are_packed_as_before_and_asked_about_once(query):
    log = BigLog(10**6, value_bytes=100, partitions=4)
    running = query(log)
    for _ in range(20):
        assert running.next(1_000) == [4]
    assert len(log.asked(FETCH)) == 1


@pytest.mark.parametrize(
    ("size", "given"),
    [(7, {}), (30_000, {}), (1_000, {"minRecordsPerPartition": "1"}), (1_000, {"maxRecordsPerPartition": "500"})],
    ids=["a few rows", "tasks of their own by offsets", "packing is off", "the user says how large a task is"],
)
def test_where_weights_change_nothing_none_are_asked_for(query, size, given):
    log = BigLog(10**6, partitions=4)
    query(log, **given).next(size)
    assert log.asked(FETCH) == []


def test_a_limit_in_bytes_and_packing_ask_once_together(query):
    """100 records of 1 MiB are three tasks' worth."""
    log = BigLog(10**6, value_bytes=MIB, partitions=4, rows=1)
    assert query(log, maxBytesPerTrigger=str(100 * MIB)).next(5_000) == [2, 1, 1]
    assert len(log.asked(FETCH)) == 1
