"""Records of a topic within the bounds of a request: wherever one ends a page, the next pages go on. No broker."""

from datetime import datetime, timezone

import pyarrow as pa
import pytest

from kafkasource.kafka.records.arrow.columns import ROW_SCHEMA_WITH_HEADERS
from kafkasource.tools.ui.browsing import Browser, Limits, Wanted
from kafkasource.types import OffsetRange, TopicPartition


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
                    "timestamp": datetime.fromtimestamp(1.7e9 + offset, timezone.utc),
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


def test_partitions_that_a_page_did_not_come_to_are_next_before_more_of_the_others():
    reader, cursor, shown = SlowReader(9, 5, size=1000), None, []
    for _ in range(3):
        page = Browser(reader, Wanted(20), Limits(bytes=2_500)).back(cursor)
        shown += [(each["partition"], each["offset"]) for each in page.records]
        cursor = page.older
    assert sorted(shown) == [(partition, 4) for partition in range(9)]


@pytest.mark.parametrize("partitions", [1, 60])
@pytest.mark.parametrize("key", [None, b"rare", b"none"])
def test_over_a_slow_line_each_request_gets_further(partitions, key):
    reader = SlowReader(partitions, 60, seconds=0.1)  # a request has 15 seconds: 150 records
    shown = pages(reader, Wanted(50, key), Limits())
    offsets = [offset for offset in range(60) if key is None or (key == b"rare" and offset % 10 == 3)]
    assert sorted(shown) == [(partition, offset) for partition in range(partitions) for offset in offsets]


@pytest.mark.parametrize("key", [None, b"none"])
def test_a_request_ends_when_its_seconds_have_passed(key):
    reader = SlowReader(200, 5_000, seconds=0.1)
    page = Browser(reader, Wanted(50, key), Limits(), clock=lambda: reader.now).back()
    assert page.limited
    assert reader.now < 15 + 0.2
    stuck = SlowReader(1, 5_000, seconds=60)
    page = Browser(stuck, Wanted(50, key), Limits(), clock=lambda: stuck.now).back()
    assert page.older == {0: 4_999}  # one record at least, however long it took


def test_a_key_that_is_near_the_end_is_found_without_a_look_at_all_that_one_request_may_examine():
    reader = SlowReader(1, 100_000)
    assert len(Browser(reader, Wanted(1, b"rare"), clock=lambda: reader.now).back().records) == 1
    assert Browser(reader, Wanted(1, b"rare"), clock=lambda: reader.now).back().examined <= 2_000


def test_a_request_examines_no_more_than_its_bounds_whatever_its_passes():
    reader = SlowReader(2, 50_000, size=100)
    for limits in (Limits(records=10_000), Limits(bytes=1 << 20)):
        page = Browser(reader, Wanted(50, b"none"), limits, clock=lambda: reader.now).back()
        assert page.limited
        assert page.examined <= limits.records
        assert page.examined * 100 <= limits.bytes
        assert sum(50_000 - each for each in page.older.values()) > page.examined // 2


def test_the_partitions_of_a_page_are_read_together():
    reader = SlowReader(200, 5)
    Browser(reader, Wanted(50), clock=lambda: reader.now).back()
    assert reader.reads == 1
