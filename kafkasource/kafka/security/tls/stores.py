"""Truststores and keystores of any format: which authorities are trusted, and who the client is.

The bytes of a file show its format; its name and `ssl.*.type` do not count. PEM and JKS are read here. PKCS12 needs the
package `cryptography` (extra `kafkasource[tls]`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkasource.errors import OptionError
from kafkasource.kafka.security.option import shown
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tls import jks, pem
from kafkasource.kafka.security.tls.config import TlsConfig
from kafkasource.kafka.security.tls.der import INTEGER, SEQUENCE, MalformedDer, sequence
from kafkasource.kafka.security.tls.options import named
from kafkasource.kafka.security.tls.store_files import StoreFiles

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

PEM, PKCS12, JKS, DER = "PEM", "PKCS12", "JKS", "DER"  # DER: one bare certificate


@dataclass(frozen=True)
class ClientIdentity:
    """The client's private key and its certificates."""

    chain: tuple[bytes, ...]  # DER, the client's own first
    key: Secret  # PEM, perhaps encrypted with `password`
    password: Secret | None
    option: str  # the option that names the certificates


def trusted_certificates(config: TlsConfig, files: StoreFiles) -> tuple[bytes, ...] | None:
    """The authorities that the options name, as DER; None: those of the system. Raises OptionError."""
    if config.truststore_certificates is not None:
        option = "ssl.truststore.certificates"
        certificates = _certificates(pem_blocks(option, "the text", config.truststore_certificates))
    elif config.truststore_location is not None:
        option = "ssl.truststore.location"
        read = files.read_all(option, config.truststore_location)
        password, expected = config.truststore_password, config.truststore_type
        # In a folder, only PEM files count.
        chosen = read if len(read) == 1 else [(path, data) for path, data in read if b"-----BEGIN" in data]
        certificates = [der for path, data in chosen for der in _trusted(option, path, data, password, expected)]
    else:
        return None
    if not certificates:
        raise OptionError(f"{named(option)} holds no certificate of an authority")
    return tuple(dict.fromkeys(certificates))


def client_identity(config: TlsConfig, files: StoreFiles) -> ClientIdentity | None:
    """The key and the certificates that the options name; None without such options. Raises OptionError."""
    if config.keystore_location is not None:
        return _of_keystore(config, files, config.keystore_location)
    if config.certificate_location is not None:
        option = "ssl.certificate.location"
        certificates = _certificates(_pem_file(option, config.certificate_location, files))
    elif config.keystore_certificate_chain is not None:
        option = "ssl.keystore.certificate.chain"
        certificates = _certificates(pem_blocks(option, "the text", config.keystore_certificate_chain))
    else:
        return None
    if config.key_location is not None:
        key_option = "ssl.key.location"
        key = _one_key(key_option, "the file", _pem_file(key_option, config.key_location, files))
    else:
        key_option = "ssl.keystore.key"
        text = config.keystore_key.reveal() if config.keystore_key is not None else ""
        key = _one_key(key_option, "the text", pem_blocks(key_option, "the text", text))
    if not certificates:
        raise OptionError(f"{named(option)} holds no certificate")
    return ClientIdentity(tuple(certificates), key, config.key_password, option)


def pem_blocks(option: str, place: str, text: str) -> list[pem.PemBlock]:
    """The objects of a PEM text. `place` names it in errors. Raises OptionError, which never quotes the text."""
    try:
        return pem.blocks(text)
    except pem.MalformedPem as error:
        raise OptionError(f"{named(option)}: {place} is not a complete PEM text: {error}") from None


def _of_keystore(config: TlsConfig, files: StoreFiles, location: str) -> ClientIdentity:
    option = "ssl.keystore.location"
    data = files.read(option, location)
    store_format = _kind(option, location, data, config.keystore_type)
    if store_format == PEM:
        if config.keystore_password is not None:
            raise OptionError(
                f"option {shown('ssl.keystore.password')}: {location} is a PEM file, which has no password. Use"
                f" {shown('ssl.key.password')} if its key is encrypted"
            )
        blocks = pem_blocks(option, location, data.decode("latin-1"))
        key, chain, password = _one_key(option, location, blocks), tuple(_certificates(blocks)), config.key_password
    elif store_format == PKCS12:
        key, chain, password = *_pkcs12_identity(config, location, data), None
    elif store_format == JKS:
        key, chain, password = *_jks_identity(config, location, data), None
    else:
        raise OptionError(f"{named(option)}: {location} holds a certificate and no private key")
    if not chain:
        raise OptionError(f"{named(option)}: {location} holds no certificate for its private key")
    return ClientIdentity(chain, key, password, option)


def _trusted(option: str, path: str, data: bytes, password: Secret | None, expected: str | None) -> list[bytes]:
    store_format = _kind(option, path, data, expected)
    if store_format == DER:
        return [data]
    if store_format == PEM:
        if password is not None:
            raise OptionError(
                f"option {shown('ssl.truststore.password')}: {path} is a PEM file, which has no password. Leave it out"
            )
        return _certificates(pem_blocks(option, path, data.decode("latin-1")))
    text = password.reveal() if password is not None else None
    if store_format == JKS:
        store = _read_jks(option, path, data, text, "ssl.truststore.password")
        return [*store.trusted, *(key.chain[0] for key in store.keys if key.chain)]  # as Java trusts them
    pkcs12 = _load_pkcs12(option, path, data, text, "ssl.truststore.password")
    return [_der(certificate) for certificate in _pkcs12_trusted(pkcs12, _pkcs12_keys(data))]


def _kind(option: str, path: str, data: bytes, expected: str | None) -> str:
    """Detect the format. Raises OptionError for an unknown one, and for one that contradicts `ssl.*.type`."""
    store_format = _kind_of(data)
    if store_format is None:
        jceks = int.from_bytes(data[:4], "big") == jks.JCEKS_MAGIC
        raise OptionError(
            f"{named(option)}: {path} is "
            + ("empty" if not data else "a JCEKS store" if jceks else "neither PEM nor PKCS12 nor JKS")
            + (". Make a PKCS12 of it: keytool -importkeystore -deststoretype PKCS12" if jceks else "")
        )
    if expected is not None and (expected == PEM) != (store_format == PEM):
        name = option.replace(".location", ".type")
        raise OptionError(
            f"option {shown(name)} is {expected}, and {path} is {store_format}. Leave the type out, or correct it"
        )
    return store_format


def _kind_of(data: bytes) -> str | None:
    if int.from_bytes(data[:4], "big") == jks.MAGIC:
        return JKS
    if b"-----BEGIN" in data:
        return PEM
    if data[:1] != bytes([SEQUENCE]):
        return None
    try:
        first = sequence(data, at_least=1)[0]
    except MalformedDer:
        return PKCS12  # cut short, or of indefinite length: its reader says what is wrong
    return PKCS12 if first.tag == INTEGER else DER


# PEM.


def _pem_file(option: str, location: str, files: StoreFiles) -> list[pem.PemBlock]:
    data = files.read(option, location)
    if _kind_of(data) != PEM:
        raise OptionError(
            f"{named(option)}: {location} is not a PEM file. Give a PKCS12 or JKS store with"
            f" {shown('ssl.keystore.location')}"
        )
    return pem_blocks(option, location, data.decode("latin-1"))


def _certificates(blocks: list[pem.PemBlock]) -> list[bytes]:
    return [block.data for block in blocks if block.label in pem.CERTIFICATES]


def _one_key(option: str, place: str, blocks: list[pem.PemBlock]) -> Secret:
    keys = [block for block in blocks if block.is_private_key]
    if len(keys) != 1:
        raise OptionError(f"{named(option)}: {place} holds {len(keys)} private keys; one is needed")
    return Secret(keys[0].text)


def _not_one_key(option: str, path: str, aliases: Sequence[str]) -> OptionError:
    return OptionError(
        f"{named(option)}: {path} holds {len(aliases)} private keys ({', '.join(aliases) or 'none'}); one is"
        " needed. keytool -delete removes others"
    )


# JKS.


def _jks_identity(config: TlsConfig, path: str, data: bytes) -> tuple[Secret, tuple[bytes, ...]]:
    option = "ssl.keystore.location"
    if config.keystore_password is None:
        raise OptionError(f"{named(option)}: {path} is JKS; {shown('ssl.keystore.password')} is needed")
    store = _read_jks(option, path, data, config.keystore_password.reveal(), "ssl.keystore.password")
    if len(store.keys) != 1:
        raise _not_one_key(option, path, [key.alias for key in store.keys])
    entry = store.keys[0]
    try:
        key = entry.decrypt((config.key_password or config.keystore_password).reveal())
    except jks.WrongPassword as error:
        raise OptionError(f"option {shown('ssl.key.password')}: {path}: {error}") from None
    except jks.MalformedJks as error:
        raise OptionError(f"{named(option)}: {path}: {error}") from None
    return Secret(pem.PemBlock("PRIVATE KEY", key).text), entry.chain


def _read_jks(option: str, path: str, data: bytes, password: str | None, password_option: str) -> jks.JavaKeyStore:
    try:
        return jks.read_jks(data, password)
    except jks.WrongPassword as error:
        raise OptionError(f"option {shown(password_option)}: {path}: {error}") from None
    except jks.MalformedJks as error:
        raise OptionError(f"{named(option)}: {path} is not a complete JKS store: {error}") from None


# PKCS12.

_KEY_BAGS = tuple(bytes.fromhex(f"060b2a864886f70d010c0a01{kind}") for kind in ("01", "02"))  # plain, encrypted


def _pkcs12_keys(data: bytes) -> int:
    """The number of private keys in a store: `cryptography` gives the first alone.

    The object identifier of a key's bag (RFC 7292) is not encrypted, and no other bytes of a store are likely to equal
    these 13.
    """
    return sum(map(data.count, _KEY_BAGS))


def _pkcs12_identity(config: TlsConfig, path: str, data: bytes) -> tuple[Secret, tuple[bytes, ...]]:
    option, password = "ssl.keystore.location", config.keystore_password
    if password is not None and config.key_password not in (None, password):
        raise OptionError(
            f"options {shown('ssl.keystore.password')} and {shown('ssl.key.password')} differ, and {path} is a PKCS12"
            " store, which has one password. Leave out the key's"
        )
    text = password.reveal() if password is not None else None
    store = _load_pkcs12(option, path, data, text, "ssl.keystore.password")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    if store.key is None or store.cert is None:
        raise OptionError(f"{named(option)}: {path} holds no private key with a certificate")
    if (keys := _pkcs12_keys(data)) > 1:
        raise OptionError(
            f"{named(option)}: {path} holds {keys} private keys; one is needed. keytool -list names them, and keytool"
            " -delete removes the others"
        )
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
    chain = [store.cert.certificate]
    others = [additional.certificate for additional in store.additional_certs]
    while True:  # a store is not ordered
        issuers = [other for other in others if other.subject == chain[-1].issuer and other not in chain]
        if not issuers:
            return Secret(key), tuple(_der(certificate) for certificate in chain)
        chain.append(issuers[0])


def _pkcs12_trusted(store: PKCS12KeyAndCertificates, keys: int) -> list[x509.Certificate]:
    """Select certificates as Java's TrustManagerFactory: a key's own certificate without its issuers, and all others.

    keytool marks what is trusted for itself by an attribute (2.16.840.1.113894.746875.1.1), which `cryptography` does
    not tell. So an authority of a key's chain counts only where it is there a second time under another name, as
    keytool writes an entry of its own. This errs to the safe side: where another program names both alike, or writes
    the authority once, it is not trusted, and whoever wants it gives it in a store without a key, or as PEM.
    """
    others = [additional.certificate for additional in store.additional_certs]
    if store.cert is None:
        return others
    own = store.cert.certificate
    # `cryptography` does not say which certificates belong to further keys: then no issuer counts.
    issued = [own] if keys <= 1 else [own, *others]
    authorities: list[x509.Certificate] = []
    for certificate in issued:  # grows meanwhile
        if certificate.issuer != certificate.subject:
            new = [other for other in others if other.subject == certificate.issuer and other not in authorities]
            authorities += new
            issued += new
    names = {(entry.friendly_name, entry.certificate) for entry in store.additional_certs if entry.friendly_name}
    entries = [authority for authority in authorities if sum(named == authority for _, named in names) > 1]
    return [own, *(other for other in others if other not in authorities or other in entries)]


def _load_pkcs12(
    option: str, path: str, data: bytes, password: str | None, password_option: str
) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise OptionError(
            f"{named(option)}: {path} is a PKCS12 store, and the package that reads it, cryptography, is"
            " not installed here. Install kafkasource[tls] on the driver and the executors, or make PEM of the store:"
            " openssl pkcs12 -in store.p12 -out store.pem"
        ) from None
    try:
        return load_pkcs12(data, None if password is None else password.encode())
    except Exception as error:  # ValueError for a wrong password; UnsupportedAlgorithm, and others for bad bytes
        given = "is wrong" if password is not None else "is not set"
        raise OptionError(
            f"{named(option)}: the PKCS12 store {path} cannot be read: {shown(password_option)} {given}, or"
            f" the file is damaged ({type(error).__name__}: {error})"
        ) from None


def _der(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.DER)
