"""From a configuration to OpenSSL's context, one for each configuration in a process, renewed when its files change.

Why not `ssl.create_default_context`: from Python 3.13 on its strict flag refuses certificates without an authority key
identifier, which Strimzi and home-made authorities issue, and Java takes.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from kafkasource.errors import OptionError
from kafkasource.kafka.process import PerProcess, Recent
from kafkasource.kafka.security.option import shown
from kafkasource.kafka.security.tls import pem
from kafkasource.kafka.security.tls.certificates import read_certificate
from kafkasource.kafka.security.tls.ciphers import TLS13_SUITES
from kafkasource.kafka.security.tls.config import TLS12, TLS13, TlsConfig
from kafkasource.kafka.security.tls.der import MalformedDer
from kafkasource.kafka.security.tls.errors import suite_not_allowed
from kafkasource.kafka.security.tls.options import named, with_alias
from kafkasource.kafka.security.tls.store_files import Fingerprint, StoreFiles, current
from kafkasource.kafka.security.tls.stores import ClientIdentity, client_identity, pem_blocks, trusted_certificates

log = logging.getLogger("kafkasource.client")

WARN_BEFORE = timedelta(days=14)

_VERSIONS = {TLS12: ssl.TLSVersion.TLSv1_2, TLS13: ssl.TLSVersion.TLSv1_3}
_MOST_CONTEXTS = 16  # of a process; each holds some 100 KiB, and a MiB with the system's roots
_BUNDLES = (  # where distributions keep their roots, for a Python whose OpenSSL was built to look elsewhere
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


@dataclass(frozen=True)
class TlsSetup:
    """The context of a configuration, with facts for the errors of its connections."""

    context: ssl.SSLContext
    suites: frozenset[str] | None  # of TLS 1.3, the ones that `ssl.cipher.suites` allows; None: all
    trusted: str  # for errors: whom the client trusts
    offered: str  # for errors: the versions of TLS
    own_chain: tuple[bytes, ...]  # DER, the client's own certificate first; empty where it has none
    now: Callable[[], datetime]

    def check_suite(self, version: str | None, suite: str) -> None:
        """Raise TlsError for a suite of a new connection that the options do not allow."""
        if self.suites is not None and version == "TLSv1.3" and suite not in self.suites:
            raise suite_not_allowed(suite, sorted(self.suites))

    @property
    def presents_certificate(self) -> bool:
        """To a broker that asks for one."""
        return bool(self.own_chain)


class TlsContext:
    """The context of one configuration. `setup` may be called by any thread."""

    def __init__(self, config: TlsConfig, wall_clock: Callable[[], float] = time.time) -> None:
        """`wall_clock`: seconds since 1970. No file is read yet."""
        self._config = config
        self._now = lambda: datetime.fromtimestamp(wall_clock(), timezone.utc)
        self._lock = threading.Lock()
        self._setup: TlsSetup | None = None
        self._loaded: Fingerprint = ()
        self._failed: Fingerprint | None = None  # files that could not be used, and were warned of

    def setup(self) -> TlsSetup:
        """Return the setup for the next connection, and read files that have changed. Raises OptionError.

        If changed files cannot be used, because they are half written, the old setup stays, with a warning.
        """
        with self._lock:
            if self._setup is None:
                self._setup, self._loaded = _load(self._config, self._now)
            elif current(self._loaded) != self._loaded:
                self._renew()
            return self._setup

    def _renew(self) -> None:
        changed = current(self._loaded)
        if changed == self._failed:
            return
        try:
            self._setup, self._loaded = _load(self._config, self._now)
            self._failed = None
            log.info("TLS: certificates were read again, as their files have changed")
        except OptionError as error:
            self._failed = changed
            log.warning("TLS: changed files cannot be used; connections go on with what they held before: %s", error)


_contexts: PerProcess[Recent[TlsConfig, TlsContext]] = PerProcess(lambda: Recent(_MOST_CONTEXTS))


def context_of(config: TlsConfig) -> TlsContext:
    """The process's context of a configuration."""
    return _contexts.get().of(config, lambda: TlsContext(config))


def _load(config: TlsConfig, now: Callable[[], datetime]) -> tuple[TlsSetup, Fingerprint]:
    files = StoreFiles()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.check_hostname
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an intermediate may be trusted, as in Java
    context.options |= ssl.OP_NO_RENEGOTIATION  # as Java's clients
    context.minimum_version, context.maximum_version = _VERSIONS[config.versions[0]], _VERSIONS[config.versions[-1]]
    suites = None
    if config.ciphers is not None:
        if config.ciphers.tls12:
            context.set_ciphers(":".join(config.ciphers.tls12))
        if set(config.ciphers.tls13) != set(TLS13_SUITES):
            suites = frozenset(config.ciphers.tls13)
    trusted = _trust(context, config, files, now())
    _revoke(context, config, files)
    identity = client_identity(config, files)
    if identity is not None:
        _present(context, identity)
        warn_of_expiry(identity.chain, f"the client certificate ({named(identity.option)})", now())
    if not config.check_hostname:
        log.warning(
            "option %s is empty: the client does not check that a broker's certificate has the broker's name",
            shown("ssl.endpoint.identification.algorithm"),
        )
    offered = " and ".join(config.versions)
    own_chain = identity.chain if identity is not None else ()
    return TlsSetup(context, suites, trusted, offered, own_chain, now), files.fingerprint


def _trust(context: ssl.SSLContext, config: TlsConfig, files: StoreFiles, now: datetime) -> str:
    """Load whom the client trusts; the text for errors."""
    certificates = trusted_certificates(config, files)
    if certificates is None:
        context.load_default_certs()
        paths = ssl.get_default_verify_paths()
        if not context.cert_store_stats()["x509"] and paths.capath is None:
            bundle = next((path for path in _BUNDLES if Path(path).is_file()), None)
            if bundle is None:
                raise OptionError(
                    "this machine lacks the certificates of authorities (the package ca-certificates). Give them with"
                    f" {with_alias('ssl.truststore.location')} or {with_alias('ssl.truststore.certificates')}"
                )
            context.load_verify_locations(cafile=bundle)
        return "the authorities of this machine's system (no ssl.truststore is set)"
    option = "ssl.truststore.location" if config.truststore_location is not None else "ssl.truststore.certificates"
    try:
        context.load_verify_locations(cadata=b"".join(certificates))
    except ssl.SSLError as error:
        raise OptionError(f"{named(option)}: a certificate in it is damaged: {error}") from None
    warn_of_expiry(certificates, f"an authority's certificate ({named(option)})", now)
    place = config.truststore_location or "given as text"
    return f"the {len(certificates)} certificates of {named(option)} ({place})"


def _revoke(context: ssl.SSLContext, config: TlsConfig, files: StoreFiles) -> None:
    option, location = "ssl.crl.location", config.crl_location
    if location is None:
        return
    blocks = pem_blocks(option, location, files.read(option, location).decode("latin-1"))
    lists = [block for block in blocks if block.label == pem.REVOCATION_LIST]
    if not lists:
        raise OptionError(f"{named(option)}: {location} holds no revocation list (X509 CRL)")
    with _file_of_text("".join(block.text for block in lists)) as path:
        try:
            context.load_verify_locations(cafile=path)
        except ssl.SSLError as error:
            raise OptionError(f"{named(option)}: {location} is damaged: {error}") from None
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _present(context: ssl.SSLContext, identity: ClientIdentity) -> None:
    text = "".join(pem.certificate_text(der) for der in identity.chain) + identity.key.reveal()
    password = identity.password.reveal() if identity.password is not None else ""  # none: OpenSSL asks on a terminal
    with _file_of_text(text) as path:
        try:
            context.load_cert_chain(path, password=password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise _unusable(identity, error) from None


def _unusable(identity: ClientIdentity, error: Exception) -> OptionError:
    option = with_alias(identity.option)
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return OptionError(f"option {option}: the private key does not belong to the first certificate")
    encrypted = "ENCRYPTED" in identity.key.reveal()
    if encrypted and identity.password is None:
        return OptionError(f"option {option}: the private key is encrypted; {shown('ssl.key.password')} is needed")
    wrong = f"{shown('ssl.key.password')} is wrong, or " if encrypted else ""
    return OptionError(f"option {option}: {wrong}the private key or its certificate cannot be used ({error})")


@contextmanager
def _file_of_text(text: str) -> Iterator[str]:
    """A path where OpenSSL can read the text, and no other user can. Keys and lists load from files only."""
    data = text.encode("ascii")
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        memory = os.memfd_create("kafkasource")
        try:
            os.write(memory, data)  # whole, as it is memory
            yield f"/proc/self/fd/{memory}"
        finally:
            os.close(memory)
        return
    descriptor, path = tempfile.mkstemp()  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        yield path
    finally:
        os.unlink(path)


# Certificates that expire.


_warned: PerProcess[set[tuple[str, datetime]]] = PerProcess(set)


def warn_of_expiry(certificates: tuple[bytes, ...], whose: str, now: datetime) -> None:
    """Warn of each certificate (DER) that expires within 14 days, or has expired; once in a process.

    `whose` begins the warning. Certificates that nobody can read are left to OpenSSL.
    """
    for der in certificates:
        try:
            certificate = read_certificate(der)
        except MalformedDer:
            continue
        key = certificate.subject, certificate.not_after
        left = certificate.remaining(now)
        if left > WARN_BEFORE or key in _warned.get():
            continue
        _warned.get().add(key)
        when = f"{certificate.not_after:%Y-%m-%d %H:%M} UTC"
        if left > timedelta(0):
            log.warning("%s %r expires in %d days, on %s", whose, certificate.subject, left.days, when)
        else:
            log.warning("%s %r expired on %s", whose, certificate.subject, when)
