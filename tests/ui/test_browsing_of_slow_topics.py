"""Records of a topic within the bounds of a request: wherever one ends a page, the next pages go on. The reader is ours."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from kafkasource.records.arrow.columns import ROW_SCHEMA_WITH_HEADERS
from kafkasource.types import OffsetRange, TopicPartition
from kafkasource.ui.browsing import Browser, Limits, Wanted


class SlowReader:
    """`records` of `size` bytes in each of `partitions`; a batch of each record, which takes `seconds`."""

    def __init__(self, partitions, records, size=10, seconds=0.0):
        self.partitions, self.records, self.size, self.seconds = partitions, records, size, seconds
        self.now = 0.0
        self.reads = 0

    def plan(self):
        return [OffsetRange(TopicPartition("t", each), 0, self.records) for each in range(self.partitions)]

    def read(self, ranges):
        self.reads += 1
        for one in ranges:
            for offset in range(one.start_offset, one.end_offset):
                self.now += self.seconds
                row = {
                    "key": b"rare" if offset % 10 == 3 else b"other",
                    "value": b"x" * self.size,
                    "topic": "t",
                    "partition": one.topic_partition.partition,
                    "offset": offset,
                    "timestamp": datetime.fromtimestamp(1.7e9 + offset, UTC),
                    "timestampType": 0,
                }
                yield pa.RecordBatch.from_pylist([row], schema=ROW_SCHEMA_WITH_HEADERS)


def pages(reader, wanted, limits, most=500):
    """What page after page shows, newest first."""
    shown, cursor = [], None
    for _ in range(most):
        page = Browser(reader, wanted, limits, clock=lambda: reader.now).back(cursor)
        shown += [(each["partition"], each["offset"]) for each in page.records]
        assert page.oldest or (page.older != cursor and (len(page.records) == wanted.count or page.limited))
        if page.oldest:
            return shown
        cursor = page.older
    raise AssertionError(f"{most} pages, and still not at the oldest record")


@pytest.mark.parametrize("most_bytes", [5_000, 2_500, 1])
def test_where_a_request_cannot_hold_a_record_of_each_partition_the_next_ones_show_the_others(most_bytes):
    shown = pages(SlowReader(10, 5, size=1000), Wanted(20), Limits(bytes=most_bytes))
    assert sorted(shown) == [(partition, offset) for partition in range(10) for offset in range(5)]
