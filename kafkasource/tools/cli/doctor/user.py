"""Shows the client's identity: its certificate, and the principal that brokers see.

No broker tells a client its principal. This is the principal that a broker derives from the credentials unless it maps
names (ssl.principal.mapping.rules, sasl.kerberos.principal.to.local.rules, principal.builder.class).
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.security.quoting import printable
from kafkasource.kafka.security.tls.certificates import Certificate, readable
from kafkasource.tools.cli.doctor.addresses import of_certificate
from kafkasource.tools.cli.doctor.finding import FAILED, OK, Finding


def user_findings(config: ClientConfig) -> Iterator[Finding]:
    security, own = config.security, None
    try:
        if security.encrypts:
            chain = readable(security.tls_context().setup().own_chain)  # fails where key and certificate do not match
            for certificate in chain:
                own = own or certificate
                yield of_certificate("own certificate", "the key matches; " if certificate is own else "", certificate)
        login = security.login(config.bootstrap_servers[0][0])
        user = None if login is None else login.user()
    except KafkaSourceError as error:
        yield Finding(FAILED, "user", str(error), "correct the option, or the file that it names")
        return
    shown = _sasl_user(user) if login is not None else _tls_user(own)
    yield Finding(OK, "user", f"{security.protocol}: {shown}")


def _sasl_user(user: str | None) -> str:
    return "only the broker knows who this is" if user is None else f"User:{printable(user)}, unless brokers map names"


def _tls_user(own: Certificate | None) -> str:
    if own is None:
        return "User:ANONYMOUS"
    return f"User:{own.subject} where the listener asks for a certificate, else User:ANONYMOUS"
