"""The wanted security of a test cluster: listeners, users and ACLs as plain values, checked against the release.

A secured broker has several listeners: PLAINTEXT for the nodes themselves, for probes and for the super user, which
makes ACLs, and the listeners of a `Security`. So one broker serves many kinds of clients, without a JVM for each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kafkasource.errors import OptionError
from kafkasource.testing.broker.properties import HOST
from kafkasource.testing.broker.releases import is_legacy, release_of, require
from kafkasource.testing.broker.security.acls import Acl

if TYPE_CHECKING:
    from kafkasource.testing.broker.security.certificates import IssuedCertificate

PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
WITH_PASSWORD = ("PLAIN", *SCRAM)
MECHANISMS = (*WITH_PASSWORD, "OAUTHBEARER", "GSSAPI")
CLIENT_AUTH = ("none", "requested", "required")
_RESERVED = ("PLAINTEXT", "CONTROLLER")


@dataclass(frozen=True)
class Kerberos:
    """The files of the KDC and of the broker's key, and the client's for `client_properties`."""

    krb5_conf: Path
    keytab: Path  # the broker's
    principal: str = "kafka/localhost@TEST"  # with the host that the listener advertises
    client_keytab: Path | None = None
    client_principal: str | None = None

    @property
    def service_name(self) -> str:
        return self.principal.partition("/")[0]


@dataclass(frozen=True)
class Listener:
    """One secured listener of each node.

    name             as in Kafka's `listener.name.NAME.…`; the protocol's when empty
    protocol         SSL, SASL_PLAINTEXT or SASL_SSL
    mechanisms       for SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI
    client_auth      whether TLS wants a client certificate: none, requested, required
    reauth_ms        `connections.max.reauth.ms`: how long a session lasts until clients authenticate again (KIP-368)
    signed_tokens    OAUTHBEARER takes only tokens of the cluster's own `TokenSigner`; else any without a signature
    certificate      the server's; one of the cluster's CA for localhost and 127.0.0.1 when absent
    """

    protocol: str
    mechanisms: tuple[str, ...] = ()
    name: str = ""
    client_auth: str = "none"
    reauth_ms: int | None = None
    signed_tokens: bool = False
    certificate: IssuedCertificate | None = None

    def __post_init__(self) -> None:
        protocol = self.protocol.upper()
        object.__setattr__(self, "protocol", protocol)
        object.__setattr__(self, "mechanisms", tuple(mechanism.upper() for mechanism in self.mechanisms))
        object.__setattr__(self, "name", (self.name or protocol).upper())
        if protocol not in PROTOCOLS:
            raise OptionError(f"security={self.protocol!r}: expected one of {', '.join(PROTOCOLS)}")
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", self.name) or self.name in _RESERVED:
            raise OptionError(f"listener {self.name!r}: expected a name of letters, digits and _, none of {_RESERVED}")
        if self.client_auth not in CLIENT_AUTH:
            raise OptionError(f"client_auth={self.client_auth!r}: expected one of {', '.join(CLIENT_AUTH)}")
        if self.client_auth != "none" and not self.tls:
            raise OptionError(f"client_auth={self.client_auth!r}: {protocol} has no TLS; use SSL or SASL_SSL")
        if unknown := set(self.mechanisms) - set(MECHANISMS):
            raise OptionError(f"mechanisms={sorted(unknown)}: expected some of {', '.join(MECHANISMS)}")
        if self.sasl != bool(self.mechanisms):
            some = "needs at least one mechanism" if self.sasl else "has no mechanisms: use SASL_SSL"
            raise OptionError(f"mechanisms={list(self.mechanisms)}: {protocol} {some}")
        if self.signed_tokens and "OAUTHBEARER" not in self.mechanisms:
            raise OptionError("signed_tokens: only OAUTHBEARER has tokens; add it to mechanisms")

    @property
    def tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def host(self) -> str:
        """The advertised host. The name of a Kerberos principal has a host's name, not an address."""
        return "localhost" if "GSSAPI" in self.mechanisms else HOST


@dataclass(frozen=True)
class Security:
    """A cluster's listeners, users and ACLs.

    users        passwords by user, for PLAIN and SCRAM. A kept `log_dir` keeps its SCRAM users and passwords: they are
                 written when it is formatted.
    acls         the rights of each user; None: every user may do everything. ANONYMOUS is the super user: the nodes
                 themselves, and clients without a certificate on an SSL listener. A client certificate's user is
                 `CN=name`.
    """

    listeners: tuple[Listener, ...]
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    acls: tuple[Acl, ...] | None = None
    kerberos: Kerberos | None = None

    @classmethod
    def of(
        cls,
        protocol: str,
        mechanisms: Sequence[str] = (),
        users: Mapping[str, str] | None = None,
        acls: Sequence[Acl] | None = None,
        client_auth: str = "none",
    ) -> Security:
        """Security with one listener."""
        listener = Listener(protocol, tuple(mechanisms), client_auth=client_auth)
        return cls((listener,), dict(users or {}), None if acls is None else tuple(acls))

    def __post_init__(self) -> None:
        names = [listener.name for listener in self.listeners]
        if not names or len(set(names)) != len(names):
            raise OptionError(f"listeners={names}: expected one at least, each with a name of its own")
        for user in self.users:
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]*", user):
                raise OptionError(f"users: {user!r} must be letters, digits and . _ - and start with a letter")
        if self._with_password and not self.users:
            raise OptionError(f"users={{}}: {self._with_password[0]} needs a user with a password, as {{'alice': '…'}}")
        if "GSSAPI" in self.mechanisms and self.kerberos is None:
            raise OptionError("mechanisms=['GSSAPI']: give Security(kerberos=Kerberos(krb5_conf, keytab)) for the KDC")
        if self.acls and any(
            listener.protocol == "SSL" and listener.client_auth != "required" for listener in self.listeners
        ):
            raise OptionError(
                "acls on an SSL listener need client_auth='required': without a certificate every client is "
                "ANONYMOUS, the super user"
            )

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms of all listeners, each once."""
        return tuple(dict.fromkeys(name for listener in self.listeners for name in listener.mechanisms))

    @property
    def tls(self) -> bool:
        return any(listener.tls for listener in self.listeners)

    @property
    def signed_tokens(self) -> bool:
        return any(listener.signed_tokens for listener in self.listeners)

    @property
    def _with_password(self) -> list[str]:
        return [name for name in self.mechanisms if name in WITH_PASSWORD]

    def check(self, version: str) -> None:
        """Raise OptionError, with the release that brought it, for what this release lacks."""
        release = release_of(version)
        for listener in self.listeners:
            require(release, f"security={listener.protocol!r}", listener.protocol)
            for mechanism in listener.mechanisms:
                require(release, f"mechanisms=[{mechanism!r}]", mechanism)
            if listener.reauth_ms is not None:
                require(release, f"reauth_ms={listener.reauth_ms}", "re-authentication")
        if len(self.listeners) > 1:
            require(release, f"listeners={[listener.name for listener in self.listeners]}", "several secured listeners")
        if self.acls is not None:
            require(release, "acls", "ACLs by CreateAcls")
        if is_legacy(release) and any(listener.name != listener.protocol for listener in self.listeners):
            raise OptionError(f"listener {self.listeners[0].name!r}: Kafka {version} names a listener by its protocol")

    def listener(self, name: str | None = None) -> Listener:
        """The one of this name; the first one without a name."""
        for listener in self.listeners:
            if name is None or listener.name == name.upper():
                return listener
        raise OptionError(
            f"listener {name!r}: this broker has {', '.join(listener.name for listener in self.listeners)}"
        )
