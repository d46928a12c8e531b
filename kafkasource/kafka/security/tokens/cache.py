"""Keeps the token of one source for all connections of a process, and asks for the next one in time (KIP-255).

It starts no thread, which a forked worker would lose. A connection that authenticates asks it, and the first one after
the token is due fetches the next token. While the old token is valid, a source that fails is only a warning, and other
connections use the old token during the fetch. So a source that is down or hangs ends no connection. Without a valid
token, connections wait for a fetch, but not for ever: each attempt to connect would leave a waiting thread.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from kafkasource.errors import KafkaSourceError, TokenNotAvailable, TokenRefused
from kafkasource.kafka.security.endpoint import HttpClient
from kafkasource.kafka.security.tokens.token import AccessToken, TokenSource

log = logging.getLogger("kafkasource.client")

_AFTER_FAILURE_S = 10  # as in Java
_MOST_FETCH_S = 30  # for which others wait; as long as an attempt to connect may take, by default


@dataclass(frozen=True)
class Refresh:
    """`sasl.login.refresh.*`, with Java's defaults."""

    window_factor: float = 0.8  # of the token's life
    window_jitter: float = 0.05  # at most this much more, at random
    min_period_s: int = 60  # between two tokens
    buffer_s: int = 300  # before the end

    def at_s(self, token: AccessToken, now_s: float, uniform: float) -> float:
        """When the next token is due, as Java decides. `uniform` is in [0, 1).

        Period and buffer do not count for a token that lives no longer than both together.
        """
        if token.expires_at_s is None:
            return now_s
        part = self.window_factor + self.window_jitter * uniform
        left_s = token.expires_at_s - now_s
        if self.min_period_s + self.buffer_s > left_s:
            return now_s + left_s * part
        begin_s = now_s if token.issued_at_s is None else token.issued_at_s
        proposed_s = begin_s + (token.expires_at_s - begin_s) * part
        if proposed_s > token.expires_at_s - self.buffer_s:
            return token.expires_at_s - self.buffer_s
        return max(proposed_s, now_s + self.min_period_s)


class TokenCache:
    """Thread-safe. `token` may wait for the source; ask `due` first, and call it in another thread if so."""

    def __init__(
        self,
        source: TokenSource,
        http: HttpClient,
        refresh: Refresh,
        clock: Callable[[], float] = time.time,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self._source = source
        self._http = http
        self._refresh = refresh
        self._clock = clock
        self._uniform = uniform
        self._lock = threading.Lock()  # held while one thread fetches for all
        self._fetching_since_s: float | None = None
        self._token: AccessToken | None = None
        self._due_at_s = 0.0

    def due(self) -> bool:
        """Whether `token` would wait for another server."""
        token, now_s = self._token, self._clock()
        if not self._source.waits or (token is not None and now_s < self._due_at_s):
            return False
        return not (token is not None and _left_s(token, now_s) > 0 and self._lock.locked())

    def token(self) -> AccessToken:
        """A token that is valid now. Raises TokenNotAvailable, TokenRefused, OptionError."""
        present = self._token
        if present is None or not self._source.waits or _left_s(present, self._clock()) <= 0:
            self._await_turn()
        elif not self._lock.acquire(blocking=False):
            return present  # another thread fetches the next one, which may take long
        try:
            now_s = self._fetching_since_s = self._clock()
            token = self._token
            if token is None or not self._source.waits or now_s >= self._due_at_s:
                token = self._token = self._renewed(token, now_s)
            return token
        finally:
            self._fetching_since_s = None
            self._lock.release()

    def _await_turn(self) -> None:
        """Take the lock. Raises TokenNotAvailable where another thread has been fetching for too long."""
        since_s = self._fetching_since_s
        for_s = 0.0 if since_s is None else max(0.0, self._clock() - since_s)
        if not self._lock.acquire(timeout=max(0.0, _MOST_FETCH_S - for_s)):
            raise TokenNotAvailable(
                f"{self._source.origin} has not answered a request for a token within {_MOST_FETCH_S:g} s. Check that"
                " this machine reaches it"
            )

    def forget(self, token: AccessToken) -> None:
        """A broker has refused this token: the next call fetches another one, unless that has been done already."""
        if self._token is token:  # without the lock, which a fetch may hold: this is the thread that polls
            self._token = None

    def _renewed(self, old: AccessToken | None, now_s: float) -> AccessToken:
        """The next token; the old one where the source fails and it is still valid."""
        try:
            new = self._source.fetch(self._http, now_s)
        except Exception as error:  # a library's, too: while the old token is valid, a bug there ends nothing
            failed_s = self._clock()  # it may have waited for a server longer than until the next attempt
            left_s = 0.0 if old is None else _left_s(old, failed_s)
            if old is None or left_s <= 0 or self._token is not old:  # a broker has refused it meanwhile: `forget`
                raise
            why = error if isinstance(error, KafkaSourceError) else type(error).__name__  # other texts may hold secrets
            log.warning("the OAuth token cannot be renewed, %.0f s before it expires: %s", left_s, why)
            self._due_at_s = failed_s + _AFTER_FAILURE_S
            return old
        if new.expires_at_s is not None and new.expires_at_s <= now_s:
            raise TokenRefused(
                f"the OAuth token expired {now_s - new.expires_at_s:.0f} s ago by this machine's clock. Check the clock"
                ", and where the token comes from"
            )
        self._due_at_s = self._refresh.at_s(new, now_s, self._uniform())
        return new


def _left_s(token: AccessToken, now_s: float) -> float:
    """How long the token is valid for certain. Where nobody says when it expires: 0."""
    return 0.0 if token.expires_at_s is None else token.expires_at_s - now_s
