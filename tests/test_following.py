"""`Reader.follow` by scripted answers to its questions."""

import contextlib

import pytest

from kafkasource.errors import DataLoss, OptionError
from kafkasource.reader import Reader
from kafkasource.source.plan.offset_reader import LogEnds
from kafkasource.source.plan.offsets import StreamOffset
from kafkasource.tools.admin.positions import position
from kafkasource.types import OffsetRange, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Stop(Exception):
    pass


class Logs:
    """Stands for the offset reader of logs that begin at 0; their ends are the next ones after each sleep."""

    def __init__(self, *ends):
        self.ends = list(ends)
        self.now_s = 0.0

    def sleep(self, seconds):
        self.now_s += seconds
        del self.ends[0]
        if not self.ends:
            raise Stop

    def assigned(self, known=None):
        return set(self.ends[0])

    def list_offsets(self, symbols):
        return {tp: 0 if symbol == -2 else self.ends[0][tp] for tp, symbol in symbols.items()}

    def earliest(self, partitions):
        return dict.fromkeys(partitions, 0)

    def topic_ids(self, partitions):
        return {}

    def current_topic_ids(self, partitions, known):
        return {}

    def epoch_ends(self, epochs, before, now):
        return {}

    def latest(self, partitions, known=None):
        return LogEnds(StreamOffset({tp: self.ends[0][tp] for tp in partitions if tp in self.ends[0]}), {})

    def cut_and_regrown(self, known, ends):
        return set()

    def held_back(self, offsets):
        return {}


def followed(logs, start="earliest", poll_s=0.2, **options):
    """The ranges that were read until the script ended."""
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "t", **options}
    found = []
    with Reader(given, start=position(start)) as reader:
        reader._offsets, reader.read = logs, iter
        with contextlib.suppress(Stop):
            for one in reader.follow(poll_s=poll_s, sleep=logs.sleep, clock=lambda: logs.now_s):
                found.append(one)
    return found


def test_what_is_there_is_read_and_then_what_comes():
    logs = Logs({T0: 3, T1: 0}, {T0: 3, T1: 2}, {T0: 5, T1: 2})
    assert followed(logs) == [OffsetRange(T0, 0, 3), OffsetRange(T1, 0, 2), OffsetRange(T0, 3, 5)]


def test_from_the_end_only_what_comes_is_read():
    assert followed(Logs({T0: 3}, {T0: 3}, {T0: 4}), "latest") == [OffsetRange(T0, 3, 4)]


def test_a_start_beyond_the_end_is_the_end():
    assert followed(Logs({T0: 3}, {T0: 4}), "1000") == [OffsetRange(T0, 3, 4)]


def test_a_partition_that_is_added_is_read_from_its_beginning():
    assert followed(Logs({T0: 3}, {T0: 3, T1: 2}, {T0: 3, T1: 2}), "latest", poll_s=6) == [OffsetRange(T1, 0, 2)]


def test_a_partition_that_went_is_told_as_a_loss_and_not_asked_for_again(caplog):
    logs = [{T0: 3, T1: 1}, {T0: 3}, {T0: 4}]
    with pytest.raises(DataLoss, match="Partitions t-1 have been deleted"):
        followed(Logs(*logs), poll_s=6)
    assert followed(Logs(*logs), poll_s=6, failOnDataLoss="false") == [
        OffsetRange(T0, 0, 3),
        OffsetRange(T1, 0, 1),
        OffsetRange(T0, 3, 4),
    ]
    assert caplog.text.count("Partitions t-1 have been deleted") == 1


def test_a_log_that_became_shorter_is_a_loss():
    with pytest.raises(DataLoss, match="t-0 offset was changed from 3 to 1"):
        followed(Logs({T0: 3}, {T0: 1}))


def test_a_loss_that_is_tolerated_is_told_and_reading_goes_on_there(caplog):
    assert followed(Logs({T0: 3}, {T0: 1}, {T0: 2}), failOnDataLoss="false")[1:] == [OffsetRange(T0, 1, 2)]
    assert "It is read on from 1" in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxOffsetsPerTrigger", "5"),
        ("minPartitions", "2"),
        ("commitOffsets", "true"),
        ("groupOwnership", "exclusive"),
        ("stopFile", "/tmp/stop"),
        ("trigger", "availableNow"),
    ],
)
def test_what_only_a_query_could_honour_is_refused_and_not_ignored(name, value):
    with pytest.raises(OptionError, match=name):
        Reader({"kafka.bootstrap.servers": "x:1", "subscribe": "t", "kafka.group.id": "g", name: value})
