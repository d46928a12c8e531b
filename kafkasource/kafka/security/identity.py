"""Who the client is to the brokers, as its errors say it: the name that it gives, which a broker may map to another.

A predicate, "is logged in as 'alice'". Empty: nobody here knows, or the client has no name.
"""

from __future__ import annotations

from kafkasource.kafka.security.tls.certificates import readable

_MOST = 200  # characters of a name


def identity_of(user: str | None) -> str:
    """With SASL. A certificate does not count beside it."""
    return "" if not user else f"is logged in as {user[:_MOST]!r}"


def identity_by(certificate: bytes | None) -> str:
    """With TLS alone. Whether the broker has asked for the certificate (DER), the client cannot know."""
    (found,) = readable([certificate] if certificate is not None else []) or (None,)
    return "" if found is None else f"has the certificate of {found.subject[:_MOST]!r}"
