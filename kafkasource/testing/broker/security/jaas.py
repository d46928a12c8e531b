"""JAAS entries: which login module a mechanism has, and its options."""

from __future__ import annotations

from collections.abc import Mapping

_KAFKA = "org.apache.kafka.common.security"
MODULES = {
    "PLAIN": f"{_KAFKA}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_KAFKA}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_KAFKA}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_KAFKA}.oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}


def entry(mechanism: str, options: Mapping[str, str]) -> str:
    """`Module required name="value" ...;`"""
    return " ".join([MODULES[mechanism], "required", *(f"{name}={_quoted(options[name])}" for name in options)]) + ";"


def server_entry(mechanism: str, users: Mapping[str, str], keytab: Mapping[str, str]) -> str:
    """The entry of a broker: with the passwords for PLAIN, and with the options of its keytab for GSSAPI.

    SCRAM has its users in the cluster's metadata.
    """
    if mechanism == "PLAIN":
        return entry(mechanism, {f"user_{name}": password for name, password in users.items()})
    if mechanism == "OAUTHBEARER":
        # The broker logs in, too, though no listener of it needs that: a token of its own without a signature.
        return entry(mechanism, {"unsecuredLoginStringClaim_sub": "broker"})
    return entry(mechanism, keytab if mechanism == "GSSAPI" else {})


def with_keytab(keytab: str, principal: str) -> dict[str, str]:
    """The options of Krb5LoginModule that log in with a keytab."""
    return {"useKeyTab": "true", "storeKey": "true", "keyTab": keytab, "principal": principal}


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
