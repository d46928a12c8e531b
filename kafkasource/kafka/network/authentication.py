"""The client's part of SASL on one connection: which request comes next, and what an answer means. Sans-IO, one thread.

    SaslHandshake     names the mechanism; the broker answers with those that its listener has (KIP-43)
    SaslAuthenticate  a token of the mechanism in each direction, until it is done (KIP-152)

Where a session has an end (KIP-368), another `Authentication` on the same connection begins the next one.

Brokers before 1.0 take the tokens bare, each behind its length, and close the connection where they refuse one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kafkasource.errors import (
    IllegalSaslState,
    KafkaSourceError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
    error_for,
)
from kafkasource.kafka.protocol.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE, Api
from kafkasource.kafka.protocol.schema import Body, Fields
from kafkasource.kafka.security.quoting import printable
from kafkasource.kafka.security.sasl.mechanism import Mechanism
from kafkasource.kafka.security.sasl.mechanisms import BY_NAME

SaslStep: TypeAlias = Callable[[], bytes | None]
"""The next token, which may take a while to make; None: the exchange is over."""


class Authentication:
    """One exchange. `peer` names the broker in errors."""

    def __init__(self, mechanism: Mechanism, peer: str) -> None:
        self._mechanism, self._peer = mechanism, peer
        self.bare = False  # do tokens go without Kafka's headers from now on?
        self.done = False
        self.offered: tuple[str, ...] = ()  # the listener's mechanisms, once it has answered the handshake
        self.session_lifetime_ms = 0  # how long the broker lets the client go on; 0: without an end. Once it is done

    def handshake(self, broker_serves: Callable[[Api], tuple[int, int] | None]) -> tuple[Api, int, Fields]:
        """The first request, with its version."""
        version = 1 if broker_serves(SASL_AUTHENTICATE) is not None else 0
        return SASL_HANDSHAKE, version, {"mechanism": self._mechanism.name}

    @property
    def blocks(self) -> bool:
        """Whether the next step may wait for another server: take it in another thread."""
        return self._mechanism.blocks

    @property
    def user(self) -> str | None:
        """The user that the client has logged in as, as far as it knows; see `Mechanism`."""
        return self._mechanism.user

    def accepted(self, version: int, answer: Body) -> SaslStep:
        """The answer to the handshake. Raises AuthenticationFailed."""
        code = answer["error_code"]
        self.offered = tuple(answer["mechanisms"])
        if code == UnsupportedSaslMechanism.CODE:
            offered = ", ".join(printable(name, 40) for name in self.offered[:20]) or "none"
            raise error_for(
                code,
                f"{self._peer} does not offer the mechanism {self._mechanism.name} on this listener, but {offered}: "
                "change 'kafka.sasl.mechanism'",
            )
        if code == IllegalSaslState.CODE:
            raise error_for(
                code,
                f"{self._peer}: this listener has no SASL. Set 'kafka.security.protocol' to PLAINTEXT or SSL, or take "
                "the port of a SASL listener",
            )
        if code:
            raise error_for(code, f"{self._peer}, SaslHandshake")
        self.bare = version == 0
        return self._mechanism.first

    @staticmethod
    def request(token: bytes) -> tuple[Api, Fields]:
        """The request that carries a token."""
        return SASL_AUTHENTICATE, {"auth_bytes": token}

    def answered(self, answer: Body) -> SaslStep:
        """The answer to a token. Raises AuthenticationFailed."""
        code = answer["error_code"]
        if code:
            said = printable(answer["error_message"] or "no reason given", 200)
            raise error_for(
                code,
                f"{self._peer} refuses the credentials ({self._mechanism.name}): {said}. {self._to_check}",
            )
        self.session_lifetime_ms = answer.get("session_lifetime_ms", 0)  # not in version 0
        challenge = bytes(answer["auth_bytes"])
        return lambda: self._mechanism.respond(challenge)

    def answered_bare(self, token: bytes) -> SaslStep:
        """The same for a broker before 1.0."""
        return lambda: self._mechanism.respond(token)

    def refusal_by_close(self) -> KafkaSourceError | None:
        """The meaning of a connection that the broker closes now: a bare token has no other refusal."""
        if not self.bare:
            return None
        return error_for(
            SaslAuthenticationFailed.CODE,
            f"{self._peer} closes the connection on the credentials ({self._mechanism.name}), as brokers before 1.0 do "
            f"that refuse them. {self._to_check}",
        )

    @property
    def _to_check(self) -> str:
        """The user's next step after a refusal."""
        return f"Check {BY_NAME[self._mechanism.name].given_by}, and that the broker has them for this mechanism"

    @property
    def complete(self) -> bool:
        """Whether a token that was given is the last message of the exchange: a bare one has no answer then."""
        return self._mechanism.complete

    def finish(self) -> None:
        """The exchange is over. Raises SaslExchangeFailed where the broker has not proven its part."""
        self._mechanism.finish()
        self.bare, self.done = False, True
