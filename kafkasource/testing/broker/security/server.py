"""A node's security as server.properties, JAAS files and JVM flags. Pure functions.

KRaft releases have properties for each listener. Releases before KRaft have properties for all listeners, and a JAAS
file that a system property of the JVM names.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kafkasource.testing.broker.properties import HOST, NodePorts
from kafkasource.testing.broker.security import jaas
from kafkasource.testing.broker.security.settings import SCRAM, Listener, Security

_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ACL_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
_SIMPLE_ACL_AUTHORIZER = "kafka.security.auth.SimpleAclAuthorizer"  # before 2.4
_JWKS_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
TOKEN_AUDIENCE, TOKEN_ISSUER = "kafka", "kafkasource"  # the claims aud and iss
SCRAM_ITERATIONS = 4096  # the fewest that Kafka takes


@dataclass(frozen=True)
class ServerFiles:
    """Files that server.properties names, and the password of the stores among them."""

    keystores: Mapping[str, Path]  # PKCS12, by the listener's name
    truststore: Path  # PKCS12
    jwks: Path  # with signed tokens
    password: str


def kraft_security(security: Security, ports: NodePorts, files: ServerFiles) -> dict[str, object]:
    """Properties of KRaft nodes, in addition to `server_properties`."""
    ours = dict(zip(security.listeners, (ports.client, *ports.further), strict=True))
    advertised = dict(zip(security.listeners, (ports.advertised, *ports.further), strict=True))
    protocols = [f"{listener.name}:{listener.protocol}" for listener in ours]
    inner = f"PLAINTEXT://{HOST}:{ports.unsecured}"
    properties: dict[str, object] = {
        "listeners": ",".join(
            [inner, f"CONTROLLER://{HOST}:{ports.controller}", *(f"{k.name}://{HOST}:{v}" for k, v in ours.items())]
        ),
        "advertised.listeners": ",".join([inner, *(f"{k.name}://{k.host}:{v}" for k, v in advertised.items())]),
        "listener.security.protocol.map": ",".join(["CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT", *protocols]),
        "inter.broker.listener.name": "PLAINTEXT",
    }
    for listener in security.listeners:
        prefix = f"listener.name.{listener.name.lower()}."
        of_listener = _tls(listener, files) | _sasl(listener, security, files)
        properties |= {prefix + name: value for name, value in of_listener.items()}
    if set(security.mechanisms) & set(SCRAM):
        properties["delegation.token.secret.key"] = files.password
    return properties | _kerberos(security) | _authorizer(security, _AUTHORIZER)


def legacy_security(
    security: Security, ports: NodePorts, files: ServerFiles, release: tuple[int, ...]
) -> dict[str, object]:
    """Properties of nodes with a ZooKeeper, in addition to `legacy_server_properties`; see `legacy_jaas`."""
    listener = security.listener()
    inner = f"PLAINTEXT://{HOST}:{ports.unsecured}"
    properties: dict[str, object] = {
        "listeners": f"{inner},{listener.protocol}://{HOST}:{ports.client}",
        "advertised.listeners": f"{inner},{listener.protocol}://{listener.host}:{ports.advertised}",
        **_tls(listener, files),
    }
    if listener.sasl:
        properties["sasl.enabled.mechanisms"] = ",".join(listener.mechanisms)
    authorizer = _SIMPLE_ACL_AUTHORIZER if release < (2, 4) else _ACL_AUTHORIZER
    return properties | _kerberos(security) | _authorizer(security, authorizer)


def legacy_jaas(security: Security) -> str:
    """The JAAS file: one section with an entry for each mechanism."""
    entries = [jaas.server_entry(mechanism, security.users, _keytab(security)) for mechanism in security.mechanisms]
    return "\n".join(["KafkaServer {", *dict.fromkeys(entries), "};", ""])


def jvm_flags(security: Security, files: ServerFiles, jaas_file: Path | None) -> tuple[str, ...]:
    """System properties of the JVM."""
    flags = []
    if security.signed_tokens:  # Kafka reads no other file or URL
        flags.append(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={files.jwks.as_uri()}")
    if security.kerberos is not None:
        flags.append(f"-Djava.security.krb5.conf={security.kerberos.krb5_conf}")
    if jaas_file is not None:
        flags.append(f"-Djava.security.auth.login.config={jaas_file}")
    return tuple(flags)


def scram_credentials(security: Security) -> list[str]:
    """Makes the values of `--add-scram`, one for each user and mechanism, with a salted password."""
    return [
        _scram_credential(mechanism, user, password, os.urandom(16))
        for mechanism in SCRAM
        if mechanism in security.mechanisms
        for user, password in security.users.items()
    ]


def _scram_credential(mechanism: str, user: str, password: str, salt: bytes) -> str:
    digest = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, SCRAM_ITERATIONS)
    texts = [base64.b64encode(data).decode() for data in (salt, salted)]
    return f'{mechanism}=[name={user},iterations={SCRAM_ITERATIONS},salt="{texts[0]}",saltedpassword="{texts[1]}"]'


def _tls(listener: Listener, files: ServerFiles) -> dict[str, object]:
    if not listener.tls:
        return {}
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": files.keystores[listener.name],
        "ssl.keystore.password": files.password,
        "ssl.key.password": files.password,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": files.truststore,
        "ssl.truststore.password": files.password,
        "ssl.client.auth": listener.client_auth,
    }


def _sasl(listener: Listener, security: Security, files: ServerFiles) -> dict[str, object]:
    """Names without the prefix of the listener."""
    if not listener.sasl:
        return {}
    properties: dict[str, object] = {"sasl.enabled.mechanisms": ",".join(listener.mechanisms)}
    for mechanism in listener.mechanisms:
        own: dict[str, object] = {"sasl.jaas.config": jaas.server_entry(mechanism, security.users, _keytab(security))}
        if listener.reauth_ms is not None:
            own["connections.max.reauth.ms"] = listener.reauth_ms
        if mechanism == "OAUTHBEARER" and listener.signed_tokens:
            own |= {
                "sasl.jaas.config": jaas.entry(mechanism, {}),
                "sasl.server.callback.handler.class": _JWKS_HANDLER,
                "sasl.oauthbearer.jwks.endpoint.url": files.jwks.as_uri(),
                "sasl.oauthbearer.expected.audience": TOKEN_AUDIENCE,
                "sasl.oauthbearer.expected.issuer": TOKEN_ISSUER,
            }
        properties |= {f"{mechanism.lower()}.{name}": value for name, value in own.items()}
    return properties


def _keytab(security: Security) -> dict[str, str]:
    if security.kerberos is None:
        return {}
    return jaas.with_keytab(str(security.kerberos.keytab), security.kerberos.principal)


def _kerberos(security: Security) -> dict[str, object]:
    return {} if security.kerberos is None else {"sasl.kerberos.service.name": security.kerberos.service_name}


def _authorizer(security: Security, name: str) -> dict[str, object]:
    if security.acls is None:
        return {}
    return {"authorizer.class.name": name, "super.users": "User:ANONYMOUS"}
