"""PLAIN against RFC 4616 and Kafka's own server."""

import pytest
from kafka_security import a_server

from kafkasource.errors import OptionError, SaslExchangeFailed
from kafkasource.kafka.security.sasl.plain import Plain
from kafkasource.kafka.security.secrets import Secret


def test_the_message_is_that_of_rfc_4616():
    assert Plain("tim", Secret("tanstaaftanstaaf")).first() == b"\0tim\0tanstaaftanstaaf"  # section 4, first example


@pytest.mark.peers
@pytest.mark.extended  # a real broker lets the same in: test_security_matrix.py
def test_kafkas_server_takes_it():
    with a_server() as server:
        for user, password in (("alice", "geheim"), ("ünïcode", "pässwörd€"), ("a,b=c", " x ")):
            server.ask("plain", user, password)
            assert server.run(Plain(user, Secret(password))) == user
            server.ask("plain", user, password)
            assert server.run(Plain(user, Secret(password + "x"))) == "!SaslAuthenticationException"


def test_only_the_empty_answer_ends_the_exchange():
    for answer in (b"x", b"\0", b"x" * 100_000):
        mechanism = Plain("a", Secret("b"))
        mechanism.first()
        with pytest.raises(SaslExchangeFailed):
            mechanism.respond(answer)
        with pytest.raises(SaslExchangeFailed):
            mechanism.finish()
    mechanism = Plain("a", Secret("b"))
    mechanism.first()
    assert mechanism.respond(b"") is None
    mechanism.finish()
    assert mechanism.complete


def test_what_plain_cannot_carry_is_refused_without_being_shown():
    for user, password in (("", "geheim"), ("a", ""), ("a\0", "geheim"), ("a", "gehe\0im")):
        with pytest.raises(OptionError) as raised:
            Plain(user, Secret(password))
        assert "gehe" not in str(raised.value)
