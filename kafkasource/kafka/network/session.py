"""When a connection must authenticate again: a broker that says how long a session lasts closes what outlives it.

KIP-368. The session counts from the broker's last look at the credentials, which came after the client sent its last
token. So the client counts from there: early, never late. Milliseconds of the client's clock; no I/O.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasource.types import NEVER

_FIRST, _SPREAD = 0.85, 0.10  # renewed within this part of its life, as Java does: many clients do not come at once
_LEAST_MS = 1000.0  # between two authentications: brokers refuse more
_MOST_MS = 30 * 24 * 3_600_000.0  # what a broker says may be anything


class Session:
    """The SASL session of one connection. `random` gives uniform numbers in [0, 1)."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._token_sent_ms = 0.0
        self.renew_at_ms = NEVER

    def token_sent(self, now: float) -> None:
        """The client has sent a token, maybe its last one."""
        self._token_sent_ms = now

    def begin(self, lifetime_ms: float, now: float) -> None:
        """Note that the client is authenticated for this long; 0 or less: without an end."""
        self.renew_at_ms = NEVER
        if lifetime_ms > 0:
            part = _FIRST + _SPREAD * self._random()
            self.renew_at_ms = max(self._token_sent_ms + part * min(lifetime_ms, _MOST_MS), now + _LEAST_MS)
