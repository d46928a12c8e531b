"""A token is renewed in time, by one thread for all, and a source that is down for a while ends nothing."""

import logging
import threading
from dataclasses import dataclass, field

import pytest

from kafkasource.errors import TokenNotAvailable, TokenRefused
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tokens.cache import Refresh, TokenCache
from kafkasource.kafka.security.tokens.token import AccessToken


@dataclass
class Source:
    life_s: float | None = 3600
    waits: bool = True
    origin: str = "the source of this test"
    error: Exception | None = None
    fetched: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fetch(self, http, now_s):
        assert self.lock.acquire(blocking=False), "two threads fetch at once"
        try:
            if self.error is not None:
                raise self.error
            self.fetched += 1
            return AccessToken(Secret(f"token {self.fetched}"), None if self.life_s is None else now_s + self.life_s)
        finally:
            self.lock.release()


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def a_cache(source, clock, refresh=None):
    return TokenCache(source, None, refresh or Refresh(), clock, lambda: 0.0)


def taken(cache):
    return cache.token().value.reveal()


@pytest.mark.parametrize(
    ("token", "now", "uniform", "due"),
    [
        (AccessToken(Secret("t"), 4600, 1000), 1000, 0.0, 1000 + 2880),  # 80 % of an hour
        (AccessToken(Secret("t"), 4600, 1000), 1000, 0.999999, 1000 + 3060),  # and 5 % more
        (AccessToken(Secret("t"), 2000, 1000), 1000, 0.0, 1700),  # not within the buffer of 300 s
        (AccessToken(Secret("t"), 4600, 0), 4000, 0.0, 4060),  # not within the minimal period of 60 s
        (AccessToken(Secret("t"), 1300, 1000), 1000, 0.0, 1240),  # too short for both: 80 %
        (AccessToken(Secret("t"), 1360, 1000), 1000, 0.0, 1060),  # just long enough
        (AccessToken(Secret("t"), 4600, None), 1000, 0.0, 1000 + 2880),  # no word on when it was issued
    ],
)
def test_a_token_is_due_when_javas_login_would_refresh_it(token, now, uniform, due):
    assert Refresh().at_s(token, now, uniform) == pytest.approx(due, abs=0.01)


def test_a_token_is_shared_until_it_is_due():
    source, clock = Source(), Clock()
    cache = a_cache(source, clock)
    assert cache.due()
    assert [taken(cache), taken(cache)] == ["token 1", "token 1"]
    assert not cache.due()
    clock.now += 2879
    assert not cache.due()
    assert taken(cache) == "token 1"
    clock.now += 1
    assert cache.due()
    assert taken(cache) == "token 2"
    assert not cache.due()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TokenNotAvailable("down"), "600 s before it expires: down"),
        (KeyError("geheim"), "600 s before it expires: KeyError"),  # other texts may hold secrets
    ],
)
def test_a_source_that_fails_is_a_warning_while_the_token_is_valid(caplog, error, said):
    source, clock = Source(), Clock()
    cache = a_cache(source, clock)
    cache.token()
    clock.now += 3000
    source.error = error
    with caplog.at_level(logging.WARNING):
        assert taken(cache) == "token 1"
    assert said in caplog.text
    assert "geheim" not in caplog.text
    assert not cache.due()  # it is not asked by every connection
    clock.now += 10
    assert cache.due()
    clock.now += 600
    with pytest.raises(type(error)):
        cache.token()
    source.error = None
    assert taken(cache) == "token 2"


def a_due_cache_whose_source_hangs(clock, hang):
    """Its token is valid for 600 s more. `hang` is called by each further fetch, which then fails."""
    source = Source()
    cache = a_cache(source, clock)
    cache.token()
    clock.now += 3000

    def fetch(http, now_s):
        source.fetched += 1
        hang()
        raise TokenNotAvailable("no answer")

    source.fetch = fetch
    return cache, source


def test_a_source_that_hangs_keeps_nobody_waiting_again_before_ten_seconds_have_passed():
    clock = Clock()

    def twelve_seconds():
        clock.now += 12

    cache, source = a_due_cache_whose_source_hangs(clock, twelve_seconds)
    assert taken(cache) == "token 1"
    assert not cache.due()
    assert taken(cache) == "token 1"
    assert source.fetched == 2
    clock.now += 10
    assert cache.due()


def test_while_one_thread_fetches_the_next_token_others_go_on_with_the_old_one():
    clock, asked, answered, tokens = Clock(), threading.Event(), threading.Event(), []

    def hang():
        asked.set()
        answered.wait(60)

    cache, source = a_due_cache_whose_source_hangs(clock, hang)
    assert cache.due()
    first, second = (threading.Thread(target=lambda: tokens.append(taken(cache))) for _ in range(2))
    first.start()
    try:
        assert asked.wait(60)
        assert not cache.due()  # so that a connection need not ask in another thread
        second.start()
        second.join(10)
        assert tokens == ["token 1"]
    finally:
        answered.set()
        first.join(60)
    assert tokens == ["token 1", "token 1"]
    assert source.fetched == 2


def test_a_first_fetch_that_hangs_holds_one_thread_and_not_one_for_each_attempt():
    clock, asked, answered, tokens = Clock(), threading.Event(), threading.Event(), []
    source = Source()
    cache, fetch = a_cache(source, clock), source.fetch

    def hang(http, now_s):
        asked.set()
        answered.wait(60)
        return fetch(http, now_s)

    def attempt():
        try:
            tokens.append(taken(cache))
        except TokenNotAvailable as error:
            tokens.append(error)

    source.fetch = hang
    first, second = (threading.Thread(target=attempt) for _ in range(2))
    first.start()
    try:
        assert asked.wait(60)
        clock.now += 30  # the longest attempt to connect: socket.connection.setup.timeout.max.ms
        second.start()
        second.join(10)
        assert "the source of this test" in str(tokens[0])
    finally:
        answered.set()
        first.join(60)
    assert tokens[1] == "token 1"
    assert taken(cache) == "token 1"


@pytest.mark.parametrize("why", ["it expired", "a broker refused it"])
def test_a_token_that_became_useless_during_a_fetch_in_vain_is_given_to_nobody(why):
    clock = Clock()

    def hang():
        if why == "it expired":
            clock.now += 601
        else:
            cache.forget(old)

    cache, _ = a_due_cache_whose_source_hangs(clock, hang)
    old = cache._token
    with pytest.raises(TokenNotAvailable):
        cache.token()


def test_a_first_failure_is_the_callers():
    for error in (TokenNotAvailable("down"), TokenRefused("no")):
        with pytest.raises(type(error)):
            a_cache(Source(error=error), Clock()).token()


def test_an_expired_token_is_refused_here_and_not_by_the_broker():
    with pytest.raises(TokenRefused, match="100 s ago"):
        a_cache(Source(life_s=-100), Clock()).token()


def test_a_source_that_does_not_wait_is_asked_each_time():
    source, clock = Source(waits=False), Clock()
    cache = a_cache(source, clock)
    assert not cache.due()
    assert [taken(cache), taken(cache)] == ["token 1", "token 2"]


def test_a_token_without_an_end_is_asked_for_each_time():
    cache = a_cache(Source(life_s=None), Clock())
    assert [taken(cache), taken(cache)] == ["token 1", "token 2"]


def test_a_refused_token_is_not_used_again():
    cache = a_cache(Source(), Clock())
    refused = cache.token()
    cache.forget(refused)
    assert cache.due()
    assert taken(cache) == "token 2"
    cache.forget(refused)  # by another connection that had it, too
    assert not cache.due()


def test_one_thread_fetches_for_all():
    source = Source()
    cache = a_cache(source, Clock())
    threads = [threading.Thread(target=cache.token) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source.fetched == 1
