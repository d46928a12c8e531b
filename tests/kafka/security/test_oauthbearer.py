"""OAUTHBEARER against RFC 7628 and Kafka's own server."""

import pytest
from kafka_security import a_server, data_of

from kafkasource.errors import AuthenticationFailed, OptionError, SaslExchangeFailed, TokenRefused
from kafkasource.kafka.security.sasl.oauthbearer import OauthBearer
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tokens.token import AccessToken

TOKEN = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="  # RFC 7628, section 4.1
REFUSAL = b'{"status":"invalid_token","scope":"example_scope","openid-configuration":"https://example.com/.well-known"}'


def a_client(token=TOKEN, extensions=(), of_token=()):
    return OauthBearer(lambda: AccessToken(Secret(token), extensions=of_token), extensions=extensions)


def begun():
    client = a_client()
    client.first()
    return client


def test_the_message_is_that_of_rfc_7628():
    """The example of section 4.1 without the authorization id, host and port, which Kafka's clients do not send."""
    assert a_client().first() == b"n,,\1auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\1\1"


def test_extensions_stand_behind_the_token():
    client = a_client(extensions=[("logicalCluster", "lkc-1")], of_token=(("pool", "p 1"), ("logicalCluster", "other")))
    assert client.first().endswith(b"==\1pool=p 1\1logicalCluster=lkc-1\1\1")


@pytest.mark.peers
@pytest.mark.extended  # a real broker lets the same in: test_security_matrix.py
def test_kafkas_server_takes_it_and_its_refusal_ends_the_exchange():
    with a_server() as server:
        for token in ("abc.def-_.ghi", TOKEN, "a~+/="):
            for extensions in ((), (("traceId", "123"), ("x", "a b"))):
                server.ask("oauthbearer", token)
                assert server.run(a_client(token, extensions)) == "the-principal"
        server.ask("oauthbearer", "another")
        client = a_client()
        state, said = server.ask("respond", client.first())
        assert state == "more"
        assert client.respond(data_of(said)) == b"\1"
        assert client.refusal == "invalid_token (it requires the scope 'the-scope')"
        assert server.ask("respond", b"\1") == ["!SaslAuthenticationException"]


def test_a_refused_token_is_reported_to_whoever_keeps_it():
    kept, refused = AccessToken(Secret(TOKEN)), []
    client = OauthBearer(lambda: kept, refused=refused.append)
    client.first()
    assert not refused
    client.respond(REFUSAL)
    assert refused == [kept]


def test_a_refused_token_is_never_a_success():
    client = begun()
    assert client.respond(REFUSAL) == b"\1"
    for go_on in (client.finish, lambda: client.respond(b""), lambda: client.respond(REFUSAL)):
        with pytest.raises(TokenRefused, match=r"invalid_token.*example_scope"):
            go_on()
    assert not client.complete


@pytest.mark.parametrize(
    "answer",
    [
        b"x",
        b"{}",
        b"[]",
        b"null",
        b'{"status":1}',
        b'{"status"',
        b"\xff",
        b"[" * 60_000,
        b'{"status":"x"}' + b" " * 99_999,
    ],
)
def test_an_answer_that_is_no_error_of_rfc_7628_is_refused(answer):
    with pytest.raises(SaslExchangeFailed):
        begun().respond(answer)


def test_only_the_empty_answer_ends_the_exchange():
    client = begun()
    with pytest.raises(SaslExchangeFailed):
        client.finish()
    assert client.respond(b"") is None
    client.finish()
    with pytest.raises(SaslExchangeFailed):
        client.respond(b"")


def test_a_token_that_would_break_out_of_the_message_is_refused_unseen():
    for token in ("geheim\1auth=x", "geheim x", "geheim\n", "", "gehéim"):
        with pytest.raises(AuthenticationFailed) as raised:
            a_client(token).first()
        assert "geh" not in str(raised.value)


@pytest.mark.parametrize("pair", [("auth", "x"), ("a1", "x"), ("", "x"), ("a", ""), ("a", "é"), ("a", "x\1y")])
def test_an_extension_that_kafka_refuses_is_refused(pair):
    with pytest.raises(OptionError):
        a_client(extensions=[pair])


def test_a_status_is_quoted_without_what_a_terminal_would_obey():
    client = begun()
    client.respond(b'{"status":"\\u001b[2J' + b"x" * 5000 + b'"}')
    assert "\x1b" not in client.refusal
    assert len(client.refusal) < 200


def test_the_machine_says_whether_it_waits_for_a_token():
    waits = [True]
    client = OauthBearer(lambda: AccessToken(Secret(TOKEN)), lambda: waits[0])
    assert client.blocks
    waits[0] = False
    assert not client.blocks
    waits[0] = True
    client.first()
    assert not client.blocks  # the token has gone
