"""Certificates made on the spot: a CA, what it issues, and the forms in which Kafka and clients read them.

Needs `cryptography` (the extra `kafkasource[tls]`); only a broker with TLS imports this module. Tests make what a
client must refuse with the same calls: `issue` takes any names and any dates, and another `Authority` is another CA.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
LOCAL_NAMES = ("localhost", "127.0.0.1")
LIFETIME = timedelta(days=365)
_EARLIER = timedelta(hours=1)  # clocks of containers differ a little


@dataclass(frozen=True)
class IssuedCertificate:
    """A certificate with its private key, and the intermediates between it and the CA."""

    certificate: x509.Certificate
    key: PrivateKey
    chain: tuple[x509.Certificate, ...] = ()  # the issuer's first; without the CA

    @property
    def certificate_pem(self) -> str:
        """The certificate and its chain."""
        return "".join(map(pem, (self.certificate, *self.chain)))

    def key_pem(self, password: str | None = None) -> str:
        """The private key as PKCS#8, encrypted where there is a password."""
        locked = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        text = self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
        return text.decode()

    def pkcs12(self, password: str) -> bytes:
        """A keystore with one entry, its key under the same password."""
        locked = serialization.BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"kafka", self.key, self.certificate, self.chain, locked)


class Authority:
    """A CA, or with a parent an intermediate one: then its certificates carry the chain up to the root."""

    def __init__(self, name: str = "kafkasource test CA", parent: Authority | None = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._parent = parent
        subject, now = _name(name), datetime.now(timezone.utc)
        issuer, signing = (subject, self._key) if parent is None else (parent.certificate.subject, parent._key)
        builder = _unsigned(subject, issuer, self._key, now - _EARLIER, now + LIFETIME)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
        self.certificate: x509.Certificate = _with_key_ids(builder, self._key, signing).sign(signing, hashes.SHA256())

    @property
    def pem(self) -> str:
        return pem(self.certificate)

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        """The certificates from this intermediate up to the last below the root. Empty for a root."""
        return () if self._parent is None else (self.certificate, *self._parent.chain)

    def intermediate(self, name: str = "kafkasource test intermediate CA") -> Authority:
        return Authority(name, self)

    def issue(
        self,
        common_name: str,
        names: Sequence[str] = LOCAL_NAMES,
        *,
        not_before: datetime | None = None,
        not_after: datetime | None = None,
        key: PrivateKey | None = None,
    ) -> IssuedCertificate:
        """A certificate for servers and clients.

        `names`: host names and IP addresses for the SAN; with none there is no SAN. Dates are aware of their zone, and
        may lie in the past or future: without them it has been valid for an hour and stays so for a year.
        `key`: a new one on P-256 when absent.
        """
        own, now = key or ec.generate_private_key(ec.SECP256R1()), datetime.now(timezone.utc)
        first, last = not_before or now - _EARLIER, not_after or now + LIFETIME
        builder = _unsigned(_name(common_name), self.certificate.subject, own, first, last)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([*map(_general_name, names)]), critical=False)
        signed = _with_key_ids(builder, own, self._key).sign(self._key, hashes.SHA256())
        return IssuedCertificate(signed, own, self.chain)

    def expired(self, common_name: str = "expired", names: Sequence[str] = LOCAL_NAMES) -> IssuedCertificate:
        """One that ran out yesterday."""
        now = datetime.now(timezone.utc)
        return self.issue(common_name, names, not_before=now - timedelta(days=30), not_after=now - timedelta(days=1))


def pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def truststore(authorities: Sequence[Authority], password: str) -> bytes:
    """A PKCS12 truststore that Java takes: it trusts only entries with an attribute of its own."""
    entries = [
        pkcs12.PKCS12Certificate(authority.certificate, str(n).encode()) for n, authority in enumerate(authorities)
    ]
    return pkcs12.serialize_java_truststore(entries, serialization.BestAvailableEncryption(password.encode()))


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, first: datetime, last: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    return builder.serial_number(x509.random_serial_number()).not_valid_before(first).not_valid_after(last)


def _with_key_ids(builder: x509.CertificateBuilder, own: PrivateKey, signing: PrivateKey) -> x509.CertificateBuilder:
    """Add the key identifiers, which Python 3.13's strict verification requires."""
    subject = x509.SubjectKeyIdentifier.from_public_key(own.public_key())
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    return builder.add_extension(subject, critical=False).add_extension(issuer, critical=False)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
