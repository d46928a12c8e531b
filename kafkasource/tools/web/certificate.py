"""The certificate of a server of ours: TLS 1.2 and later, and files that may be renewed while it serves."""

from __future__ import annotations

import logging
import ssl
import threading
from pathlib import Path

from kafkasource.errors import OptionError
from kafkasource.kafka.security.tls.store_files import Fingerprint, fingerprint_of
from kafkasource.tools.web.access import ServerKind

log = logging.getLogger("kafkasource.web")


class ServerCertificate:
    """A PEM file with the certificate and those between it and the authority, and one with the private key. For any
    thread."""

    def __init__(self, server: str, certificate: str | Path, key: str | Path | None = None) -> None:
        """`server`: its name in messages. `key`: None where the first file has the private key, too.

        Raises OptionError."""
        self._server = server
        self._certificate = Path(certificate)
        self._key = Path(key) if key is not None else self._certificate
        self._lock = threading.Lock()
        self._seen = self._states()
        self._context = self._load()

    @classmethod
    def of(cls, kind: ServerKind, certificate: str | Path | None, key: str | Path | None) -> ServerCertificate | None:
        """The certificate in these files, else in the environment's; None if neither is set. Raises OptionError."""
        if certificate is None:
            certificate, key = kind.variable("CERTIFICATE"), key or kind.variable("KEY")
        if certificate:
            return cls(kind.name, certificate, key or None)
        if key:
            raise OptionError(f"{kind.name} has a private key without its certificate: name the certificate, too")
        return None

    def context(self) -> ssl.SSLContext:
        """The context of the next connection. Files that cannot be used, such as half-written ones, only cause a
        warning."""
        with self._lock:
            states = self._states()
            if states != self._seen:
                self._seen = states
                try:
                    self._context = self._load()
                    log.info("%s: %s was read again, as it has changed", self._server, self._certificate)
                except OptionError as error:
                    log.warning("%s goes on with its certificate of before: %s", self._server, error)
            return self._context

    def _states(self) -> Fingerprint:
        return fingerprint_of((self._certificate, self._key))

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self._certificate, self._key, password="")  # none: OpenSSL asks on a terminal
        except ssl.SSLError as error:
            raise OptionError(
                f"the certificate of {self._server}: {self._certificate} and the private key in {self._key} cannot be"
                f" used ({error.reason or error}). Both must be PEM and belong together; the key must not be encrypted"
            ) from None
        except OSError as error:
            raise OptionError(
                f"the certificate of {self._server}: {self._certificate} or {self._key} cannot be read"
                f" ({error.strerror or error})"
            ) from None
        return context
