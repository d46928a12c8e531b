"""Brokers and files that lie about authentication: a machine never counts as over unless every answer was right."""

from __future__ import annotations

import random

from frame_mutations import damaged

from kafkasource.kafka.security import properties
from kafkasource.kafka.security.sasl import jaas
from kafkasource.kafka.security.sasl.mechanism import Mechanism
from kafkasource.kafka.security.sasl.oauthbearer import OauthBearer
from kafkasource.kafka.security.sasl.plain import Plain
from kafkasource.kafka.security.sasl.scram import SaltedKeys, Scram
from kafkasource.kafka.security.secrets import References, Secret
from kafkasource.kafka.security.tokens.token import AccessToken, claims_of

# RFC 7677, section 3: user "user", password "pencil".
NONCE = "rOprNGfwEbeRWgbNEkqO"
KEYS = SaltedKeys(Secret("pencil"))
SCRAM = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)
REFUSAL = b'{"status":"invalid_token","scope":"s"}'
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password=\'b\\"c\' d=e; // x'
PROPERTIES = "# a\nkey = value\\\n  more\nb:\\u00e9\\t\n"


def authenticate(rng: random.Random) -> bool:
    """A mechanism against answers of which some are damaged. It is over exactly where none was."""
    mechanism, answers = rng.choice((_plain, _scram, _oauthbearer))()
    given = [damaged(rng, each, rng.choice(SCRAM)) if rng.random() < 0.4 else each for each in answers]
    mechanism.first()
    for answer in given:
        if mechanism.respond(answer) is None:
            break
    mechanism.finish()
    assert given == list(answers), given
    return True


def read_credentials(rng: random.Random) -> bool:
    """Files and options that hold credentials, damaged."""
    read = rng.choice((_jaas, _properties, _references, _claims))
    text = rng.choice((JAAS, PROPERTIES, "${env:HOME}x${file:/dev/null:b}${dir:/:c}", "a.eyJleHAiOjF9.b"))
    read(damaged(rng, text.encode(), REFUSAL).decode("utf-8", "replace"))
    return True


def _plain() -> tuple[Mechanism, tuple[bytes, ...]]:
    return Plain("user", Secret("pencil")), (b"",)


def _scram() -> tuple[Mechanism, tuple[bytes, ...]]:
    return Scram("SCRAM-SHA-256", "user", KEYS, nonce=NONCE), SCRAM


def _oauthbearer() -> tuple[Mechanism, tuple[bytes, ...]]:
    return OauthBearer(lambda: AccessToken(Secret("abc"))), (b"",)


def _jaas(text: str) -> None:
    jaas.parse(text)


def _properties(text: str) -> None:
    properties.parse(text)


def _references(text: str) -> None:
    References(file_paths=(), folder_paths=()).resolve(text, {"HOME": "/root"})


def _claims(text: str) -> None:
    claims_of(text)
