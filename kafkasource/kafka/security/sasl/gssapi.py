"""GSSAPI, which means Kerberos (RFC 4752), by the library `gssapi` (`kafkasource[kerberos]`).

    client  a ticket for service/host
    server  its answer, which proves that it has the service's key
    client  an empty token
    server  wrapped: the security layers that it offers (1: none), and its largest message
    client  wrapped: no layer, and its user (empty: the principal's)
    server  an empty token; after SaslHandshake v0 nothing

The library waits for the KDC within these calls, so they belong into a thread of their own.
"""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass
from typing import Any

from kafkasource.errors import AuthenticationFailed, OptionError, SaslExchangeFailed
from kafkasource.kafka.security.option import TEXT, Option
from kafkasource.kafka.security.quoting import printable
from kafkasource.kafka.security.sasl.mechanism import checked, require_complete
from kafkasource.kafka.security.shipped_files import find_file

OPTIONS = (
    Option(
        "sasl.kerberos.service.name",
        TEXT,
        "The first part of the brokers' Kerberos principal.",
        implied="kafka",
        differs="none: everybody sets kafka",
    ),
    Option("sasl.kerberos.principal", TEXT, "The client's Kerberos principal: user@REALM."),
    Option("sasl.kerberos.keytab", TEXT, "The keytab with the client's key. Without one the ticket cache counts."),
)
_NO_LAYER = 1


@dataclass(frozen=True)
class KerberosConfig:
    """The client as the KDC knows it. Without principal and keytab it is the owner of the ticket cache."""

    service_name: str
    principal: str | None = None
    keytab: str | None = None  # `shipped_files.find_file` says where a relative one lies
    ticket_cache: str | None = None


class Gssapi:
    """Mutual authentication: without the server's proof the context is never complete."""

    name = "GSSAPI"
    blocks = True

    def __init__(self, config: KerberosConfig, host: str) -> None:
        """`host`: the broker's name as the KDC knows it. Raises OptionError where the library is not installed."""
        try:
            self._library: Any = importlib.import_module("gssapi")
        except (ImportError, OSError):
            raise OptionError(
                "GSSAPI needs the package gssapi and Kerberos' libraries: install kafkasource[kerberos] on driver and "
                "executors"
            ) from None
        self._config = config
        self._service = f"{config.service_name}@{host}"
        self._context: Any = None
        self._layer_chosen = False
        self._finished = False

    @property
    def complete(self) -> bool:
        return self._layer_chosen

    @property
    def user(self) -> str | None:
        return str(self._context.initiator_name) if self._layer_chosen else None

    def first(self) -> bytes:
        library = self._library
        try:
            service = library.Name(self._service, library.NameType.hostbased_service)
            flags = library.RequirementFlag
            self._context = library.SecurityContext(
                name=service,
                creds=self._credentials(),
                usage="initiate",
                mech=library.MechType.kerberos,
                flags=flags.mutual_authentication | flags.integrity | flags.out_of_sequence_detection,
            )
            return self._context.step() or b""
        except library.exceptions.GSSError as error:
            raise self._failed(error) from None

    def respond(self, challenge: bytes) -> bytes | None:
        checked(self.name, challenge)
        if self._context is None or self._finished:
            raise SaslExchangeFailed("GSSAPI: the broker answers out of turn")
        try:
            if not self._context.complete:
                return self._context.step(challenge) or b""
            if not self._layer_chosen:
                return self._layer(challenge)
        except self._library.exceptions.GSSError as error:
            raise self._failed(error) from None
        if challenge:
            raise SaslExchangeFailed("GSSAPI: the broker continues after the end of the exchange")
        self._finished = True
        return None

    def finish(self) -> None:
        require_complete(self.name, self.complete)

    def _layer(self, challenge: bytes) -> bytes:
        offered = bytes(self._context.unwrap(challenge).message)
        if len(offered) != 4 or not offered[0] & _NO_LAYER:
            raise SaslExchangeFailed("GSSAPI: the broker asks for a security layer, which Kafka lacks: TLS encrypts")
        answer = bytes(self._context.wrap(bytes([_NO_LAYER]) + offered[1:], False).message)
        self._layer_chosen = True
        return answer

    def _credentials(self) -> Any:
        """None: those of the default ticket cache."""
        config, library = self._config, self._library
        store: dict[str, str] = {}
        if config.keytab is not None:
            keytab = str(find_file(config.keytab))
            # A cache of this process for each principal: libkrb5 renews the ticket in it from the keytab.
            name = hashlib.sha256(f"{keytab}\0{config.principal}".encode()).hexdigest()[:16]
            store = {"client_keytab": keytab, "ccache": f"MEMORY:kafkasource-{name}"}
        elif config.ticket_cache is not None:
            store = {"ccache": config.ticket_cache}
        if not store and config.principal is None:
            return None
        principal = None
        if config.principal is not None:
            principal = library.Name(config.principal, library.NameType.kerberos_principal)
        return library.Credentials(name=principal, usage="initiate", store=store or None)

    def _failed(self, error: Exception) -> AuthenticationFailed:
        """GSSError's text has Kerberos' reason: no ticket, an unknown server, a clock that is wrong."""
        return AuthenticationFailed(
            f"GSSAPI with {self._service}: {printable(str(error), 300)}. Check principal, keytab or ticket cache "
            "(klist), krb5.conf, the clock, and that the KDC knows the broker by this name"
        )
