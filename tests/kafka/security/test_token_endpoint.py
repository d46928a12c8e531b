"""Token endpoints that fail, lie, or take their time: bounded, asked again only where that helps, and never quoted."""

import base64
import ssl
import threading
import time
import tracemalloc

import pytest
from certificate_maker import authority
from fake_broker import FakeKafka, FakeNet
from token_server import an_endpoint, granted, jwt

from kafkasource.errors import AuthenticationFailed, OptionError, TokenNotAvailable, TokenRefused
from kafkasource.kafka.protocol.apis import METADATA
from kafkasource.kafka.security.config import SecurityConfig
from kafkasource.kafka.security.endpoint import HttpClient, HttpLimits
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tokens.grants import ClientCredentials

NOW = 1_700_000_000.0


class Sleep:
    def __init__(self):
        self.slept = []

    def __call__(self, seconds):
        self.slept.append(seconds)


def a_client(sleep=None, **limits):
    return HttpClient(HttpLimits(**{"allow_http": True, **limits}), sleep=sleep or Sleep())


def fetch(endpoint, http=None, **settings):
    source = ClientCredentials(endpoint.url, "the id", Secret("geheim:ü/"), **settings)
    return source.fetch(http or a_client(), NOW)


@pytest.fixture
def endpoint():
    with an_endpoint() as server:
        yield server


def test_the_request_is_that_of_rfc_6749(endpoint):
    fetch(endpoint, scope="a b")
    (request,) = endpoint.requests
    assert (request.method, request.path) == ("POST", "/token")
    assert request.form == {"grant_type": "client_credentials", "scope": "a b"}
    assert base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode() == "the id:geheim:ü/"
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert request.headers["Accept"] == "application/json"


def test_id_and_secret_are_encoded_where_the_option_says_so(endpoint):
    fetch(endpoint, urlencode=True)
    (request,) = endpoint.requests
    basic = base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode()
    assert basic == "the+id:geheim%3A%C3%BC%2F"
    assert "scope" not in request.form


def test_a_token_says_when_it_expires():
    token = jwt(exp=NOW + 900, iat=NOW - 100)
    with an_endpoint(granted(token, expires_in=5)) as endpoint:
        given = fetch(endpoint)
    assert (given.value.reveal(), given.expires_at_s, given.issued_at_s) == (
        token,
        NOW + 900,
        NOW - 100,
    )
    with an_endpoint(granted("opaque", expires_in=5)) as endpoint:
        assert fetch(endpoint).expires_at_s == NOW + 5
    with an_endpoint((200, b'{"id_token":"x"}')) as endpoint:
        assert (fetch(endpoint).value, fetch(endpoint).expires_at_s) == (Secret("x"), None)


@pytest.mark.parametrize("status", [200, 201])
def test_a_token_is_granted_with_the_two_states_that_kafkas_client_takes(status):
    """HttpJwtRetriever of Kafka 4.3.1 compares the answer's state with 200 and 201 (javap)."""
    with an_endpoint((status, granted("opaque")[1])) as endpoint:
        assert fetch(endpoint).value == Secret("opaque")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 501, 301, 302, 307, 202, 204])
def test_what_cannot_become_better_is_asked_once(status):
    said = b'{"error":"invalid_client","error_description":"geheim is wrong"}'
    sleep = Sleep()
    with an_endpoint((status, b"" if status == 204 else said)) as endpoint:
        endpoint.headers = {"Location": "http://127.0.0.1:1/elsewhere"}
        with pytest.raises(TokenRefused) as raised:
            fetch(endpoint, a_client(sleep))
    assert len(endpoint.requests) == 1
    assert not sleep.slept
    assert str(status) in str(raised.value)
    assert "geheim" not in str(raised.value)
    assert status >= 500 or status < 400 or "invalid_client" in str(raised.value)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_what_may_become_better_is_asked_again(status):
    sleep = Sleep()
    with an_endpoint((status, b""), (status, b"{"), granted("opaque")) as endpoint:
        assert fetch(endpoint, a_client(sleep)).value == Secret("opaque")
    assert 0.08 <= sleep.slept[0] <= 0.12
    assert 0.16 <= sleep.slept[1] <= 0.24


def test_attempts_end_in_time():
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds

    limits = HttpLimits(allow_http=True, retry_backoff_max_ms=2000)
    http = HttpClient(limits, clock=lambda: now[0], sleep=sleep)
    with an_endpoint((500, b"")) as endpoint, pytest.raises(TokenNotAvailable) as raised:
        fetch(endpoint, http)
    assert raised.value.retriable
    assert 2 <= now[0] < 2.01
    assert 4 <= len(endpoint.requests) <= 7


def test_an_endpoint_that_is_not_there_is_retriable():
    with an_endpoint() as endpoint:
        pass
    with pytest.raises(TokenNotAvailable, match=r"http://127\.0\.0\.1:\d+/token"):
        fetch(endpoint, a_client(retry_backoff_max_ms=1))


def test_a_byte_now_and_then_keeps_nobody():
    stop = threading.Event()

    def drip(stream, body):
        while not stop.wait(0.01):
            stream.write(b"x")
            stream.flush()

    with an_endpoint() as endpoint:
        endpoint.write = drip
        started = time.monotonic()
        with pytest.raises(TokenNotAvailable):
            fetch(endpoint, a_client(read_timeout_ms=300, retry_backoff_max_ms=1))
        assert time.monotonic() - started < 5
        stop.set()


def test_a_cut_answer_is_asked_for_again():
    sleep = Sleep()
    with an_endpoint(granted("opaque"), granted("opaque-and-more-of-it")) as endpoint:
        endpoint.headers = {"Content-Length": str(len(granted("opaque-and-more-of-it")[1]))}
        assert fetch(endpoint, a_client(sleep)).value == Secret("opaque-and-more-of-it")
    assert len(sleep.slept) == 1


@pytest.mark.parametrize("size", [None, b"-1", b"-ff", b" -1", b"fffffffffffffff", b"0x-1", b"1" * 70_000])
def test_a_huge_answer_is_cut_off_whatever_its_chunks_say(size):
    """None: it has no chunks."""

    def flood(stream, body):
        if size is not None:
            stream.write(size + b"\r\n")
        for _ in range(1000):
            stream.write(bytes(1 << 20))

    with an_endpoint() as endpoint:
        endpoint.headers = {} if size is None else {"Transfer-Encoding": "chunked"}
        endpoint.write = flood
        tracemalloc.start()
        with pytest.raises((TokenRefused, TokenNotAvailable), match="1048576" if size is None else None):
            fetch(endpoint, a_client(retry_backoff_max_ms=1))
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
        tracemalloc.stop()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>geheim</html>",
        b"[]",
        b"{}",
        b'{"access_token":5}',
        b'{"access_token":""}',
        b"\xff",
        b"[" * 100_000,
        b'{"access_token":"' + b"x" * 600_000 + b'"}',
    ],
)
def test_an_answer_without_a_token_is_refused(answer):
    with an_endpoint((200, answer)) as endpoint, pytest.raises(TokenRefused) as raised:
        fetch(endpoint)
    assert "geheim" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "token",
        "ftp://a/b",
        "https://",
        "https://user:geheim@a/b",
        "https://a:x/b",
        "https://a/b\r\nX: y",
        "//a/b",
        "https://a..b/c",
        "https://a/ü",
    ],
)
def test_what_is_no_url_of_an_endpoint_is_refused(url):
    with pytest.raises(OptionError) as raised:
        a_client().post_form(url, {}, {})
    assert "geheim" not in str(raised.value)


def test_a_reference_to_what_is_no_url_ends_a_request_with_an_error_of_ours(monkeypatch):
    """It is read where the connection is made: in `poll`, which raised a bare ValueError."""
    monkeypatch.setenv("TOKEN_URL", "https://id:geheim@[::1/token")
    kafka = FakeKafka()
    kafka.mechanisms = ["OAUTHBEARER"]
    url = "sasl.oauthbearer.token.endpoint.url"
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", url: "${env:TOKEN_URL}"}
    client = FakeNet(kafka).client(security=SecurityConfig.of(options))
    asked = client.send(-1, METADATA, {"topics": [], "allow_auto_topic_creation": False})
    while not asked.done:
        client.poll(1000)
    assert isinstance(asked.error, OptionError)
    assert url in str(asked.error)
    assert "geheim" not in str(asked.error)


def test_http_is_only_for_those_who_ask_for_it(endpoint):
    with pytest.raises(OptionError, match=r"allow\.http"):
        fetch(endpoint, a_client(allow_http=False))
    assert not endpoint.requests


def test_plain_http_behind_an_https_url_is_no_answer(endpoint):
    endpoint.url = endpoint.url.replace("http:", "https:")
    with pytest.raises((TokenNotAvailable, AuthenticationFailed)):
        fetch(endpoint, HttpClient(HttpLimits(retry_backoff_max_ms=1), sleep=Sleep()))
    assert not endpoint.requests


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority's certificate, and a server's for 127.0.0.1 with its key, as PEM files."""
    folder, root = tmp_path_factory.mktemp("certificates"), authority()
    server = root.issue("server", ips=("127.0.0.1",))
    for name, text in (("ca", root.pem), ("server", server.pem), ("key", server.key_pem())):
        (folder / f"{name}.pem").write_text(text)
    return folder


def test_an_https_endpoint_is_asked_only_where_its_authority_is_trusted(certificates):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "key.pem")

    def trusting(**authority):
        return HttpClient(HttpLimits(retry_backoff_max_ms=1, **authority), sleep=Sleep())

    with an_endpoint(granted("opaque"), context=context) as endpoint:
        for authority in (
            {"ca_location": str(certificates / "ca.pem")},
            {"ca_pem": (certificates / "ca.pem").read_text()},
            {"ca_location": str(certificates / "server.pem")},  # a leaf is an anchor, too, as for Java
        ):
            assert fetch(endpoint, trusting(**authority)).value == Secret("opaque")
        asked = len(endpoint.requests)
        with pytest.raises(TokenRefused, match="not trusted"):
            fetch(endpoint, trusting())
        endpoint.url = endpoint.url.replace("127.0.0.1", "localhost")
        with pytest.raises(TokenRefused, match="not trusted"):
            fetch(endpoint, trusting(ca_location=str(certificates / "ca.pem")))
        for authority in (
            {"ca_location": "/none"},
            {"ca_pem": "geheim"},
            {"ca_location": str(certificates / "key.pem")},
        ):
            with pytest.raises(OptionError, match=r"https\.ca\.") as raised:
                fetch(endpoint, trusting(**authority))
            assert "geheim" not in str(raised.value)
    assert len(endpoint.requests) == asked == 3


def test_nothing_prints_the_secret():
    source = ClientCredentials("https://a/b", "id", Secret("geheim"))
    assert "geheim" not in f"{source!r} {source}"
