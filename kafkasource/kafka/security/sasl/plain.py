"""PLAIN (RFC 4616): user and password as they are. Over plaintext connections everybody on the way reads them.

authorization id (empty) NUL user NUL password
"""

from __future__ import annotations

from kafkasource.errors import OptionError, SaslExchangeFailed
from kafkasource.kafka.security.sasl.mechanism import checked, require_complete
from kafkasource.kafka.security.secrets import Secret


class Plain:
    """The broker answers with an empty token, or with error 58."""

    name = "PLAIN"
    blocks = False

    def __init__(self, username: str, password: Secret) -> None:
        """Raises OptionError for what PLAIN cannot carry."""
        for what, text in (("user name", username), ("password", password.reveal())):
            if not text or "\0" in text:
                raise OptionError(f"PLAIN: the {what} is empty or holds a NUL character: check kafka.sasl.*")
        self.user = username
        self._password = password
        self.complete = False

    def first(self) -> bytes:
        return f"\0{self.user}\0{self._password.reveal()}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if self.complete or checked(self.name, challenge):
            raise SaslExchangeFailed("PLAIN: the broker answers with more than the empty token")
        self.complete = True
        return None

    def finish(self) -> None:
        require_complete(self.name, self.complete)
