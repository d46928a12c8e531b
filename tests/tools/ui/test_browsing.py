"""Records of a topic within the bounds of a request: wherever one ends a page, the next pages go on. No broker."""

from datetime import datetime, timezone

import pyarrow as pa
import pytest

from kafkasource.kafka.records.arrow.columns import ROW_SCHEMA_WITH_HEADERS
from kafkasource.tools.ui.browsing import Browser, Limits, RecordSearch
from kafkasource.types import OffsetRange, TopicPartition


class SlowReader:
    """`records` of `size` bytes in each of `partitions`, in batches of `batch`; each record takes `seconds`. Later
    offsets may have earlier timestamps."""

    def __init__(self, partitions, records, size=10, seconds=0.0, batch=1):
        self.partitions, self.records, self.size, self.seconds = partitions, records, size, seconds
        self.batch = batch
        self.now = 0.0
        self.reads = 0

    def plan(self):
        return [OffsetRange(TopicPartition("t", partition), 0, self.records) for partition in range(self.partitions)]

    def read(self, ranges):
        self.reads += 1
        for planned in ranges:
            for start in range(planned.start_offset, planned.end_offset, self.batch):
                offsets = range(start, min(start + self.batch, planned.end_offset))
                self.now += self.seconds * len(offsets)
                rows = [self._row(planned.topic_partition.partition, offset) for offset in offsets]
                yield pa.RecordBatch.from_pylist(rows, schema=ROW_SCHEMA_WITH_HEADERS)

    def _row(self, partition, offset):
        return {
            "key": b"rare" if offset % 10 == 3 else b"other",
            "value": b"x" * self.size,
            "topic": "t",
            "partition": partition,
            "offset": offset,
            "timestamp": datetime.fromtimestamp(1.7e9 + offset * 7919 % 5000, timezone.utc),
            "timestampType": 0,
        }


def pages(reader, wanted, limits, way="back"):
    """Records of page after page: newest first (`back`), or oldest first (`forward`)."""
    shown, cursor = [], None
    for _ in range(500):
        page = getattr(Browser(reader, wanted, limits, clock=lambda: reader.now), way)(cursor)
        shown += [(record["partition"], record["offset"]) for record in page.records]
        following = page.older if way == "back" else page.newer
        if page.oldest or (way == "forward" and following == cursor):
            return shown
        assert following != cursor
        assert way == "forward" or len(page.records) == wanted.count or page.limited
        cursor = following
    raise AssertionError("500 pages, and still not at the end")


@pytest.mark.parametrize("key", [None, b"rare"])
@pytest.mark.parametrize(
    "limits",
    [Limits(), Limits(records=12), Limits(bytes=5_000), Limits(bytes=1_500)],
    ids=["wide", "records", "bytes", "not a record of each partition"],
)
@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("way", ["back", "forward"])
def test_page_after_page_shows_each_record_once_and_each_partition_in_order(way, batch, limits, key):
    shown = pages(SlowReader(3, 20, size=1000, batch=batch), RecordSearch(7, key), limits, way)
    offsets = [offset for offset in range(20) if key is None or offset % 10 == 3]
    assert sorted(shown) == [(partition, offset) for partition in range(3) for offset in offsets]
    for partition in range(3):
        of_partition = [offset for number, offset in shown if number == partition]
        assert of_partition == (offsets if way == "forward" else offsets[::-1])


def test_a_search_that_its_limit_ends_says_so():
    page = Browser(SlowReader(3, 20), RecordSearch(50, b"none"), Limits(records=12)).back()
    assert (page.records, page.limited) == ([], True)
    assert all(offset > 0 for offset in page.older.values())
    page = Browser(SlowReader(3, 20), RecordSearch(50, b"none")).back()
    assert (page.records, page.limited) == ([], False)


@pytest.mark.parametrize("most_bytes", [5_000, 2_500, 1])
def test_where_a_request_cannot_hold_a_record_of_each_partition_the_next_ones_show_the_others(most_bytes):
    shown = pages(SlowReader(10, 5, size=1000), RecordSearch(20), Limits(bytes=most_bytes))
    assert sorted(shown) == [(partition, offset) for partition in range(10) for offset in range(5)]


def test_partitions_that_a_page_did_not_come_to_are_next_before_more_of_the_others():
    reader, cursor, shown = SlowReader(9, 5, size=1000), None, []
    for _ in range(3):
        page = Browser(reader, RecordSearch(20), Limits(bytes=2_500)).back(cursor)
        shown += [(record["partition"], record["offset"]) for record in page.records]
        cursor = page.older
    assert sorted(shown) == [(partition, 4) for partition in range(9)]


@pytest.mark.parametrize("partitions", [1, 60])
@pytest.mark.parametrize("key", [None, b"rare", b"none"])
def test_over_a_slow_line_each_request_gets_further(partitions, key):
    reader = SlowReader(partitions, 60, seconds=0.1)  # a request has 15 seconds: 150 records
    shown = pages(reader, RecordSearch(50, key), Limits())
    offsets = [offset for offset in range(60) if key is None or (key == b"rare" and offset % 10 == 3)]
    assert sorted(shown) == [(partition, offset) for partition in range(partitions) for offset in offsets]


@pytest.mark.parametrize("key", [None, b"none"])
def test_a_request_ends_when_its_seconds_have_passed(key):
    reader = SlowReader(200, 5_000, seconds=0.1)
    page = Browser(reader, RecordSearch(50, key), Limits(), clock=lambda: reader.now).back()
    assert page.limited
    assert reader.now < 15 + 0.2
    stuck = SlowReader(1, 5_000, seconds=60)
    page = Browser(stuck, RecordSearch(50, key), Limits(), clock=lambda: stuck.now).back()
    assert page.older == {0: 4_999}  # one record at least, however long it took


def test_a_key_that_is_near_the_end_is_found_without_a_look_at_all_that_one_request_may_examine():
    reader = SlowReader(1, 100_000)
    assert len(Browser(reader, RecordSearch(1, b"rare"), clock=lambda: reader.now).back().records) == 1
    assert Browser(reader, RecordSearch(1, b"rare"), clock=lambda: reader.now).back().examined <= 2_000


def test_a_request_examines_no_more_than_its_bounds_whatever_its_passes():
    reader = SlowReader(2, 50_000, size=100)
    for limits in (Limits(records=10_000), Limits(bytes=1 << 20)):
        page = Browser(reader, RecordSearch(50, b"none"), limits, clock=lambda: reader.now).back()
        assert page.limited
        assert page.examined <= limits.records
        assert page.examined * 100 <= limits.bytes
        assert sum(50_000 - offset for offset in page.older.values()) > page.examined // 2


def test_the_partitions_of_a_page_are_read_together():
    reader = SlowReader(200, 5)
    Browser(reader, RecordSearch(50), clock=lambda: reader.now).back()
    assert reader.reads == 1
