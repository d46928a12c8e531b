"""Which log is this? Against a model of Kafka's own rules: an id for each topic, an epoch that each election raises."""

import uuid
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.kafka.network.log_view import LogView, Verdict, compare

A, B = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.mark.parametrize(
    ("known", "now", "verdict"),
    [
        (LogView(A, 3), LogView(A, 3), Verdict.SAME),
        (LogView(A, 3), LogView(A, 4), Verdict.NEWER_LEADER),
        (LogView(A, 3), LogView(A, 2), Verdict.OLD_NEWS),
        (LogView(A, 3), LogView(B, 3), Verdict.ANOTHER_TOPIC),
        (LogView(A, 3), LogView(B, 9), Verdict.ANOTHER_TOPIC),
        (LogView(None, 3), LogView(None, 2), Verdict.ANOTHER_TOPIC),
        (LogView(None, 3), LogView(A, 2), Verdict.ANOTHER_TOPIC),  # brokers were upgraded, and know ids since
        (LogView(None, 3), LogView(A, 4), Verdict.NEWER_LEADER),
        (LogView(A, None), LogView(A, 4), Verdict.SAME),
        (LogView(), LogView(B, 9), Verdict.SAME),  # the JVM connector's checkpoint says neither
        (LogView(A, 3), None, Verdict.ABSENT),
    ],
)
def test_the_table(known, now, verdict):
    assert compare(known, now) is verdict


@dataclass(frozen=True)
class Moment:
    """One moment of a partition's history: the number of the topic among those of its name, and of its elections."""

    topic: int
    elections: int

    def view(self, ids, epochs):
        return LogView(uuid.UUID(int=self.topic) if ids else None, self.elections if epochs else None)


moments = st.builds(Moment, st.integers(1, 3), st.integers(0, 4))


@given(moments, moments, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_no_verdict_contradicts_the_history(before, now, ids_before, ids_now, epochs_before, epochs_now):
    verdict = compare(before.view(ids_before, epochs_before), now.view(ids_now, epochs_now))
    have_ids, have_epochs = ids_before and ids_now, epochs_before and epochs_now
    fell = now.elections < before.elections
    if have_ids:  # then the verdict about the topic is certain
        assert (verdict is Verdict.ANOTHER_TOPIC) == (before.topic != now.topic)
    elif before.topic == now.topic:  # only a view that is older may be taken for another topic, and it is doubted
        assert verdict is not Verdict.ANOTHER_TOPIC or (have_epochs and fell)
    if before.topic == now.topic:
        assert (verdict is Verdict.NEWER_LEADER) == (have_epochs and now.elections > before.elections)
    if have_epochs and fell:  # nobody goes on in such a log without a second answer
        assert verdict.is_doubtful
    assert verdict.is_doubtful >= verdict.is_denial
