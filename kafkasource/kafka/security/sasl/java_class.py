"""Java classes that options name. The client does the work of Kafka's own classes, and of some vendors'."""

from __future__ import annotations

from collections.abc import Iterable

KAFKAS_SECURITY = "org.apache.kafka.common.security"
OAUTHBEARER_PACKAGE = f"{KAFKAS_SECURITY}.oauthbearer"
MSK_IAM = "software.amazon.msk.auth.iam.IAMLoginModule"
CLIENT_HANDLER = "sasl.client.callback.handler.class"  # an option; the client knows AMAZONS_HANDLERS alone
AMAZONS_HANDLERS = (
    "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
)


def is_one_of(name: str, known: Iterable[str]) -> bool:
    """Whether a class is one of `known`, by its full name or that of a shaded copy (`kafkashaded.org...`).

    Another class whose name ends alike (`com.acme.MyLoginCallbackHandler`) is not.
    """
    return any(name == known_name or name.endswith("." + known_name) for known_name in known)
