"""One address of a broker: TCP, TLS with the certificates, SASL; and the stage that failed, with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from kafkasource.errors import AuthenticationFailed, ConnectFailed, KafkaSourceError
from kafkasource.kafka.cluster.visit import (
    API_VERSIONS,
    DNS,
    SASL,
    TCP,
    TLS,
    Visit,
    answers_without_sasl,
    offered_mechanisms,
    resolve,
    visit,
)
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.sockets import Address
from kafkasource.kafka.security.quoting import printable
from kafkasource.kafka.security.tls.certificates import Certificate
from kafkasource.kafka.security.tls.errors import described
from kafkasource.options.spelling import many
from kafkasource.tools.cli.doctor.finding import FAILED, OK, WARNING, Finding

LOCAL = {"localhost", "127.0.0.1", "::1"}
WARN_BEFORE = timedelta(days=30)
ANSWER_MS = 10_000  # the wait for one address
_OFFER_MS = 2_000  # for the further question what a listener offers: Kafka 0.9 never answers it

_WANTS_SASL = "the listener requires SASL, and none is set. Set 'kafka.security.protocol' to"
REMEDIES = {
    DNS: "correct the name, or this machine's name server; brokers advertise names by advertised.listeners",
    TCP: "start the broker, open the firewall to it, or correct the address",
    TLS: "compare kafka.ssl.* with ssl.* of the listener; docs/security.md says what each error means",
    API_VERSIONS: "look whether the port is one of Kafka's, and what the broker's log says",
    SASL: "compare kafka.sasl.* with the listener's; docs/security.md says what each error means",
}


def visits(config: ClientConfig, host: str, port: int) -> list[Visit]:
    """A visit to each address of the host; one that failed with DNS where it has none."""
    try:
        addresses = resolve(host, port)
    except ConnectFailed as error:
        return [Visit(f"{host}:{port}", DNS, error)]
    return [_visited(config, address) for address in addresses]


def _visited(config: ClientConfig, address: Address) -> Visit:
    try:
        found = visit(config, address, ANSWER_MS)
        if found.error is None and config.security.sasl is None:
            found.mechanisms = offered_mechanisms(config, address, _OFFER_MS)
            if found.mechanisms and not answers_without_sasl(config, address, ANSWER_MS):
                protocol = "SASL_SSL" if config.security.encrypts else "SASL_PLAINTEXT"
                found.stage, found.error = SASL, AuthenticationFailed(f"{_WANTS_SASL} {protocol}")
        return found
    except KafkaSourceError as error:  # a file of the options, or a reference, that went away meanwhile
        return Visit(str(address), TCP, error)


def of_address(what: str, found: Visit, alone: bool) -> Iterator[Finding]:
    """`what` names the broker. `alone`: no other address of its host answers."""
    if found.error is not None and found.stage in (DNS, TCP):
        # A client goes on with the host's next address. `localhost` has two, and most brokers listen at one.
        yield Finding(FAILED if alone else WARNING, f"{what} {found.stage}", _at(found), REMEDIES[found.stage])
        return
    yield Finding(OK, f"{what} TCP", f"{found.address}: connected")
    if found.tls_version:
        yield Finding(OK, f"{what} TLS", f"{found.address}: {found.tls_version}, {found.tls_suite}")
    for certificate in found.chain:
        yield of_certificate(f"{what} TLS", f"{found.address}: ", certificate)
    if found.mechanisms and found.stage == SASL:
        yield Finding(OK, f"{what} SASL", f"{found.address}: offers {_names(found)}")
    if found.error is not None:
        yield Finding(FAILED, f"{what} {found.stage}", _at(found), REMEDIES[found.stage])
    elif found.stage == SASL:
        yield Finding(OK, f"{what} SASL", f"{found.address}: logged in; {_session(found)}")


def of_certificate(what: str, where: str, certificate: Certificate) -> Finding:
    """Its names and dates; a warning within 30 days of its end, which is 16 before the client warns."""
    left = certificate.remaining(datetime.now(timezone.utc))
    text = f"{where}{described(certificate)}"
    if left < timedelta(0):
        return Finding(FAILED, what, f"{text}; it has expired", "renew the certificate")
    text += f"; {many(left.days, 'day')} left"
    if left < WARN_BEFORE:
        return Finding(WARNING, what, text, "renew the certificate")
    return Finding(OK, what, text)


def _at(found: Visit) -> str:
    text = str(found.error)
    return text if found.address in text else f"{found.address}: {text}"


def _names(found: Visit) -> str:
    return ", ".join(printable(name, 40) for name in found.mechanisms[:20])


def _session(found: Visit) -> str:
    if not found.session_lifetime_ms:
        return "the session has no end"
    return f"the session ends after {found.session_lifetime_ms / 1000:g} s, unless the client authenticates again"
