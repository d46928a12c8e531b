"""Reads names, issuer and dates of certificates. OpenSSL checks signatures, this module does not.

Python's `ssl` gives these fields only for a trusted peer. Errors must show them for a peer that is not trusted.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from kafkasource.errors import escaped
from kafkasource.kafka.security.tls.der import (
    BOOLEAN,
    GENERALIZED_TIME,
    OBJECT_IDENTIFIER,
    OCTET_STRING,
    SEQUENCE,
    SET,
    UTC_TIME,
    Element,
    MalformedDer,
    elements,
    object_identifier,
    sequence,
)

_ATTRIBUTES = {
    "2.5.4.3": "CN",
    "2.5.4.5": "serialNumber",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
    "1.2.840.113549.1.9.1": "emailAddress",
}
_SUBJECT_ALTERNATIVE_NAMES, _BASIC_CONSTRAINTS = "2.5.29.17", "2.5.29.19"
_EXPLICIT_VERSION, _EXTENSIONS = 0xA0, 0xA3  # context tags in the body of a certificate
_DNS_NAME, _IP_ADDRESS = 0x82, 0x87  # context tags of a GeneralName
_ENCODINGS = {0x0C: "utf-8", 0x14: "latin-1", 0x1C: "utf-32-be", 0x1E: "utf-16-be"}  # other strings: ASCII
_MOST_NAMES_SHOWN = 12


@dataclass(frozen=True)
class Certificate:
    """One X.509 certificate. Text from it has no control characters: it goes into logs, and a peer chose it."""

    subject: str  # RFC 4514, the most specific part first, as Java and Kafka's ACLs write it
    issuer: str
    not_before: datetime  # UTC; inclusive, as is not_after
    not_after: datetime
    dns_names: tuple[str, ...]
    ip_addresses: tuple[str, ...]
    is_ca: bool
    self_issued: bool  # subject and issuer are the same name: a root, or a self-signed certificate

    @property
    def names(self) -> str:
        """The names that the certificate is valid for, as an error shows them."""
        names = [*self.dns_names, *(f"IP {address}" for address in self.ip_addresses)]
        if not names:
            return "no names (no subject alternative name)"
        more = len(names) - _MOST_NAMES_SHOWN
        return ", ".join(names[:_MOST_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")

    def remaining(self, now: datetime) -> timedelta:
        """The time until the certificate expires; negative once it has expired."""
        return self.not_after - now


def read_certificate(der: bytes) -> Certificate:
    """Read the fields of a DER certificate from anywhere, a peer that nobody trusts included. Raises MalformedDer."""
    body = elements(sequence(der, at_least=3)[0].expect(SEQUENCE))
    if body and body[0].tag == _EXPLICIT_VERSION:
        body = body[1:]
    if len(body) < 6:  # serial, algorithm, issuer, validity, subject, key
        raise MalformedDer("a certificate lacks fields")
    issuer, validity, subject = body[2], elements(body[3].expect(SEQUENCE)), body[4]
    if len(validity) != 2:
        raise MalformedDer("a certificate lacks a date")
    extensions = _extensions(body[6:])
    dns_names, ip_addresses = _alternative_names(extensions.get(_SUBJECT_ALTERNATIVE_NAMES))
    return Certificate(
        subject=_name(subject),
        issuer=_name(issuer),
        not_before=_time(validity[0]),
        not_after=_time(validity[1]),
        dns_names=dns_names,
        ip_addresses=ip_addresses,
        is_ca=_is_ca(extensions.get(_BASIC_CONSTRAINTS)),
        self_issued=subject.whole == issuer.whole,
    )


def readable(chain: Iterable[bytes]) -> tuple[Certificate, ...]:
    """Read the certificates of a chain (DER) up to the first damaged one, which OpenSSL refuses."""
    certificates = []
    for der in chain:
        try:
            certificates.append(read_certificate(der))
        except MalformedDer:
            break
    return tuple(certificates)


def _extensions(fields: list[Element]) -> dict[str, bytes]:
    """Map object identifiers to the extensions' values."""
    values = {}
    for field in fields:
        if field.tag != _EXTENSIONS:
            continue
        for extension in sequence(field.content):
            parts = elements(extension.expect(SEQUENCE))  # identifier, critical (only where true), value
            if len(parts) < 2:
                raise MalformedDer("an extension lacks its value")
            values[object_identifier(parts[0].expect(OBJECT_IDENTIFIER))] = parts[-1].expect(OCTET_STRING)
    return values


def _alternative_names(extension: bytes | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """DNS names and IP addresses."""
    if extension is None:
        return (), ()
    dns_names, ip_addresses = [], []
    for name in sequence(extension):
        if name.tag == _DNS_NAME:
            dns_names.append(escaped(name.content.decode("ascii", "replace"), keep=""))
        elif name.tag == _IP_ADDRESS:
            if len(name.content) not in (4, 16):
                raise MalformedDer("an IP address has neither 4 nor 16 bytes")
            ip_addresses.append(str(ipaddress.ip_address(name.content)))
    return tuple(dns_names), tuple(ip_addresses)


def _is_ca(extension: bytes | None) -> bool:
    parts = sequence(extension) if extension is not None else []
    return bool(parts) and parts[0].tag == BOOLEAN and parts[0].content != b"\0"


def _name(name: Element) -> str:
    parts = []
    for relative in elements(name.expect(SEQUENCE)):
        pairs = []
        for attribute in elements(relative.expect(SET)):
            pair = elements(attribute.expect(SEQUENCE))
            if len(pair) != 2:
                raise MalformedDer("an attribute of a name is not a pair")
            oid = object_identifier(pair[0].expect(OBJECT_IDENTIFIER))
            text = pair[1].content.decode(_ENCODINGS.get(pair[1].tag, "ascii"), "replace")
            pairs.append(f"{_ATTRIBUTES.get(oid, oid)}={_value(text)}")
        parts.append("+".join(pairs))
    return ",".join(reversed(parts)) or "(no name)"


def _value(text: str) -> str:
    """RFC 4514, section 2.4."""
    text = "".join("\\" + character if character in ',+"\\<>;' else character for character in text)
    if text[:1] in ("#", " "):
        text = "\\" + text
    if len(text) > 1 and text[-1] == " ":
        text = text[:-1] + "\\ "
    return escaped(text, keep="")


def _time(element: Element) -> datetime:
    """RFC 5280, section 4.1.2.5: always in UTC, with seconds. A UTCTime has two digits of the year, from 1950 on."""
    text = element.content.decode("ascii", "replace")
    if element.tag == UTC_TIME:
        text = ("19" if text[:2] >= "50" else "20") + text
    elif element.tag != GENERALIZED_TIME:
        raise MalformedDer(f"expected a time, found the tag 0x{element.tag:02x}")
    try:
        return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=timezone.utc)
    except ValueError as error:
        raise MalformedDer(f"{escaped(text, keep='')} is not a time of a certificate") from error
