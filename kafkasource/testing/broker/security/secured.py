"""A secured cluster while it runs: its CA and keys, the files that brokers and clients read, and ways in for each user.

    <folder>/security/ca.pem, truststore.p12      the CA that signed everything here
    <folder>/security/LISTENER.p12                a broker's key and certificate for this listener
    <folder>/security/USER.pem                    a client's key and certificate, CN=USER
    <folder>/security/jwks.json, USER.jwt         with signed tokens: the public key, and a token for a day
    <folder>/client.properties                    of the first listener, first mechanism and first user

Whoever reads these files may use the cluster: the folder is the owner's alone, and so is client.properties (0600).
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.testing.broker.properties import HOST, NodePorts, render, write_private
from kafkasource.testing.broker.releases import is_legacy
from kafkasource.testing.broker.security import jaas
from kafkasource.testing.broker.security import server as server_security
from kafkasource.testing.broker.security.acls import Acl, create_acls, delete_acls
from kafkasource.testing.broker.security.settings import WITH_PASSWORD, Listener, Security

if TYPE_CHECKING:
    from kafkasource.testing.broker.security.certificates import Authority
    from kafkasource.testing.broker.security.tokens import TokenSigner

CLIENT = "client"  # the user where nobody is named: CN of the client's certificate, subject of its token
_DAY_S = 86_400
_TOKEN_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


class SecuredCluster:
    """Made before the brokers start. With `authority` and `tokens` tests make further certificates and tokens."""

    def __init__(self, security: Security, folder: Path, ports: Sequence[NodePorts]) -> None:
        """Raises KafkaSourceError where certificates or tokens are needed and `cryptography` is not installed."""
        self.security = security
        self._folder, self._ports = folder / "security", ports
        shutil.rmtree(self._folder, ignore_errors=True)  # with `log_dir`: of a run before, signed by another CA
        self._folder.mkdir(mode=0o700)
        self._password = secrets.token_urlsafe(24)
        self._authority: Authority | None = None
        self._tokens: TokenSigner | None = None
        if security.tls:
            self._make_certificates()
        if security.signed_tokens:
            self._make_tokens()
        self.client_properties_file = folder / "client.properties"
        write_private(self.client_properties_file, render(self.client_properties()))

    @property
    def authority(self) -> Authority:
        """The CA of every listener without a certificate of its own, and of clients."""
        if self._authority is None:
            raise OptionError("this broker has no certificates: no listener of it has TLS")
        return self._authority

    @property
    def tokens(self) -> TokenSigner:
        """Makes the tokens that a listener with signed tokens accepts."""
        if self._tokens is None:
            raise OptionError("this broker has no tokens: no listener of it has signed_tokens")
        return self._tokens

    @property
    def ca(self) -> Path:
        """PEM."""
        return self._folder / "ca.pem"

    def server_properties(self, ports: NodePorts, release: tuple[int, ...]) -> dict[str, object]:
        """The properties of a node of this release for security."""
        if is_legacy(release):
            return server_security.legacy_security(self.security, ports, self._server_files, release)
        return server_security.kraft_security(self.security, ports, self._server_files)

    def jvm_flags(self, legacy: bool) -> tuple[str, ...]:
        """System properties of the brokers' JVMs."""
        jaas_file = self._folder / "jaas.conf" if legacy and self.security.mechanisms else None
        if jaas_file is not None:
            write_private(jaas_file, server_security.legacy_jaas(self.security))
        return server_security.jvm_flags(self.security, self._server_files, jaas_file)

    def scram_credentials(self) -> list[str]:
        """The credentials of all users, for formatting."""
        return server_security.scram_credentials(self.security)

    @property
    def _server_files(self) -> server_security.ServerFiles:
        return server_security.ServerFiles(
            keystores={listener.name: self._keystore(listener) for listener in self.security.listeners if listener.tls},
            truststore=self._folder / "truststore.p12",
            jwks=self._folder / "jwks.json",
            password=self._password,
        )

    def client_keystore(self, user: str) -> Path:
        """A PEM file with a private key and a certificate for `CN=user`; made when there is none."""
        path = self._folder / f"{user}.pem"
        if not path.exists():
            certificate = self.authority.issue(user, names=())
            write_private(path, certificate.key_pem() + certificate.certificate_pem)
        return path

    def bootstrap_servers(self, listener: str | None = None) -> str:
        """`host:port` of every node, with commas. `listener`: its name, or PLAINTEXT; the first secured one if None."""
        if listener == "PLAINTEXT":
            return ",".join(f"{HOST}:{ports.unsecured}" for ports in self._ports)
        chosen = self.security.listener(listener)
        place = self.security.listeners.index(chosen)
        ports = [(ports.advertised, *ports.further)[place] for ports in self._ports]
        return ",".join(f"{chosen.host}:{port}" for port in ports)

    def client_properties(
        self, listener: str | None = None, mechanism: str | None = None, user: str | None = None
    ) -> dict[str, str]:
        """Java's names. Without arguments: the first listener, its first mechanism, the first user."""
        way = self.security.listener(listener)
        mechanism = mechanism or (way.mechanisms[0] if way.sasl else None)
        user = user or next(iter(self.security.users), CLIENT)
        properties = {"bootstrap.servers": self.bootstrap_servers(way.name), "security.protocol": way.protocol}
        if way.tls:
            properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca)}
        if way.client_auth != "none":
            keystore = str(self.client_keystore(user))
            properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": keystore}
        if mechanism is not None:
            properties |= {"sasl.mechanism": mechanism, **self._login(way, mechanism, user)}
        return properties

    def _login(self, listener: Listener, mechanism: str, user: str) -> dict[str, str]:
        """The properties of a mechanism."""
        security, kerberos = self.security, self.security.kerberos
        if mechanism not in listener.mechanisms:
            known = ", ".join(listener.mechanisms) or "none"
            raise OptionError(f"mechanism {mechanism!r}: listener {listener.name} has {known}")
        more = {}
        if mechanism in WITH_PASSWORD:
            if user not in security.users:
                raise OptionError(f"user {user!r}: this broker knows {', '.join(security.users)}")
            options = {"username": user, "password": security.users[user]}
        elif mechanism == "OAUTHBEARER":
            options = {} if listener.signed_tokens else {"unsecuredLoginStringClaim_sub": user}
            if listener.signed_tokens:
                more["sasl.login.callback.handler.class"] = _TOKEN_HANDLER
                more["sasl.oauthbearer.token.endpoint.url"] = self._token_file(user).as_uri()
        else:
            assert kerberos is not None
            more["sasl.kerberos.service.name"] = kerberos.service_name
            options = {"useTicketCache": "true"}
            if kerberos.client_keytab is not None and kerberos.client_principal is not None:
                options = jaas.with_keytab(str(kerberos.client_keytab), kerberos.client_principal)
        return {"sasl.jaas.config": jaas.entry(mechanism, options), **more}

    def renew_certificates(self, authority: Authority) -> None:
        """Each listener gets a certificate of another CA. A node shows it from its next start on.

        What clients trust is theirs: `ca` stays, and so does the CA of client certificates.
        """
        for listener in self.security.listeners:
            if listener.tls:
                self._keystore(listener).write_bytes(authority.issue("kafka").pkcs12(self._password))

    def create_acls(self, *acls: Acl) -> None:
        """Make ACLs as the super user, and wait until every broker obeys them."""
        create_acls(self.bootstrap_servers("PLAINTEXT"), acls)

    def delete_acls(self, *acls: Acl) -> None:
        """Remove ACLs as the super user, and wait until no broker obeys them."""
        delete_acls(self.bootstrap_servers("PLAINTEXT"), acls)

    def _token_file(self, user: str) -> Path:
        path = self._folder / f"{user}.jwt"
        write_private(path, self.tokens.token(user, _DAY_S))
        return path

    def _make_certificates(self) -> None:
        try:
            from kafkasource.testing.broker.security.certificates import Authority, truststore
        except ImportError as error:
            raise _needs_cryptography("certificates") from error
        self._authority = authority = Authority()
        self.ca.write_text(authority.pem)
        (self._folder / "truststore.p12").write_bytes(truststore([authority], self._password))
        for listener in self.security.listeners:
            if listener.tls:
                certificate = listener.certificate or authority.issue("kafka")
                self._keystore(listener).write_bytes(certificate.pkcs12(self._password))

    def _make_tokens(self) -> None:
        try:
            from kafkasource.testing.broker.security.tokens import TokenSigner
        except ImportError as error:
            raise _needs_cryptography("signed tokens") from error
        self._tokens = TokenSigner()
        (self._folder / "jwks.json").write_text(self._tokens.jwks())

    def _keystore(self, listener: Listener) -> Path:
        return self._folder / f"{listener.name}.p12"


def _needs_cryptography(what: str) -> KafkaSourceError:
    return KafkaSourceError(f"a broker with {what} needs the package cryptography: pip install 'kafkasource[tls]'")
