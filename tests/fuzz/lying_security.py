"""What TLS, SASL and their files are read from, damaged: stores of keys, token endpoints' answers, both on the wire.

A conversation with TLS has OpenSSL's random numbers in it: for a seed only the damage is the same.
"""

from __future__ import annotations

import base64
import os
import random
import ssl
from functools import cache
from itertools import pairwise
from pathlib import Path

from certificate_maker import authority
from frame_mutations import damaged
from lying_authentication import KEYS, NONCE, SCRAM
from tls_peers import Server, server_context

from kafkasource.errors import ConnectionLost
from kafkasource.kafka.network.authentication import Authentication
from kafkasource.kafka.network.connection import Connection
from kafkasource.kafka.protocol.apis import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, Api
from kafkasource.kafka.protocol.frames import encode_response
from kafkasource.kafka.security import endpoint
from kafkasource.kafka.security.sasl.scram import Scram
from kafkasource.kafka.security.tls import certificates, stores
from kafkasource.kafka.security.tls.config import TlsConfig
from kafkasource.kafka.security.tls.context import TlsContext
from kafkasource.kafka.security.tls.store_files import StoreFiles
from kafkasource.kafka.security.tls.stream import TlsStream
from kafkasource.kafka.security.tokens.token import token_of_answer

URL = "https://idp.example/token"
TOKEN = b'{"access_token":"a.eyJleHAiOjE3MDAwMDAwMDB9.b","expires_in":3600,"token_type":"Bearer"}'


def read_stores(rng: random.Random) -> bool:
    """Truststores and keystores as options name them, whatever their bytes say that they are."""
    data = damaged(rng, rng.choice(list(samples().values())), rng.choice(list(samples().values())))
    if rng.random() < 0.3:
        return bool(certificates.readable([data])) or not data
    with os.fdopen(os.memfd_create("store"), "wb") as file:
        file.write(data)
        file.flush()
        path = f"/proc/self/fd/{file.fileno()}"
        if rng.random() < 0.5:
            return bool(stores.trusted_certificates(TlsConfig.of({"ssl.truststore.location": path}), StoreFiles()))
        config = TlsConfig.of({"ssl.keystore.location": path, "ssl.key.password": "changeit"})
        return stores.client_identity(config, StoreFiles()) is not None


@cache
def samples() -> dict[str, bytes]:
    """As capture_stores.py wrote them."""
    words = (Path(__file__).parent / "stores.txt").read_text().split()
    names = [word for word in words if word in ("der", "pem", "pkcs12", "jks-keys", "jks-trusted")]
    places = [words.index(name) for name in names] + [len(words)]
    texts = ["".join(words[at + 1 : end]) for at, end in pairwise(places)]
    return {name: base64.b64decode(text) for name, text in zip(names, texts, strict=True)}


def take_token(rng: random.Random) -> bool:
    """A token endpoint's answer, from its bytes to a token."""
    return bool(token_of_answer(endpoint._object_of(URL, damaged(rng, TOKEN)), 1_700_000_000.0))


def log_in(rng: random.Random) -> bool:
    """A connection's SASL, from the answer to ApiVersions on, in pieces of any size."""
    authentication = Authentication(Scram("SCRAM-SHA-256", "user", KEYS, nonce=NONCE), "a broker")
    connection = Connection("a broker", "fuzz", 1 << 20, authentication=authentication)
    connection.negotiate()
    whole = b"".join(
        encode_response(api, version, number, body) for number, (api, version, body) in enumerate(_answers())
    )
    whole = damaged(rng, whole) if rng.random() < 0.9 else whole
    pos = 0
    while pos < len(whole):
        size = rng.choice((1, 3, 17, 1000))
        taken = connection.receive(whole[pos : pos + size])
        pos += size
        if taken.error is not None:
            raise taken.error
    return connection.ready


def _answers() -> list[tuple[Api, int, dict[str, object]]]:
    served = [
        {"api_key": api.key, "min_version": 0, "max_version": api.versions[1]}
        for api in (SASL_HANDSHAKE, SASL_AUTHENTICATE)
    ]
    last = SASL_AUTHENTICATE.versions[1]
    return [
        (API_VERSIONS, API_VERSIONS.versions[1], {"api_keys": served}),
        (SASL_HANDSHAKE, 1, {"error_code": 0, "mechanisms": ["PLAIN", "SCRAM-SHA-256"]}),
        *((SASL_AUTHENTICATE, last, {"error_code": 0, "error_message": None, "auth_bytes": data}) for data in SCRAM),
    ]


def encrypt(rng: random.Random) -> bool:
    """A TLS server's bytes, handshake and records, damaged; taken only where the plain text is what was sent."""
    client, server = _ends()
    sent = bytes(range(256)) * 8
    for turn in range(6):
        if not client.handshake():
            server.feed(_outgoing(client))
        elif turn:
            server.feed(_outgoing(client))
            server.write(sent)
        theirs = server.take()
        theirs = damaged(rng, theirs) if theirs and rng.random() < 0.4 else theirs
        for at in range(0, len(theirs), 700):
            client.feed(theirs[at : at + 700])
    got, target = bytearray(), bytearray(1 << 12)
    try:
        while client.handshake() and (size := client.read_into(memoryview(target))):
            got += target[:size]
    except OSError:  # a lost connection, for who polls it
        raise ConnectionLost("a record is damaged") from None
    finally:
        assert sent.startswith(bytes(got[: len(sent)])), "other bytes than were sent"
    return len(got) >= len(sent)


def _outgoing(client: TlsStream) -> bytes:
    found = b""
    while out := bytes(client.outgoing()):
        client.sent(len(out))
        found += out
    return found


@cache
def _peers() -> tuple[ssl.SSLContext, TlsContext]:
    root = authority()
    return server_context(root.issue("broker-1", ("broker.test",))), TlsContext(
        TlsConfig.of({"ssl.truststore.certificates": root.pem})
    )


def _ends() -> tuple[TlsStream, Server]:
    context, client = _peers()
    return TlsStream(client.setup(), "broker.test"), Server(context)
