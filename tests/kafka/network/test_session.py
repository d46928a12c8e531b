"""When the next session has to begin, with Java's figures: SaslClientAuthenticator renews at 85 to 95 %."""

import pytest

from kafkasource.kafka.network.session import Session
from kafkasource.types import NEVER

DAY_MS = 24 * 3_600_000


def renewed_at(lifetime_ms, random=0.5, token_sent_ms=0.0, now=0.0):
    session = Session(lambda: random)
    session.token_sent(token_sent_ms)
    session.begin(lifetime_ms, now)
    return session.renew_at_ms


@pytest.mark.parametrize(("random", "part"), [(0.0, 0.85), (0.5, 0.9), (1.0, 0.95)])
def test_a_session_counts_from_the_token_that_was_sent_and_not_from_its_answer(random, part):
    assert renewed_at(60_000, random, token_sent_ms=1000, now=9000) == pytest.approx(1000 + part * 60_000)


def test_a_second_lies_between_two_authentications_however_short_sessions_are():
    assert renewed_at(1, now=5000) == 6000
    assert renewed_at(1000, token_sent_ms=4000, now=5000) == 6000


@pytest.mark.parametrize("lifetime_ms", [0, -1, -(2**63)])
def test_a_session_without_an_end_is_never_renewed(lifetime_ms):
    assert renewed_at(lifetime_ms) == NEVER


def test_a_lifetime_beyond_reason_is_cut():
    assert 0 < renewed_at(2**63 - 1) <= 30 * DAY_MS


def test_the_next_connection_has_nothing_of_the_last_ones_session():
    session = Session(lambda: 0.5)
    session.begin(60_000, 0.0)
    session.begin(0, 5.0)
    assert session.renew_at_ms == NEVER
