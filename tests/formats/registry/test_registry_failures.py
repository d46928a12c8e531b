"""A registry that is away, slow, or refuses: asked again where that helps, with bounds, and no secret shown."""

import pickle
import threading
import tracemalloc

import pytest
from certificate_maker import authority
from fake_registry import Fault, a_registry
from registry_clients import Clock, a_client
from tls_peers import server_context
from token_server import an_endpoint, granted

from kafkasource import metrics
from kafkasource.errors import (
    OptionError,
    RegistryAccessRefused,
    RegistryError,
    RegistryUnavailable,
    UnknownSchemaId,
)
from kafkasource.formats.registry import RegistryClient, RegistryOptions

LONG = '"long"'


@pytest.fixture
def registry():
    with a_registry() as found:
        found.add("t-value", LONG)
        yield found


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_become_better_is_asked_again(registry, status):
    registry.faults = [Fault(status), Fault(status, b"<html>")]
    clock = Clock()
    assert a_client(registry.url, clock).schema(1).text == LONG
    assert clock.slept == pytest.approx([0.1, 0.2])


def test_each_request_is_counted_by_what_came_of_it(registry):
    def counted():
        found = metrics.process_counts().snapshot().counters
        name = "kafkasource_registry_requests_total"
        return [found.get((name, (outcome,)), 0) for outcome in ("answered", "refused", "failed")]

    before = counted()
    registry.faults = [Fault(503), Fault(429)]
    client = a_client(registry.url, Clock())
    assert client.schema(1).text == LONG
    assert client.schema(1).text == LONG  # known: no request
    with pytest.raises(UnknownSchemaId):
        client.schema(99)
    assert [now - then for now, then in zip(counted(), before, strict=True)] == [1, 1, 2]


def test_the_registry_says_how_long_to_wait(registry):
    registry.faults = [Fault(429, headers={"Retry-After": "7"}), Fault(503, headers={"Retry-After": "Wed, 21 Oct"})]
    clock = Clock()
    a_client(registry.url, clock).schema(1)
    assert clock.slept == pytest.approx([7, 0.2])


def test_a_registry_that_is_away_for_a_minute_is_waited_for(registry):
    clock = Clock()
    registry.before = lambda request: setattr(registry, "always", Fault(503) if clock.now_s < 60 else None)
    registry.always = Fault(503)
    assert a_client(registry.url, clock).schema(1).text == LONG
    assert 60 <= clock.now_s < 80
    assert len(registry.requests) < 20


def test_attempts_end_in_time(registry):
    registry.always, clock = Fault(503, headers={"Retry-After": "3600"}), Clock()
    with pytest.raises(RegistryUnavailable) as raised:
        a_client(registry.url, clock, retry_timeout_ms="5000").schema(1)
    assert clock.now_s == 5
    assert raised.value.retriable
    for part in ("schema id 1", registry.url, "503 Service Unavailable", "schemaRegistry.retry.timeout.ms"):
        assert part in str(raised.value)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (str(copy), copy.url) == (str(raised.value), registry.url)


def test_a_registry_that_is_not_there_is_named():
    with a_registry() as registry:
        pass
    with pytest.raises(RegistryUnavailable, match=f"{registry.url}: Connection refused"):
        a_client(registry.url, retry_timeout_ms="0").schema(1)


def test_the_next_url_is_asked_where_one_does_not_answer(registry):
    with a_registry() as gone:
        pass
    with a_registry() as ill:
        ill.always = Fault(503)
        clock = Clock()
        client = a_client(f"{gone.url}, {ill.url},{registry.url}/", clock)
        assert client.schema(1).text == LONG
        assert client.subjects() == ["t-value"]
        assert len(ill.requests) == 1  # the address that answered is asked first
        assert clock.slept == []
        registry.always = Fault(500)
        with pytest.raises(RegistryUnavailable) as raised:
            client.schema(2)
        for part in (f"{gone.url}: Connection refused", f"{ill.url}: 503", f"{registry.url}: 500"):
            assert part in str(raised.value)


@pytest.mark.parametrize(("status", "advice"), [(401, "basic.auth.user.info"), (403, "lacks a right")])
def test_a_refusal_is_no_reason_to_ask_again(registry, status, advice):
    registry.always, clock = Fault(status), Clock()
    with pytest.raises(RegistryAccessRefused, match=advice) as raised:
        a_client(registry.url, clock, basic_auth_user_info="alice:geheim").schema(1)
    assert (len(registry.requests), clock.slept) == (1, [])
    assert "geheim" not in str(raised.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_credentials_follow_no_redirect(registry, status):
    with a_registry() as other:
        registry.always = Fault(status, headers={"Location": f"{other.url}/schemas/ids/1"})
        with pytest.raises(RegistryError, match="redirects are not followed"):
            a_client(registry.url, basic_auth_user_info="alice:geheim").schema(1)
        assert (len(registry.requests), other.requests) == (1, [])


def test_a_cut_answer_is_asked_for_again(registry):
    registry.faults = [Fault(200, b'{"schema":"', {"Content-Length": "50"})]
    clock = Clock()
    assert a_client(registry.url, clock).schema(1).text == LONG
    assert len(clock.slept) == 1


def test_a_byte_now_and_then_keeps_nobody(registry):
    stop = threading.Event()

    def drip(stream, body):
        while not stop.wait(0.01):
            stream.write(b"x")
            stream.flush()

    registry.always = Fault(200, write=drip)
    options = {"url": registry.url, "http.read.timeout.ms": "200", "retry.timeout.ms": "0"}
    with pytest.raises(RegistryUnavailable, match="TimeoutError"):
        RegistryClient(RegistryOptions.of(options)).schema(1)
    stop.set()


def test_a_huge_answer_is_cut_off(registry):
    def flood(stream, body):
        for _ in range(1000):
            stream.write(bytes(1 << 20))

    registry.always = Fault(200, write=flood)
    tracemalloc.start()
    with pytest.raises(RegistryError, match=str(16 << 20)):
        a_client(registry.url).schema(1)
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()


def test_basic_and_bearer_are_sent(registry):
    registry.user = "Basic YWxpY2U6Z2U6aGVpbQ=="  # RFC 7617: only the first colon divides
    assert a_client(registry.url, basic_auth_user_info="alice:ge:heim").schema(1).text == LONG
    registry.user = "Bearer geheim"
    client = a_client(registry.url, bearer_auth_token="geheim", bearer_auth_logical_cluster="lsrc-1")
    assert client.schema(1).text == LONG
    assert {name.lower(): text for name, text in registry.requests[-1].headers.items()}["target-sr-cluster"] == "lsrc-1"


def test_a_password_that_changes_in_its_file_counts_at_the_next_question(registry, tmp_path):
    secrets = tmp_path / "secrets"
    secrets.write_text("login=alice:old")
    client = a_client(registry.url, basic_auth_user_info=f"${{file:{secrets}:login}}")
    registry.user = "Basic YWxpY2U6bmV3"
    with pytest.raises(RegistryAccessRefused):
        client.schema(1)
    secrets.write_text("login=alice:new")
    assert client.schema(1).text == LONG


@pytest.fixture(scope="module")
def root():
    return authority()


@pytest.fixture(scope="module")
def pem(root, tmp_path_factory):
    file = tmp_path_factory.mktemp("tls") / "ca.pem"
    file.write_text(root.pem)
    return str(file)


def test_a_token_of_the_issuer_is_kept_and_renewed_where_the_registry_refuses_it(registry, root, pem):
    server = server_context(root.issue("issuer", ips=("127.0.0.1",)))
    with an_endpoint(granted("one", expires_in=3600), granted("two", expires_in=3600), context=server) as issuer:
        client = a_client(
            registry.url,
            bearer_auth_issuer_endpoint_url=issuer.url,
            bearer_auth_client_id="id",
            bearer_auth_client_secret="geheim",
            bearer_auth_scope="registry",
            https_ca_location=pem,
        )
        registry.user = "Bearer one"
        client.schema(1)
        client.subjects()
        assert len(issuer.requests) == 1
        assert issuer.requests[0].form == {"grant_type": "client_credentials", "scope": "registry"}
        registry.user = "Bearer two"  # revoked before its time
        client.subjects()
        assert len(issuer.requests) == 2
        registry.user = "Bearer three"
        with pytest.raises(RegistryAccessRefused):
            client.subjects()
        issuer.answers = [(401, b'{"error":"invalid_client"}')]
        with pytest.raises(RegistryAccessRefused, match=r"schemaRegistry\.bearer\.auth") as raised:
            client.subjects()
        assert "sasl" not in str(raised.value)
        assert "geheim" not in str(raised.value)


def an_oauth_client(registry, issuer, pem):
    return a_client(
        registry.url,
        bearer_auth_issuer_endpoint_url=issuer.url,
        bearer_auth_client_id="id",
        bearer_auth_client_secret="geheim",
        https_ca_location=pem,
    )


def test_threads_whose_token_was_revoked_all_go_on_with_a_new_one(registry, root, pem):
    server = server_context(root.issue("issuer", ips=("127.0.0.1",)))
    with an_endpoint(granted("one", expires_in=3600), granted("two", expires_in=3600), context=server) as issuer:
        client = an_oauth_client(registry, issuer, pem)
        registry.user = "Bearer one"
        client.subjects()
        registry.user = "Bearer two"
        refused, errors = threading.Barrier(4), []

        def before(request):
            if request.headers["Authorization"] == "Bearer one":
                refused.wait(60)  # all four have sent the old token before one of them is answered

        def ask():
            try:
                client.subjects()
            except Exception as error:
                errors.append(error)

        registry.before = before
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for worker_thread in threads:
            worker_thread.join()
        assert errors == []
        assert len(issuer.requests) == 2


def test_a_token_that_no_header_can_hold_is_not_sent_and_not_shown(registry, root, pem):
    server = server_context(root.issue("issuer", ips=("127.0.0.1",)))
    with an_endpoint(granted("geh\r\neim"), granted("geh\u00fcim"), context=server) as issuer:
        client = an_oauth_client(registry, issuer, pem)
        for _ in range(2):
            with pytest.raises(RegistryAccessRefused, match="no header can hold") as raised:
                client.subjects()
            assert "geh" not in str(raised.value)
    assert registry.requests == []


def test_tls_by_the_names_of_the_brokers_options(root, pem, tmp_path):
    key = tmp_path / "client.pem"
    client = root.issue("client")
    key.write_text(client.key_pem() + client.chain_pem)
    # The server refuses a client after the handshake of TLS 1.3, and the end of the connection may hide the reason.
    server = server_context(root.issue("registry", ips=("127.0.0.1",)), clients_of=root, version="TLSv1.2")
    with a_registry(server) as registry:
        registry.add("t-value", LONG)
        mutual = {"ssl_truststore_location": pem, "ssl_keystore_location": str(key)}
        assert a_client(registry.url, **mutual).schema(1).text == LONG
        clock = Clock()
        with pytest.raises(RegistryAccessRefused, match=r"schemaRegistry\.ssl\.truststore\.location"):
            a_client(registry.url, clock, ssl_truststore_certificates=authority("Other").pem).schema(1)
        with pytest.raises(RegistryAccessRefused, match=r"schemaRegistry\.ssl\.keystore\.location"):
            a_client(registry.url, clock, ssl_ca_location=pem).schema(1)
        with pytest.raises(RegistryAccessRefused, match="not trusted"):
            a_client(registry.url.replace("127.0.0.1", "localhost"), clock, **mutual).schema(1)
        with pytest.raises(OptionError, match=r"'schemaRegistry\.ssl\.truststore\.location'"):
            a_client(registry.url, clock, ssl_truststore_location="/none.pem").schema(1)
        assert clock.slept == []
        assert len(registry.requests) == 1


def test_a_suite_of_tls_1_3_that_the_options_do_not_name_is_refused_before_anything_is_sent(root, pem):
    """Python offers all of them, so the client looks at what the server has chosen."""
    with a_registry(server_context(root.issue("registry", ips=("127.0.0.1",)), version="TLSv1.3")) as registry:
        chosen = {"ssl_truststore_location": pem, "ssl_cipher_suites": "TLS_AES_256_GCM_SHA384"}
        a_client(registry.url, **chosen).subjects()
        asked = len(registry.requests)
        with pytest.raises(RegistryAccessRefused, match=r"chose TLS_AES_256_GCM_SHA384.*'schemaRegistry\.ssl\.cipher"):
            a_client(registry.url, **{**chosen, "ssl_cipher_suites": "TLS_CHACHA20_POLY1305_SHA256"}).subjects()
        assert len(registry.requests) == asked


def test_plain_http_behind_an_https_url_is_told_at_once(registry):
    clock = Clock()
    with pytest.raises(RegistryError, match="does not speak TLS"):
        a_client(registry.url.replace("http:", "https:"), clock).schema(1)
    assert clock.slept == []
