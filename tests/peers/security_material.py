"""Files, addresses and texts that `security_rows.py` names: each is made when it is asked for first."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from certificate_maker import Issued, java_keystore, java_truststore
from proxy import Proxy
from token_server import Endpoint, an_endpoint, granted

from kafkasource.testing.broker.security.certificates import Authority, IssuedCertificate, truststore
from kafkasource.testing.broker.security.jaas import MODULES
from kafkasource.testing.broker.security.secured import SecuredCluster
from kafkasource.testing.broker.security.tokens import TokenSigner

STORE_PASSWORD, KEY_PASSWORD = "store-geheim", "key-geheim"
LISTENERS = ("PLAINTEXT", "SSL", "MTLS", "SASL_SSL", "SASL_PLAINTEXT", "JWKS", "REAUTH")


class Material:
    """A mapping for `str.format_map`."""

    def __init__(self, secured: SecuredCluster, elsewhere: Proxy, folder: Path) -> None:
        """`elsewhere`: in front of the listener SSL, at an address that its certificate does not have."""
        self._secured = secured
        self._folder = folder
        self._made: dict[str, str] = {name: secured.bootstrap_servers(name) for name in LISTENERS}
        self._made["elsewhere"] = elsewhere.bootstrap_servers
        self._ways: dict[str, Callable[[], str | bytes]] = {
            "truststore p12": lambda: truststore([secured.authority], STORE_PASSWORD),
            "client pem": lambda: self._client.key_pem() + self._client.certificate_pem,
            "locked pem": lambda: self._locked_key + self._client.certificate_pem,
            "stranger pem": lambda: self._stranger.key_pem() + self._stranger.certificate_pem,
            "keystore p12": lambda: self._client.pkcs12(STORE_PASSWORD),
            "other ca": lambda: self._other.pem,
            "token": lambda: secured.tokens.token("alice"),
            "foreign token": lambda: TokenSigner().token("alice"),
        }
        self._texts: dict[str, Callable[[], str]] = {
            "ca": lambda: str(secured.ca),
            "ca text": lambda: secured.authority.pem,
            "other ca text": lambda: self._other.pem,
            "store password": lambda: STORE_PASSWORD,
            "key password": lambda: KEY_PASSWORD,
            "key text": lambda: self._client.key_pem(),
            "locked key text": lambda: self._locked_key,
            "chain text": lambda: self._client.certificate_pem,
            "JAAS module": lambda: MODULES["PLAIN"],
            "token file": lambda: Path(self["token"]).as_uri(),
            "foreign token file": lambda: Path(self["foreign token"]).as_uri(),
            "truststore jks": lambda: str(java_truststore(folder / "t.jks", "JKS", STORE_PASSWORD, self._issuer)),
            "keystore jks": lambda: str(self._java_keystore()),
        }

    def __getitem__(self, name: str) -> str:
        if name not in self._made:
            self._made[name] = self._texts[name]() if name in self._texts else self._file(name)
        return self._made[name]

    @contextmanager
    def endpoint(self, answers: tuple[str, ...]) -> Iterator[Asked]:
        """A token endpoint, which `{endpoint}` stands for."""
        if not answers:
            yield Asked(None, [])
            return
        ended = threading.Event()
        with an_endpoint(*map(self._answer, answers)) as endpoint:
            if "nothing" in answers:
                endpoint.write = lambda stream, body: ended.wait()
            self._made["endpoint"] = endpoint.url
            try:
                yield Asked(endpoint, list(endpoint.answers))
            finally:
                ended.set()
                del self._made["endpoint"]

    def _answer(self, word: str) -> tuple[int, bytes]:
        if word in ("token", "nothing"):
            return granted(self._secured.tokens.token("alice"))
        return int(word), b'{"error": "unauthorized_client"}'

    def _file(self, name: str) -> str:
        data = self._ways[name]()
        path = self._folder / name.replace(" ", "-")
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return str(path)

    def _java_keystore(self) -> Path:
        client = Issued(self._client.certificate, self._client.key, self._client.chain)  # type: ignore[arg-type]
        return java_keystore(self._folder / "k.jks", "JKS", STORE_PASSWORD, KEY_PASSWORD, client)

    @cached_property
    def _client(self) -> IssuedCertificate:
        return self._secured.authority.issue("alice", names=())

    @cached_property
    def _locked_key(self) -> str:
        """Java knows no PBES2, which is what `cryptography` encrypts with."""
        command = ["openssl", "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-passout", f"pass:{KEY_PASSWORD}"]
        return subprocess.run(
            command, input=self._client.key_pem(), capture_output=True, text=True, timeout=60, check=True
        ).stdout

    @cached_property
    def _issuer(self) -> Issued:
        authority = self._secured.authority
        return Issued(authority.certificate, authority._key)

    @cached_property
    def _other(self) -> Authority:
        return Authority("Somebody else")

    @cached_property
    def _stranger(self) -> IssuedCertificate:
        return self._other.issue("alice", names=())


class Asked:
    """The requests to the token endpoint of a row; empty where it has none."""

    def __init__(self, endpoint: Endpoint | None, answers: list[tuple[int, bytes]]) -> None:
        self._endpoint = endpoint
        self._answers = answers

    def begin(self) -> None:
        """The first answer comes first again."""
        if self._endpoint is not None:
            self._endpoint.answers[:] = self._answers
            self._endpoint.requests.clear()

    @property
    def requests(self) -> set[tuple[str, ...]]:
        """The different requests. Their number is not compared."""
        if self._endpoint is None:
            return set()
        return {
            (each.method, each.headers.get("Authorization", ""), *sorted(f"{k}={v}" for k, v in each.form.items()))
            for each in self._endpoint.requests
        }
