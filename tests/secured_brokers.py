"""The listeners of the secured broker that tests share: each way to connect, so that no test needs a broker of its own.

    secured_broker, secured_broker_3_9     of Kafka 4.3.1 and 3.9.2, for the whole run; `each_secured_broker`: both

They have an authorizer. A resource that no ACL names is everybody's; a test adds ACLs for its own topics and groups.

Nodes and readiness probes use a PLAINTEXT listener on 127.0.0.1, so that a fault in our TLS or SASL cannot keep a
broker from starting. The price: ANONYMOUS is the super user, and with ACLs an SSL listener requires client
certificates.
"""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import urlsplit

from kafkasource.testing.broker import Broker, Listener, Security
from kafkasource.testing.broker.security.secured import SecuredCluster

WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USERS = {"alice": "alice-secret", "bob": 'b"o\\b, =]ü'}  # whatever a password may hold
SESSION_MS = 4000

LISTENERS = (
    Listener("SASL_SSL", (*WITH_PASSWORD, "OAUTHBEARER")),  # OAUTHBEARER without signatures
    Listener("SASL_PLAINTEXT", (*WITH_PASSWORD, "OAUTHBEARER")),
    Listener("SSL"),
    Listener("SSL", name="MTLS", client_auth="required"),
    Listener("SASL_SSL", ("OAUTHBEARER",), name="JWKS", signed_tokens=True),
    Listener("SASL_SSL", ("PLAIN", "SCRAM-SHA-512"), name="REAUTH", reauth_ms=SESSION_MS),
)


def secured(version: str) -> Broker:
    """A broker with all of them, not started."""
    security = Security(LISTENERS, users=USERS, acls=())
    return Broker(version, security=security, properties={"allow.everyone.if.no.acl.found": "true"})


def confluent_properties(
    secured: SecuredCluster, listener: str | None = None, mechanism: str | None = None, user: str | None = None
) -> dict[str, object]:
    """A configuration of confluent-kafka's clients: that of Java's, translated."""
    java = secured.client_properties(listener, mechanism, user)
    user = user or next(iter(secured.security.users), "client")
    theirs: dict[str, object] = {name: java[name] for name in ("bootstrap.servers", "security.protocol")}
    if "ssl.truststore.location" in java:
        theirs["ssl.ca.location"] = java["ssl.truststore.location"]
    if keystore := java.get("ssl.keystore.location"):
        theirs |= {"ssl.certificate.location": keystore, "ssl.key.location": keystore}
    if "sasl.mechanism" in java:
        theirs["sasl.mechanism"] = java["sasl.mechanism"]
    if java.get("sasl.mechanism") in WITH_PASSWORD:
        theirs |= {"sasl.username": user, "sasl.password": secured.security.users[user]}
    elif token_url := java.get("sasl.oauthbearer.token.endpoint.url"):
        token = Path(urlsplit(token_url).path).read_text()
        theirs["oauth_cb"] = lambda _config: (token, time.time() + 3600)
    elif java.get("sasl.mechanism") == "OAUTHBEARER":
        theirs |= {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": f"principal={user}"}
    return theirs
