"""The listeners of the secured broker that tests share: each way to connect, so that no test needs a broker of its own.

    secured_broker, secured_broker_3_9     of Kafka 4.3.1 and 3.9.2, for the whole run; `each_secured_broker`: both

They have an authorizer. A resource that no ACL names is everybody's; a test adds ACLs for its own topics and groups.
"""

from kafkasource.testing.broker import Broker, Listener, Security

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
