"""The thread that writes a map of offsets: how long a commit waits for it, and what the map then lacks."""

import threading

import pytest

from kafkasource.sink.clusters.offset_map import NotRecorded, Recorder
from kafkasource.sink.clusters.offset_spans import Mapped, OffsetSpan
from kafkasource.types import TopicPartition

ORDERS = [TopicPartition("orders", number) for number in range(3)]
A_MINUTE_MS = 60_000


def batch(first, end, *partitions):
    """Offsets of a micro-batch, the same at the target."""
    return {
        ORDERS[number]: Mapped("a.orders", (OffsetSpan(first, end, first, end, 0),)) for number in partitions or (0,)
    }


class Topic:
    """In place of OffsetMapTopic."""

    def __init__(self):
        self.opened = 0
        self.error = None
        self.added = []
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Event()

    def __call__(self):
        self.opened += 1
        return self

    def add(self, mapped):
        self.asked.set()
        assert self.answers.wait(60)
        if self.error is not None:
            raise self.error
        self.added.append(dict(mapped))

    def close(self):
        pass


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def topic():
    return Topic()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def recorder(topic, clock):
    return Recorder(topic, "map", clock)


def test_a_commit_returns_when_the_map_has_what_it_handed_over(recorder, topic):
    recorder.hand_over(batch(0, 5, 0, 1))
    recorder.wait(A_MINUTE_MS)
    recorder.hand_over(batch(5, 9, 0))
    recorder.wait(A_MINUTE_MS)
    assert topic.added == [batch(0, 5, 0, 1), batch(5, 9, 0)]
    assert topic.opened == 1


def test_a_cluster_that_answers_nothing_is_waited_for_as_long_as_is_said_and_the_error_tells_what_is_lacking(
    recorder, topic, clock
):
    topic.answers.clear()
    recorder.hand_over(batch(3, 9, 0, 2))
    with pytest.raises(NotRecorded, match=r"map lacks the offsets of orders-0 \[3, 9\), orders-2 \[3, 9\)"):
        recorder.wait(20)
    topic.answers.set()
    clock.now_s += 1
    recorder.wait(A_MINUTE_MS)
    assert topic.added == [batch(3, 9, 0, 2)]


def test_after_a_wait_in_vain_commits_do_not_wait_until_ten_times_as_long_has_gone_by(recorder, topic, clock):
    topic.answers.clear()
    recorder.hand_over(batch(0, 1))
    with pytest.raises(NotRecorded):
        recorder.wait(20)
    recorder.hand_over(batch(1, 2))
    with pytest.raises(NotRecorded):
        recorder.wait(A_MINUTE_MS)  # at once: nobody lets the topic go on
    clock.now_s += 0.2
    topic.answers.set()
    recorder.wait(A_MINUTE_MS)
    assert topic.added[-1] == batch(0, 2)


def test_what_failed_is_written_with_the_next_micro_batch_on_a_new_connection(recorder, topic):
    topic.error = ConnectionError("away")
    recorder.hand_over(batch(0, 5, 0, 1))
    with pytest.raises(NotRecorded, match="away"):
        recorder.wait(A_MINUTE_MS)
    topic.error = None
    recorder.hand_over(batch(5, 9, 0))
    while recorder.busy:
        threading.Event().wait(0.001)
    assert topic.added == [{**batch(0, 5, 1), **batch(0, 9, 0)}]
    assert topic.opened == 2
    recorder.wait(0)  # all is there


def test_what_comes_while_the_map_is_written_is_written_after_it(recorder, topic):
    topic.answers.clear()
    recorder.hand_over(batch(0, 5))
    assert topic.asked.wait(60)
    recorder.hand_over(batch(5, 9))
    topic.answers.set()
    recorder.wait(A_MINUTE_MS)
    assert topic.added == [batch(0, 5), batch(0, 9)]


def test_many_partitions_are_told_in_few_words(recorder, topic):
    topic.error = ConnectionError("away")
    recorder.hand_over({TopicPartition("t", number): each for number in range(9) for each in batch(0, 5).values()})
    with pytest.raises(NotRecorded, match=r"t-4 \[0, 5\) and 4 more"):
        recorder.wait(A_MINUTE_MS)
