"""The client's name as its errors show it: "is logged in as 'alice'". A broker may map the name to another one.

The text is empty where the client has no name or does not know it.
"""

from __future__ import annotations

from kafkasource.kafka.security.tls.certificates import readable

_MOST = 200  # characters of a name


def identity_of(user: str | None) -> str:
    """Name a user of SASL. Beside SASL, a broker ignores the certificate."""
    return "" if not user else f"is logged in as {user[:_MOST]!r}"


def identity_by(certificate: bytes | None) -> str:
    """Name the owner of a certificate (DER), for TLS alone. The client cannot know whether the broker asked for it."""
    (owned,) = readable([certificate] if certificate is not None else []) or (None,)
    return "" if owned is None else f"has the certificate of {owned.subject[:_MOST]!r}"
