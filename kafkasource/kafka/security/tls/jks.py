"""Java's own key store format, JKS: what `keytool` made by default up to Java 8, and many companies still hand out.

    0xFEEDFEED | version int32 (1, 2) | count int32 | entries | SHA-1 of password, a constant, and all before
    entry      tag int32 (1 key, 2 certificate) | alias UTF | created int64 | key: length int32, bytes; count int32 |
               certificates: type UTF (from version 2 on), length int32, DER

A key is a PKCS#8 EncryptedPrivateKeyInfo of a cipher of Sun's: salt (20 bytes), the key XOR a chain of SHA-1 digests of
the password and the digest before, and SHA-1 of password and key. Passwords are UTF-16, the higher byte first.
Facts from the OpenJDK (sun.security.provider.JavaKeyStore and KeyProtector), checked with files of keytool's.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass

from kafkasource.kafka.security.tls.der import (
    OBJECT_IDENTIFIER,
    OCTET_STRING,
    SEQUENCE,
    MalformedDer,
    elements,
    sequence,
)

MAGIC = 0xFEEDFEED
JCEKS_MAGIC = 0xCECECECE

_KEY, _CERTIFICATE = 1, 2
_SUNS_CIPHER = bytes.fromhex("2b060104012a02110101")  # 1.3.6.1.4.1.42.2.17.1.1
_CONSTANT = b"Mighty Aphrodite"
_DIGEST_BYTES = 20


class MalformedJks(ValueError):
    """The bytes are no JKS that this package reads."""


class WrongPassword(ValueError):
    """The password of the store or of a key is wrong, or the bytes were changed since."""


@dataclass(frozen=True)
class KeyEntry:
    alias: str
    encrypted: bytes  # EncryptedPrivateKeyInfo
    chain: tuple[bytes, ...]  # DER, the certificate of the key first

    def __repr__(self) -> str:
        return f"KeyEntry({self.alias!r}, {len(self.chain)} certificates)"

    def decrypt(self, password: str) -> bytes:
        """The key as PKCS#8 DER. Raises WrongPassword and MalformedJks."""
        try:
            algorithm, value = sequence(self.encrypted, at_least=2)[:2]
            oid = elements(algorithm.expect(SEQUENCE))[0].expect(OBJECT_IDENTIFIER)
            data = value.expect(OCTET_STRING)
        except (MalformedDer, IndexError):
            raise MalformedJks(f"the key {self.alias!r} is not in Java's form") from None
        if oid != _SUNS_CIPHER or len(data) < 2 * _DIGEST_BYTES:
            raise MalformedJks(f"the key {self.alias!r} is encrypted in a way that only Java knows")
        secret = password.encode("utf-16-be")
        salt, masked, check = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        mask = bytearray()
        digest = salt
        while len(mask) < len(masked):
            digest = hashlib.sha1(secret + digest).digest()
            mask += digest
        key = bytes(byte ^ other for byte, other in zip(masked, mask, strict=False))
        if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
            raise WrongPassword(f"the password of the key {self.alias!r} is wrong")
        return key


@dataclass(frozen=True)
class JavaKeyStore:
    trusted: tuple[bytes, ...]  # DER
    keys: tuple[KeyEntry, ...]


def read_jks(data: bytes, password: str | None) -> JavaKeyStore:
    """Read a store. Without a password its integrity is not checked, as in Java. Raises MalformedJks, WrongPassword."""
    end = len(data) - _DIGEST_BYTES
    reader = _Reader(data, end)
    if end < 0 or reader.uint32() != MAGIC:
        raise MalformedJks("the bytes do not begin as a JKS does")
    if password is not None:
        digest = hashlib.sha1(password.encode("utf-16-be") + _CONSTANT + data[:end]).digest()
        if not hmac.compare_digest(digest, data[end:]):
            raise WrongPassword("the password of the store is wrong, or the file is cut short or was changed")
    version = reader.uint32()
    if version not in (1, 2):
        raise MalformedJks(f"version {version} is unknown")
    trusted: list[bytes] = []
    keys: list[KeyEntry] = []
    for _ in range(reader.uint32()):  # each takes bytes, so the count is bounded by them
        tag, alias = reader.uint32(), reader.text()
        reader.take(8)
        if tag == _CERTIFICATE:
            trusted.append(reader.certificate(version))
        elif tag == _KEY:
            encrypted = reader.take(reader.uint32())
            chain = tuple(reader.certificate(version) for _ in range(reader.uint32()))
            keys.append(KeyEntry(alias, encrypted, chain))
        else:
            raise MalformedJks(f"an entry of the unknown kind {tag}")
    return JavaKeyStore(tuple(trusted), tuple(keys))


class _Reader:
    def __init__(self, data: bytes, end: int) -> None:
        self._data, self._end, self._pos = data, end, 0

    def take(self, size: int) -> bytes:
        if size > self._end - self._pos:
            raise MalformedJks("the file is cut short")
        self._pos += size
        return self._data[self._pos - size : self._pos]

    def uint32(self) -> int:
        return int(struct.unpack(">I", self.take(4))[0])

    def text(self) -> str:
        return self.take(int.from_bytes(self.take(2), "big")).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        if version == 2:
            self.text()  # the type; always X.509
        return self.take(self.uint32())
