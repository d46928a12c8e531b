"""The interface of a SASL mechanism: a state machine that takes and gives bytes (RFC 4422).

    token = mechanism.first()
    while token is not None:
        send(token)
        if mechanism.complete and not sends_answers: break      raw tokens of SaslHandshake v0: nothing follows
        token = mechanism.respond(answer())
    mechanism.finish()

A machine serves one authentication; re-authentication takes another machine. It has no socket and no clock. Whatever
the broker sends, it raises only `AuthenticationFailed`.
"""

from __future__ import annotations

from typing import Protocol

from kafkasource.errors import SaslExchangeFailed

MOST_CHALLENGE_BYTES = 64 * 1024  # a broker's answers are below 1 KiB; Kerberos tickets of Windows below 64


class Mechanism(Protocol):
    """One authentication of one connection. Calls come one after another, from any thread."""

    @property
    def name(self) -> str:
        """Name in SaslHandshake: `SCRAM-SHA-512`."""

    @property
    def blocks(self) -> bool:
        """Whether the next call may wait for another server (a KDC, a token endpoint): call it in another thread."""

    @property
    def complete(self) -> bool:
        """Whether the client has nothing more to check. A token that `respond` has returned may still be unsent."""

    @property
    def user(self) -> str | None:
        """The user, after the login. None: only the broker knows it. Brokers may map it to another name."""

    def first(self) -> bytes:
        """The first token to send. Raises AuthenticationFailed, or TokenNotAvailable, which is retriable."""

    def respond(self, challenge: bytes) -> bytes | None:
        """The token to send next; None when the exchange is over. Raises AuthenticationFailed."""

    def finish(self) -> None:
        """The broker says that the client is authenticated. Raises SaslExchangeFailed if it has not proven its part."""


def checked(mechanism: str, challenge: bytes) -> bytes:
    """The challenge, if it is not too large."""
    if len(challenge) > MOST_CHALLENGE_BYTES:
        raise SaslExchangeFailed(f"{mechanism}: the broker's answer has {len(challenge)} bytes, which no broker sends")
    return challenge


def require_complete(mechanism: str, complete: bool) -> None:
    """Raise SaslExchangeFailed unless the exchange is complete. `finish` calls it."""
    if not complete:
        raise SaslExchangeFailed(
            f"{mechanism}: the broker calls the client authenticated before the exchange is over. It has not proven "
            "that it knows the credentials, so it may be an impostor"
        )
