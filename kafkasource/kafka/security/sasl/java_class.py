"""Classes of Java that options name: which of them are Kafka's or a vendor's own, whose work is done here."""

from __future__ import annotations

from collections.abc import Iterable

OAUTHBEARER_PACKAGE = "org.apache.kafka.common.security.oauthbearer"


def is_one_of(name: str, known: Iterable[str]) -> bool:
    """Whether a class is one of `known`, with its packages. Shaded copies have more before them (`kafkashaded.org...`).

    Somebody else's class whose name ends alike (`com.acme.MyLoginCallbackHandler`) is none of them.
    """
    return any(name == each or name.endswith("." + each) for each in known)
