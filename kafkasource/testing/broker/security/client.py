"""How a client of a secured test broker is configured: in Java's names, and for confluent-kafka. Pure functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kafkasource.testing.broker.security import jaas
from kafkasource.testing.broker.security.settings import WITH_PASSWORD, Kerberos, Listener

_TOKEN_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


@dataclass(frozen=True)
class ClientAccess:
    """One user's way in: through which listener, by which mechanism, with what."""

    bootstrap_servers: str
    listener: Listener
    mechanism: str | None  # None: no SASL
    user: str
    password: str = field(repr=False)  # empty where the mechanism has none
    ca: Path  # PEM
    keystore: Path | None  # PEM: the private key, the user's certificate and its chain; where the listener wants one
    token_file: Path | None  # with signed tokens: holds one, for Java
    token: Callable[[], tuple[str, float]] | None  # with signed tokens: makes one, and when it expires (epoch, s)
    kerberos: Kerberos | None


def java_properties(access: ClientAccess) -> dict[str, str]:
    """The content of a client.properties."""
    told = {"bootstrap.servers": access.bootstrap_servers, "security.protocol": access.listener.protocol}
    if access.listener.tls:
        told |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(access.ca)}
    if access.keystore is not None:
        told |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(access.keystore)}
    if access.mechanism is not None:
        told |= {"sasl.mechanism": access.mechanism, "sasl.jaas.config": _java_login(access, access.mechanism)}
    if access.mechanism == "GSSAPI" and access.kerberos is not None:
        told["sasl.kerberos.service.name"] = access.kerberos.service_name
    if access.mechanism == "OAUTHBEARER" and access.token_file is not None:
        told["sasl.login.callback.handler.class"] = _TOKEN_HANDLER
        told["sasl.oauthbearer.token.endpoint.url"] = access.token_file.as_uri()
    return told


def _java_login(access: ClientAccess, mechanism: str) -> str:
    if mechanism in WITH_PASSWORD:
        return jaas.entry(mechanism, {"username": access.user, "password": access.password})
    if mechanism == "OAUTHBEARER":
        unsigned = {"unsecuredLoginStringClaim_sub": access.user}
        return jaas.entry(mechanism, unsigned if access.token_file is None else {})
    if access.kerberos is None or access.kerberos.client_keytab is None or access.kerberos.client_principal is None:
        return jaas.entry(mechanism, {"useTicketCache": "true"})
    keytab = jaas.with_keytab(str(access.kerberos.client_keytab), access.kerberos.client_principal)
    return jaas.entry(mechanism, keytab)


def confluent_properties(access: ClientAccess) -> dict[str, object]:
    """A configuration of confluent-kafka's clients. With signed tokens it holds a function (`oauth_cb`)."""
    told: dict[str, object] = {
        "bootstrap.servers": access.bootstrap_servers,
        "security.protocol": access.listener.protocol,
    }
    if access.listener.tls:
        told["ssl.ca.location"] = str(access.ca)
    if access.keystore is not None:
        told |= {"ssl.certificate.location": str(access.keystore), "ssl.key.location": str(access.keystore)}
    if access.mechanism is not None:
        told["sasl.mechanism"] = access.mechanism
    if access.mechanism in WITH_PASSWORD:
        told |= {"sasl.username": access.user, "sasl.password": access.password}
    if access.mechanism == "OAUTHBEARER":
        token = access.token
        if token is not None:
            told["oauth_cb"] = lambda _config: token()
        else:
            told |= {"enable.sasl.oauthbearer.unsecure.jwt": True}
            told["sasl.oauthbearer.config"] = f"principal={access.user}"
    return told
