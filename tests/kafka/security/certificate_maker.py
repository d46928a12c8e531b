"""Certificates, keys, revocation lists and stores that are made on the spot, by `cryptography` and Java's keytool."""

from __future__ import annotations

import ipaddress
import subprocess
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

from kafkasource.testing.broker.jvm.home import JavaNotFound, find_java

NOW = datetime.now(timezone.utc).replace(microsecond=0)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A certificate with its key, and those that issued it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    issuers: tuple[x509.Certificate, ...] = ()  # up to the root, which is left out

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pem(self) -> str:
        return pem_of(self.certificate)

    @property
    def chain_pem(self) -> str:
        return self.pem + "".join(map(pem_of, self.issuers))

    def key_pem(self, password: str | None = None, form: PrivateFormat = PrivateFormat.PKCS8) -> str:
        encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, form, encryption).decode()

    def pkcs12(self, password: str) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"client", self.key, self.certificate, self.issuers, BestAvailableEncryption(password.encode())
        )

    def issue(
        self,
        name: str,
        dns: tuple[str, ...] = (),
        ips: tuple[str, ...] = (),
        *,
        ca: bool = False,
        not_before: datetime = NOW - DAY,
        not_after: datetime = NOW + 90 * DAY,
        key_identifiers: bool = True,
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(
            name, key, self.certificate.subject, self.key, dns, ips, ca, not_before, not_after, key_identifiers
        )
        above = () if self.certificate.issuer == self.certificate.subject else (self.certificate, *self.issuers)
        return Issued(certificate, key, above)

    def revocation_list(
        self, *revoked: Issued, last_update: datetime = NOW - DAY, next_update: datetime = NOW + DAY
    ) -> str:
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.certificate.subject)
        builder = builder.last_update(last_update).next_update(next_update)
        for issued in revoked:
            row = x509.RevokedCertificateBuilder().serial_number(issued.certificate.serial_number)
            builder = builder.add_revoked_certificate(row.revocation_date(NOW - DAY).build())
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def authority(name: str = "Test Root", **dates: datetime) -> Issued:
    return self_signed(name, ca=True, **dates)


def self_signed(name: str, dns: tuple[str, ...] = (), *, ca: bool = False, **dates: datetime) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    not_before, not_after = dates.get("not_before", NOW - DAY), dates.get("not_after", NOW + 90 * DAY)
    return Issued(_certificate(name, key, subject, key, dns, (), ca, not_before, not_after, True), key)


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    dns: tuple[str, ...],
    ips: tuple[str, ...],
    ca: bool,
    not_before: datetime,
    not_after: datetime,
    key_identifiers: bool,
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
        .add_extension(x509.BasicConstraints(ca, None), critical=True)
    )
    if key_identifiers:
        public = issuer_key.public_key()
        builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    names = [*map(x509.DNSName, dns), *(x509.IPAddress(ipaddress.ip_address(ip)) for ip in ips)]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def pem_of(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def keytool(*words: object) -> None:
    """Run Java's keytool. Skips the test where there is no JDK."""
    try:
        tool = find_java().resolve().parent / "keytool"
    except JavaNotFound as error:
        pytest.skip(f"needs Java: {error}")
    run = subprocess.run(
        [tool, "-J-Xmx128m", *map(str, words), "-noprompt"], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def java_keystore(path: Path, kind: str, store_password: str, key_password: str, client: Issued) -> Path:
    """A keystore of keytool's with the key and chain of `client`."""
    source = path.with_suffix(".source")
    source.write_bytes(client.pkcs12(store_password))
    keytool(
        "-importkeystore",
        *("-srckeystore", source, "-srcstoretype", "PKCS12", "-srcstorepass", store_password, "-srcalias", "client"),
        *(
            "-destkeystore",
            path,
            "-deststoretype",
            kind,
            "-deststorepass",
            store_password,
            "-destkeypass",
            key_password,
        ),
    )
    return path


def java_truststore(path: Path, kind: str, password: str, *trusted: Issued) -> Path:
    for number, issued in enumerate(trusted):
        source = path.with_suffix(".pem")
        source.write_text(issued.pem)
        keytool(
            *("-importcert", "-file", source, "-alias", f"ca{number}"),
            *("-keystore", path, "-storetype", kind, "-storepass", password),
        )
    return path
