"""A request for records is bounded by what it examines, and the next one continues without a gap or a repetition."""

import json

import pytest

from kafkasource.reader import Reader
from kafkasource.tools.ui.browsing import Browser, Limits, Wanted

pytestmark = pytest.mark.broker

PARTITIONS, RECORDS = 3, 20


@pytest.fixture
def browser(kafka_topic, kafka_broker, produce):
    """`browser(wanted, limits)`: of a topic with every tenth key `rare`; later offsets may have earlier timestamps."""
    topic = kafka_topic(partitions=PARTITIONS)
    produce(
        topic,
        [
            {
                "value": b"x" * 1000,
                "key": b"rare" if number % 10 == 3 else b"other",
                "partition": partition,
                "timestamp": 1_700_000_000_000 + number * 7919 % 5000,
            }
            for partition in range(PARTITIONS)
            for number in range(RECORDS)
        ],
    )
    options = {
        "kafka.bootstrap.servers": kafka_broker.bootstrap_servers,
        "assign": json.dumps({topic: [*range(PARTITIONS)]}),
        "includeHeaders": "true",
        "failOnDataLoss": "false",
    }
    opened = []

    def make(wanted, limits):
        opened.append(Reader(options))
        return Browser(opened[-1], wanted, limits)

    yield make
    for one in opened:
        one.close()


def everything(key):
    return {
        (partition, number)
        for partition in range(PARTITIONS)
        for number in range(RECORDS)
        if key is None or number % 10 == 3
    }


@pytest.mark.parametrize("key", [None, b"rare"])
@pytest.mark.parametrize(
    "limits",
    [Limits(), Limits(records=12), Limits(bytes=5_000), Limits(bytes=1_500)],
    ids=["wide", "records", "bytes", "not a record of each partition"],
)
@pytest.mark.parametrize("way", ["back", "forward"])
def test_page_after_page_shows_each_record_once(browser, way, limits, key):
    seen, cursor = [], None
    for _ in range(200):
        make = browser(Wanted(7, key), limits)
        page = make.back(cursor) if way == "back" else make.forward(cursor)
        assert len(page.records) <= 7
        assert page.examined <= 2 * RECORDS * PARTITIONS
        seen += [(each["partition"], each["offset"]) for each in page.records]
        following = page.older if way == "back" else page.newer
        if page.oldest or following == cursor or not following:
            break
        cursor = following
    assert len(seen) == len(set(seen))
    assert set(seen) == everything(key)
    for partition in range(PARTITIONS):
        of_it = [offset for number, offset in seen if number == partition]
        pages = of_it if way == "forward" else of_it[::-1]
        assert pages == sorted(pages)


def test_a_search_that_its_limit_ends_says_so(browser):
    found = browser(Wanted(50, b"none"), Limits(records=12)).back()
    assert (found.records, found.limited) == ([], True)
    assert all(offset > 0 for offset in found.older.values())
    whole = browser(Wanted(50, b"none"), Limits()).back()
    assert (whole.records, whole.limited) == ([], False)
