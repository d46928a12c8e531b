"""Turns OpenSSL's errors into errors that name the fault, the certificate and the change to make.

A close in the middle of a handshake is a `ConnectFailed`, which is tried again: brokers that stop do that, too. A
failure that a certificate or a setting causes is a `TlsError`, which is not tried again.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kafkasource.errors import (
    BrokerCertificateRefused,
    ClientCertificateRefused,
    ConnectFailed,
    KafkaSourceError,
    TlsError,
    TlsUnanswered,
)
from kafkasource.kafka.security.option import shown
from kafkasource.kafka.security.tls.certificates import Certificate
from kafkasource.kafka.security.tls.options import with_alias

_PROTOCOL = shown("security.protocol")
_BROKERS_LOG = "The broker's log (server.log) says why"
_TRUSTSTORE = with_alias("ssl.truststore.location")
_KEYSTORE = with_alias("ssl.keystore.location")

_RECORD_TYPES = range(0x14, 0x18)  # the first byte of every TLS record: change cipher, alert, handshake, data

# OpenSSL's X509_V_ERR_*.
_NOT_YET_VALID, _EXPIRED, _SELF_SIGNED, _SELF_SIGNED_ROOT, _REVOKED = 9, 10, 18, 19, 23
_NO_ISSUER = (2, 20, 21, 27)
_NO_REVOCATION_LIST, _OLD_REVOCATION_LIST = 3, 12
_OTHER_NAME = (62, 64)  # host name, IP address

_CERTIFICATE_ALERTS = (
    "BAD_CERTIFICATE",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_REQUIRED",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_REVOKED",
    "UNSUPPORTED_CERTIFICATE",
    "NO_CERTIFICATE",
    "UNKNOWN_CA",
    "ACCESS_DENIED",
    "DECRYPT_ERROR",
)
_PASSING_ALERTS = ("INTERNAL_ERROR", "USER_CANCELLED")  # a broker that is starting or stopping sends them, too


@dataclass(frozen=True)
class TlsAttempt:
    """Facts about a connection whose TLS failed."""

    host: str  # as asked for
    trusted: str  # `TlsSetup.trusted`
    presents_certificate: bool
    offered: str  # versions of TLS
    now: datetime
    chain: Sequence[Certificate] = ()  # of the broker, its own certificate first; empty where none has come
    first_bytes: bytes = b""  # of what the broker sent


def handshake_error(error: ssl.SSLError, attempt: TlsAttempt) -> KafkaSourceError:
    """The error of a handshake that failed."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return BrokerCertificateRefused(_verification(error, attempt))
    if attempt.first_bytes and attempt.first_bytes[0] not in _RECORD_TYPES:
        return TlsError(
            f"the broker's answer is not TLS (begins with {attempt.first_bytes[:4].hex(' ')}). If the port is one"
            f" without TLS, set {_PROTOCOL} to PLAINTEXT or SASL_PLAINTEXT, or give the port of a listener with TLS"
        )
    if isinstance(error, ssl.SSLEOFError | ssl.SSLSyscallError):
        return closed_error(attempt)
    if "ALERT" in reason:
        return alert_error(error, attempt) or _refusing_alert(reason, attempt)
    if reason in ("UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE"):
        return _no_common_version(attempt)
    return TlsError(f"the TLS handshake failed: {_text(error)}. {_BROKERS_LOG}")


def alert_error(error: ssl.SSLError, attempt: TlsAttempt) -> KafkaSourceError | None:
    """The error where the broker's alert is about the client's certificate; None: it is about something else.

    With TLS 1.3 the handshake is over for the client before the broker has seen the client's certificate, so this alert
    comes with the first read.
    """
    reason = error.reason or ""
    about_it = any(word in reason for word in _CERTIFICATE_ALERTS)
    # A cipher suite is chosen before the broker sends its chain. What fails after it, without a word why, is this.
    unsaid = "HANDSHAKE_FAILURE" in reason and bool(attempt.chain)
    if "ALERT" not in reason or not (about_it or unsaid):
        return None
    alert = reason.partition("ALERT_")[2].lower()
    if not attempt.presents_certificate:
        return ClientCertificateRefused(
            f"the broker requires a client certificate (its alert: {alert}), and none is set. Give one with {_KEYSTORE}"
            f" or {with_alias('ssl.keystore.certificate.chain')}"
        )
    return ClientCertificateRefused(
        f"the broker refuses the client's certificate (its alert: {alert}). Look whether the broker's truststore"
        f" (ssl.truststore.location of the listener) has the authority that issued it, whether {_KEYSTORE} holds the"
        " authorities between the two, and its dates"
    )


def suite_not_allowed(suite: str, allowed: Sequence[str]) -> TlsError:
    """TLS 1.3 arrived at a suite that `ssl.cipher.suites` does not name."""
    return TlsError(
        f"the server chose {suite}, and {shown('ssl.cipher.suites')} allows only {', '.join(sorted(allowed))} with TLS"
        f" 1.3. Add it, or set {shown('ssl.enabled.protocols')} to TLSv1.2"
    )


def listener_with_tls(sasl: bool) -> str:
    """Names what a server may be that closes the connection of a client without TLS, or does not answer it."""
    return f"a listener with TLS (then set kafka.security.protocol={'SASL_SSL' if sasl else 'SSL'})"


def closed_error(attempt: TlsAttempt) -> ConnectFailed:
    """The error where the broker closed or reset the connection during the handshake."""
    if attempt.first_bytes:
        return ConnectFailed(f"the broker closed the connection in the middle of the TLS handshake. {_BROKERS_LOG}")
    return TlsUnanswered(
        "the broker closed the connection at the first message of TLS. It stops, or the port is one without TLS. Then"
        f" set {_PROTOCOL} to PLAINTEXT or SASL_PLAINTEXT, or give the port of a listener with TLS"
    )


def _refusing_alert(reason: str, attempt: TlsAttempt) -> KafkaSourceError:
    alert = reason.partition("ALERT_")[2]
    if alert in _PASSING_ALERTS:
        return ConnectFailed(f"the broker ended the TLS handshake (its alert: {alert.lower()}). {_BROKERS_LOG}")
    if alert == "PROTOCOL_VERSION":
        return _no_common_version(attempt)
    if alert in ("HANDSHAKE_FAILURE", "INSUFFICIENT_SECURITY"):
        wants = "" if attempt.presents_certificate else f", or it requires a client certificate ({_KEYSTORE})"
        return TlsError(
            f"the broker refuses what the client offers (its alert: {alert.lower()}): they share no cipher suite"
            f"{wants}. Compare {shown('ssl.cipher.suites')} with ssl.cipher.suites of the broker"
        )
    return TlsError(f"the broker refuses the TLS handshake (its alert: {alert.lower()}). {_BROKERS_LOG}")


def _no_common_version(attempt: TlsAttempt) -> TlsError:
    return TlsError(
        f"the broker speaks none of the versions of TLS that the client offers ({attempt.offered}). Compare"
        f" {shown('ssl.enabled.protocols')} and {shown('ssl.protocol')} with ssl.enabled.protocols of the broker; this"
        " client does not speak TLS 1.1 and older"
    )


# The broker's certificate.


def _verification(error: ssl.SSLCertVerificationError, attempt: TlsAttempt) -> str:
    code, chain = error.verify_code, attempt.chain
    if not chain:
        return f"the broker's certificate is refused: {error.verify_message}"
    if code in _OTHER_NAME:
        return _other_name(attempt.host, chain[0])
    if code in (_EXPIRED, _NOT_YET_VALID):
        return _out_of_date(code, attempt)
    if code == _SELF_SIGNED:
        return (
            f"the broker's certificate is self-signed and not trusted: {described(chain[0])}. If it is the broker's,"
            f" add it to {_TRUSTSTORE}. Trusted are {attempt.trusted}"
        )
    if code == _SELF_SIGNED_ROOT:
        return _no_issuer(attempt, chain[-1].subject)
    if code in _NO_ISSUER:
        return _no_issuer(attempt, chain[-1].issuer)
    if code == _REVOKED:
        return (
            f"the broker's certificate is revoked ({shown('ssl.crl.location')} lists it): {described(chain[0])}. Give"
            " the broker a new one"
        )
    if code in (_NO_REVOCATION_LIST, _OLD_REVOCATION_LIST):
        wrong = "has expired" if code == _OLD_REVOCATION_LIST else "is missing"
        return (
            f"the broker's certificate cannot be checked: the revocation list of {chain[0].issuer!r} {wrong} in"
            f" {shown('ssl.crl.location')}: {described(chain[0])}. Add the current list to that file"
        )
    return f"the broker's certificate is refused ({error.verify_message}): {described(chain[0])}"


def described(certificate: Certificate) -> str:
    """The certificate as errors show it."""
    return (
        f"{certificate.subject!r}, issued by {certificate.issuer!r}, valid from {_day(certificate.not_before)} to"
        f" {_day(certificate.not_after)} for {certificate.names}"
    )


def _other_name(host: str, certificate: Certificate) -> str:
    return (
        f"the broker's certificate is not for {host!r}, the name that the client connects to. It is for"
        f" {certificate.names}: {described(certificate)}. The name comes from {shown('bootstrap.servers')}, and for"
        " other brokers from their advertised.listeners. Use a name that is in the certificate there, or issue one with"
        " this name (an IP address as an IP address)"
    )


def _out_of_date(code: int, attempt: TlsAttempt) -> str:
    future = code == _NOT_YET_VALID
    now = attempt.now
    wrong = [cert for cert in attempt.chain if (cert.not_before > now if future else cert.not_after < now)]
    certificate = wrong[0] if wrong else attempt.chain[0]
    if certificate is attempt.chain[0]:
        whose = "the broker's certificate"
    else:
        whose = "the certificate of an authority of the broker's"
    state = "is not valid yet" if future else "has expired"
    also = "" if wrong else f", or an authority's in {_TRUSTSTORE} has"
    return (
        f"{whose} {state}{also}: {described(certificate)}. This machine's clock says {attempt.now:%Y-%m-%d %H:%M} UTC."
        " Renew the certificate, or correct the clock"
    )


def _no_issuer(attempt: TlsAttempt, missing: str) -> str:
    chain = attempt.chain
    alone = (
        " The broker sends this certificate alone: if authorities stand between it and the trusted one, the broker's"
        " keystore must have them."
        if len(chain) == 1
        else ""
    )
    return (
        f"the broker's certificate is not trusted: no trusted certificate is of {missing!r}, which issued it or"
        f" one of its authorities: {described(chain[0])}.{alone} Trusted are {attempt.trusted}. Add the certificate of"
        f" {missing!r} to {_TRUSTSTORE}"
    )


def _day(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _text(error: ssl.SSLError) -> str:
    return error.reason or str(error)
