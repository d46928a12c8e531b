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
    AddressCheck,
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


def visits(config: ClientConfig, host: str, port: int) -> list[AddressCheck]:
    """A visit to each address of the host; one that failed with DNS where it has none."""
    try:
        addresses = resolve(host, port)
    except ConnectFailed as error:
        return [AddressCheck(f"{host}:{port}", DNS, error)]
    return [_visited(config, address) for address in addresses]


def _visited(config: ClientConfig, address: Address) -> AddressCheck:
    try:
        visited = visit(config, address, ANSWER_MS)
        if visited.error is None and config.security.sasl is None:
            visited.mechanisms = offered_mechanisms(config, address, _OFFER_MS)
            if visited.mechanisms and not answers_without_sasl(config, address, ANSWER_MS):
                protocol = "SASL_SSL" if config.security.encrypts else "SASL_PLAINTEXT"
                visited.stage, visited.error = SASL, AuthenticationFailed(f"{_WANTS_SASL} {protocol}")
        return visited
    except KafkaSourceError as error:  # a file of the options, or a reference, that went away meanwhile
        return AddressCheck(str(address), TCP, error)


def of_address(what: str, visited: AddressCheck, alone: bool) -> Iterator[Finding]:
    """`what` names the broker. `alone`: no other address of its host answers."""
    if visited.error is not None and visited.stage in (DNS, TCP):
        # A client goes on with the host's next address. `localhost` has two, and most brokers listen at one.
        yield Finding(FAILED if alone else WARNING, f"{what} {visited.stage}", _at(visited), REMEDIES[visited.stage])
        return
    yield Finding(OK, f"{what} TCP", f"{visited.address}: connected")
    if visited.tls_version:
        yield Finding(OK, f"{what} TLS", f"{visited.address}: {visited.tls_version}, {visited.tls_suite}")
    for certificate in visited.chain:
        yield of_certificate(f"{what} TLS", f"{visited.address}: ", certificate)
    if visited.mechanisms and visited.stage == SASL:
        yield Finding(OK, f"{what} SASL", f"{visited.address}: offers {_names(visited)}")
    if visited.error is not None:
        yield Finding(FAILED, f"{what} {visited.stage}", _at(visited), REMEDIES[visited.stage])
    elif visited.stage == SASL:
        yield Finding(OK, f"{what} SASL", f"{visited.address}: logged in; {_session(visited)}")


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


def _at(visited: AddressCheck) -> str:
    text = str(visited.error)
    return text if visited.address in text else f"{visited.address}: {text}"


def _names(visited: AddressCheck) -> str:
    return ", ".join(printable(name, 40) for name in visited.mechanisms[:20])


def _session(visited: AddressCheck) -> str:
    if not visited.session_lifetime_ms:
        return "the session has no end"
    return f"the session ends after {visited.session_lifetime_ms / 1000:g} s, unless the client authenticates again"
