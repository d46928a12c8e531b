"""A topic that was deleted and made again is judged as several: the last one must be read whole, with a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.campaign import gather
from lab.campaign.checker import History, Outcome, Record, Written, check
from lab.campaign.storm import remade
from lab.campaign.storm.checkpoint import Checkpoint
from lab.campaign.storm.micro_batches import MicroBatches
from lab.campaign.storm.readers_app import REMADE
from lab.campaign.whole_files import write_whole

WARNING = f"[KAFKA_DATA_LOSS.TOPIC_RECREATED] {remade.WARNING.format('t')}: its id was a and is b now.\n"


def written(number, count):
    """Of the topic with that number, in two partitions."""
    return [
        Written(
            "remaking",
            b"%d-%d" % (number, place % 2),
            place,
            b"%d %d" % (number, place),
            remade.log_of("t", number),
            place % 2,
            place // 2,
            Outcome.COMMITTED,
        )
        for place in range(count)
    ]


def read(number, places):
    return [Record(each % 2, each // 2, b"%d-%d" % (number, each % 2), b"%d %d" % (number, each)) for each in places]


def findings(topics, records, warnings):
    logs, passed = remade.judged("t", topics, records, warnings)
    report = check(History([each for topic in topics for each in topic], logs, passed=passed))
    return {rule: count for rule, count in report.counts.items() if count}


TOPICS = [written(0, 10), written(1, 4), written(2, 20)]


@pytest.mark.parametrize(
    "records",
    [
        [*read(0, range(10)), *read(1, range(4)), *read(2, range(20))],
        [*read(0, (0, 2, 4, 1)), *read(1, (1,)), *read(2, range(20))],  # both went before they were read to their ends
        [*read(0, range(10)), *read(2, range(20))],  # the second came and went unseen
        read(2, range(20)),
    ],
)
def test_the_end_of_a_topic_that_went_may_lack_with_a_warning(records):
    assert findings(TOPICS, records, WARNING * 2) == {}


@pytest.mark.parametrize(
    ("records", "lost"),
    [
        ([*read(0, range(10)), *read(1, range(4)), *read(2, range(8, 20))], 8),  # as if it were the one before
        ([*read(0, range(10)), *read(1, range(4)), *read(2, range(19))], 1),
        ([*read(0, (0, 1, 2, 3, 6, 7)), *read(2, range(20))], 2),
        ([*read(0, range(10)), *read(1, range(4))], 20),
    ],
)
def test_the_begin_and_what_lies_between_may_not_lack_nor_anything_of_the_last_one(records, lost):
    assert findings(TOPICS, records, WARNING * 2) == {"lost": lost}


def test_without_a_warning_for_each_change_nothing_may_lack():
    records = [*read(0, range(8)), *read(1, range(4)), *read(2, range(20))]
    assert findings(TOPICS, records, WARNING * 2) == {}
    assert findings(TOPICS, records, WARNING) == {"lost": 2}


def test_a_topic_that_is_read_again_is_doubled():
    records = [*read(0, range(10)), *read(1, range(4)), *read(2, range(20)), *read(2, range(3))]
    assert findings(TOPICS, records, WARNING * 2)["doubled"] == 3


def test_a_batch_whose_telling_was_cut_short_is_not_read(tmp_path, monkeypatch):
    (tmp_path / REMADE).mkdir()
    checkpoint = Checkpoint(tmp_path / "checkpoint")

    def killed(_self, _target):
        raise Killed

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(Killed):
        write_whole(tmp_path / REMADE / "3", "[0, 1")
    with pytest.raises(Killed):
        checkpoint.plan(0, {"t": {"0": 5}})
    assert remade.told(tmp_path) == []
    assert checkpoint.planned() == -1
    assert gather.batches(tmp_path / "checkpoint", "q", "t") == []


class OfflineReader:
    """A stream reader whose log has ten records more at each call, and no broker."""

    def __init__(self):
        self.end, self.done = 0, []

    def initialOffset(self):
        return {"t": {"0": 0}}

    def getDefaultReadLimit(self):
        return None

    def latestOffset(self, _start, _limit):
        self.end += 10
        return {"t": {"0": self.end}}

    def partitions(self, start, end):
        return [(start["t"]["0"], end["t"]["0"])]

    def commit(self, end):
        self.done.append(end["t"]["0"])

    def stop(self):
        pass


class Killed(Exception):
    pass


def test_a_batch_that_failed_is_run_again_with_the_same_range_before_others(tmp_path):
    ran = []

    def killed_in_the_third(number, partitions):
        ran.append((number, *partitions))
        if len(ran) in (3, 6):
            raise Killed

    for reader in (OfflineReader(), OfflineReader()):
        reader.end = len(ran) * 10
        with pytest.raises(Killed):
            MicroBatches(reader, Checkpoint(tmp_path), killed_in_the_third).run()
    assert ran == [(0, (0, 10)), (1, (10, 20)), (2, (20, 30)), (2, (20, 30)), (3, (30, 40)), (4, (40, 50))]
    assert Checkpoint(tmp_path).done() == 3
