"""SCRAM with the vectors of RFC 7677, with Kafka's own server, and with impostors."""

import base64
import hashlib
import hmac
import random
import time

import pytest
from kafka_security import a_server

from kafkasource.errors import AuthenticationFailed, OptionError, SaslExchangeFailed
from kafkasource.kafka.security.sasl.scram import HASHES, SaltedKeys, Scram
from kafkasource.kafka.security.secrets import Secret

# RFC 7677, section 3: user "user", password "pencil".
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def a_client(name="SCRAM-SHA-256", user="user", password="pencil", nonce=NONCE, **settings):
    return Scram(name, user, SaltedKeys(Secret(password)), nonce=nonce, **settings)


def begun(**settings):
    client = a_client(**settings)
    client.first()
    return client


def proven():
    client = begun()
    client.respond(SERVER_FIRST)
    return client


def test_the_exchange_is_that_of_rfc_7677():
    client = a_client()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.respond(SERVER_FIRST) == CLIENT_FINAL
    assert not client.complete
    assert client.respond(SERVER_FINAL) is None
    client.finish()
    assert client.complete


USERS = [("alice", "geheim"), ("a=b,c", "x,y=z"), ("alice@home", "pässwörd€ß"), ("  ", " "), ("u" * 200, "p" * 500)]


@pytest.mark.peers
@pytest.mark.extended  # a real broker lets the same in: test_security_matrix.py
@pytest.mark.parametrize("name", HASHES)
def test_kafkas_server_and_we_prove_ourselves_to_each_other(name):
    with a_server() as server:
        for user, password in USERS:
            for iterations in ("4096", "8192"):
                server.ask("scram", name, user, password, iterations, "")
                assert server.run(Scram(name, user, SaltedKeys(Secret(password)))) == user
        server.ask("scram", name, "alice", "geheim", "4096", "")
        assert server.run(Scram(name, "alice", SaltedKeys(Secret("Geheim")))) == "!SaslException"
        server.ask("scram", name, "token-id", "aG1hYw==", "4096", "the owner")
        with_token = Scram(name, "token-id", SaltedKeys(Secret("aG1hYw==")), delegation_token=True)
        assert server.run(with_token) == "the owner"


def test_a_user_is_escaped_as_rfc_5802_says_and_a_token_says_that_it_is_one():
    assert a_client(user="a=b,c").first() == b"n,,n=a=3Db=2Cc,r=rOprNGfwEbeRWgbNEkqO"
    assert a_client(delegation_token=True).first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO,tokenauth=true"


def test_nonces_differ():
    assert len({Scram("SCRAM-SHA-256", "u", SaltedKeys(Secret("p"))).first() for _ in range(100)}) == 100


def server_first(nonce=NONCE + "x", salt="W22ZaJ0SNY7soEsUEjb6gQ==", iterations="4096", more=""):
    return f"r={nonce},s={salt},i={iterations}{more}".encode()


HOSTILE = {
    "a foreign nonce": server_first("3rfcNHYJY1ZVvWVs7j"),
    "the client's nonce alone": server_first(NONCE),
    "one iteration": server_first(iterations="1"),
    "4095 iterations": server_first(iterations="4095"),
    "more work than the polling thread has time for": server_first(iterations="100001"),
    "iterations without end": server_first(iterations="9" * 5000),
    "no iterations": server_first(iterations="0"),
    "iterations below zero": server_first(iterations="-4096"),
    "other digits": server_first(iterations="４０９６"),
    "an empty salt": server_first(salt=""),
    "a salt that is no base64": server_first(salt="W22Za==="),
    "a salt cut short": server_first(salt="W22Za"),
    "a mandatory extension": b"m=x," + server_first(),
    "an error in place of the first message": b"e=other-error",
    "the last message first": SERVER_FINAL,
    "nothing": b"",
    "no text": b"\xff\xfe\x00",
    "a line more": server_first() + b"\n",
    "too much": server_first(more=",x=" + "y" * 100_000),
}


@pytest.mark.parametrize("message", HOSTILE.values(), ids=HOSTILE)
def test_a_first_message_that_is_not_right_gets_no_proof(message):
    client = begun()
    started = time.process_time()
    with pytest.raises(AuthenticationFailed) as raised:
        client.respond(message)
    assert time.process_time() - started < 0.1
    assert "pencil" not in repr(raised.value)
    with pytest.raises(SaslExchangeFailed):
        client.finish()


@pytest.mark.parametrize("iterations", ["4096", "16384", "100000"])
def test_iterations_within_the_bounds_are_taken(iterations, monkeypatch):
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda *_: b"salted")
    assert begun().respond(server_first(iterations=iterations))


def test_extensions_that_nobody_must_know_are_passed_over():
    assert begun().respond(server_first(more=",x=y,z=1"))


@pytest.mark.parametrize(
    "message",
    [
        b"v=" + base64.b64encode(bytes(32)),
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4",
        b"v=",
        b"",
        b"e=invalid-proof",
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=,e=x\0",
        SERVER_FIRST,
        b"\x00" * 1000,
    ],
)
def test_without_the_servers_signature_the_exchange_is_never_over(message):
    client = proven()
    with pytest.raises(AuthenticationFailed):
        client.respond(message)
    with pytest.raises(SaslExchangeFailed, match="impostor"):
        client.finish()


def test_a_broker_that_says_success_too_early_is_not_believed():
    for client in (a_client(), begun(), proven()):
        with pytest.raises(SaslExchangeFailed, match="impostor"):
            client.finish()


def test_a_replayed_exchange_is_refused():
    with pytest.raises(SaslExchangeFailed, match="replay"):
        begun(nonce="fyko+d2lbbFgONRv9qkx").respond(SERVER_FIRST)


def test_a_server_error_is_quoted_without_what_a_terminal_would_obey():
    with pytest.raises(AuthenticationFailed) as raised:
        proven().respond("e=\x1b[2Jü".encode() + b"x" * 1000)
    assert "\x1b" not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_nothing_follows_the_end():
    client = proven()
    client.respond(SERVER_FINAL)
    with pytest.raises(SaslExchangeFailed):
        client.respond(SERVER_FINAL)


def test_keys_are_derived_once_for_a_salt_and_a_number_of_iterations(monkeypatch):
    derived = []
    real = hashlib.pbkdf2_hmac
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda *what: derived.append(what) or real(*what))
    keys = SaltedKeys(Secret("pencil"))
    for _ in range(3):
        client = Scram("SCRAM-SHA-256", "user", keys, nonce=NONCE)
        client.first()
        assert client.respond(SERVER_FIRST) == CLIENT_FINAL
    assert len(derived) == 1
    for salt in range(100):
        keys.of("sha256", b"%d" % salt, 4096)
    assert len(list(keys._kept)) <= 16  # a broker that sends other salts fills no memory


def test_the_keys_are_those_of_rfc_5802():
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hmac.new(b"pencil", salt + b"\0\0\0\1", "sha512").digest()
    block = int.from_bytes(salted, "big")
    for _ in range(4095):  # Hi() of section 2.2
        salted = hmac.new(b"pencil", salted, "sha512").digest()
        block ^= int.from_bytes(salted, "big")
    keys = SaltedKeys(Secret("pencil")).of("sha512", salt, 4096)
    assert keys.client == hmac.new(block.to_bytes(64, "big"), b"Client Key", "sha512").digest()
    assert keys.server == hmac.new(block.to_bytes(64, "big"), b"Server Key", "sha512").digest()


def test_no_secret_is_shown():
    client = proven()
    keys = SaltedKeys(Secret("pencil"))
    for holder in (client, keys, keys.of("sha256", b"salt", 4096), vars(client)):
        assert "pencil" not in repr(holder)
        assert repr(keys.of("sha256", b"salt", 4096).client) not in repr(holder)
    with pytest.raises(OptionError):
        a_client(user="")


def carry_on(client, data):
    if client.respond(data) is not None:
        client.respond(SERVER_FINAL)
    client.finish()


def test_random_bytes_are_refused():
    rng = random.Random(5)
    for _ in range(2000):
        client = rng.choice((begun, proven))()
        data = bytearray(rng.choice((SERVER_FIRST, SERVER_FINAL)))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if bytes(data) not in (SERVER_FIRST, SERVER_FINAL):
            with pytest.raises(AuthenticationFailed):
                carry_on(client, bytes(data))
