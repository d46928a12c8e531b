"""Access to the metrics: a foreign page in the user's browser gets none, and with a token, a client needs it."""

import contextlib
import http.client
import json
import logging
import socket
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest
from spark_progress import progress

from kafkasource.metrics.counting import ProcessCounts
from kafkasource.tools.monitor.endpoint import MetricsServer
from kafkasource.tools.monitor.queries import Queries
from kafkasource.tools.web import handler, server
from kafkasource.tools.web.access import Access, host_of
from kafkasource.tools.web.serving import Listening

PATHS = ("/", "/metrics", "/api/queries", "/api/queries/query-1", "/api/metrics", "/none")


@pytest.fixture
def serve():
    """`serve(host="127.0.0.1", **how)`: one query's metrics."""
    opened = []

    def serve(host="127.0.0.1", **how):
        queries = Queries("prod")
        queries.progressed(progress(0, 1_700_000_000.0, {0: 1}, {0: 9}))
        counts = ProcessCounts(publish=lambda _: None)
        opened.append(MetricsServer(Listening(host, **how), counts.snapshot, queries))
        return opened[-1]

    yield serve
    for one in opened:
        one.close()


def status(endpoint, path="/api/queries", at="127.0.0.1", **headers):
    """Send exactly these headers. Returns the status and the text of the answer."""
    connection = http.client.HTTPConnection(at, endpoint.port, timeout=60)
    connection.putrequest("GET", path, skip_host=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    with contextlib.closing(connection), connection.getresponse() as answer:
        return answer.status, answer.read().decode()


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:9404",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "127.0.0.1%.evil.example",
        "[::1%.evil]",
        "",
    ],
)
def test_a_name_that_was_bound_to_this_address_elsewhere_reads_nothing(serve, host):
    """DNS rebinding: the browser takes evil.example for this machine, and says so in Host."""
    served = serve()
    for path in PATHS:
        code, text = status(served, path, Host=host)
        assert code == 421, path
        assert "allowed_hosts" in text
        assert "query-1" not in text


def test_a_client_that_sends_a_byte_now_and_then_is_cut_off_at_the_requests_deadline(serve, monkeypatch):
    monkeypatch.setattr(handler, "_REQUEST_S", 0.2)
    with socket.create_connection(("127.0.0.1", serve(token="s3cret").port), timeout=60) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nX-Endless: ")
        closed = False
        while not closed:
            with contextlib.suppress(TimeoutError):
                slow.settimeout(0.01)
                closed = slow.recv(1) == b""
            if not closed:
                with contextlib.suppress(OSError):
                    slow.sendall(b"x")


def test_connections_above_the_most_are_told_so_and_closed_and_the_others_are_served(serve):
    served = serve()
    with contextlib.ExitStack() as opened:
        waiting = [
            opened.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60))
            for _ in range(server.MOST_CONNECTIONS)
        ]
        assert threads_of(served) <= server.MOST_CONNECTIONS
        answers = []
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", served.port), timeout=60) as more:
                answers.append(more.makefile("rb").read())
        assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in answers)
        waiting[0].sendall(b"GET /api/queries HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert waiting[0].makefile("rb").read().startswith(b"HTTP/1.0 200 ")
        waiting[1].close()
        while status_of_one(served) == 503:  # until the server has seen that they are gone
            pass
        assert status_of_one(served) == 200


def threads_of(served):
    return sum(
        thread.name.startswith("Thread-") and "process_request" in thread.name for thread in threading.enumerate()
    )


def status_of_one(served):
    try:
        return status(served, Host="localhost")[0]
    except (ConnectionError, http.client.HTTPException):  # closed before it took the request
        return 503


def test_a_client_that_goes_away_leaves_nothing_in_the_drivers_log(serve, caplog):
    """Neither a traceback nor the control characters of its path."""
    caplog.set_level(logging.DEBUG)
    served = serve(token="s3cret")
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", served.port)) as hasty:
            hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing resets
            hasty.sendall(b"GET /\x1b]0;owned\x07 HTTP/1.1\r\nHost: evil\r\n\r\n")
    served.close()
    while threads_of(served):
        pass
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []
    assert "\x1b" not in caplog.text


@pytest.mark.parametrize("host", ["::1", "::"])
def test_it_listens_on_ipv6(serve, host):
    served = serve(host)
    assert served.url == f"http://[::1]:{served.port}"
    assert status(served, at="::1", Host=f"[::1]:{served.port}")[0] == 200


def test_a_target_that_is_no_url_is_refused_and_the_server_goes_on(serve):
    served = serve()
    assert status(served, "http://[/", Host="127.0.0.1")[0] == 400
    assert status(served, "http://127.0.0.1/api/queries", Host="127.0.0.1")[0] == 200  # as proxies ask


def test_a_request_without_a_host_reads_nothing(serve):
    assert status(serve())[0] == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:80", "[::1]:9404", "127.8.8.8"])
def test_loopback_names_are_known_whatever_the_port(serve, host):
    assert status(serve(), Host=host)[0] == 200


def test_the_machines_own_names_are_known_where_it_listens_for_others(serve):
    here, everywhere = serve(), serve("0.0.0.0")
    name = socket.gethostname()
    assert status(here, Host=name)[0] == 421
    assert status(everywhere, Host=f"{name}:9404")[0] == 200
    assert status(everywhere, Host="0.0.0.0")[0] == 421
    assert status(everywhere, Host="10.98.76.54")[0] == 421  # not the address that the request came to
    assert status(everywhere, Host="evil.example")[0] == 421
    own = socket.gethostbyname(name)
    if not own.startswith("127."):
        assert status(everywhere, at=own, Host=f"{own}:9404")[0] == 200


def test_names_are_added_by_argument_and_by_the_environment(serve, monkeypatch):
    monkeypatch.setenv("KAFKASOURCE_METRICS_HOSTS", "driver.example, other")
    served = serve(allowed_hosts=["Metrics.Example:9404"])
    for host in ("metrics.example", "driver.example:1", "other"):
        assert status(served, Host=host)[0] == 200
    assert status(served, Host="example")[0] == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "https://localhost:1", "http://localhost.evil", "null"])
def test_another_origins_page_reads_nothing(serve, origin):
    assert status(serve(), Host="localhost:9404", Origin=origin)[0] == 403


def test_the_pages_own_origin_reads(serve):
    assert status(serve(), Host="localhost:9404", Origin="http://localhost:9404")[0] == 200


def test_with_a_token_only_who_has_it_reads(serve):
    served = serve(token="s3cret")
    for path in PATHS[1:]:
        assert status(served, path, Host="localhost")[0] == 401
        for wrong in ("Bearer s3cre", "Bearer s3cret2", "Bearer", "Basic s3cret", "s3cret", "Bearer \xe9"):
            assert status(served, path, Host="localhost", Authorization=wrong)[0] == 401
    assert status(served, "/", Host="localhost")[0] == 200  # it holds no data
    for right in ("Bearer s3cret", "bearer s3cret"):
        assert "query-1" in status(served, Host="localhost", Authorization=right)[1]
    assert status(served, Host="evil.example", Authorization="Bearer s3cret")[0] == 421


def test_a_refused_request_says_which_scheme_it_needs(serve):
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        urllib.request.urlopen(serve(token="s3cret").url + "/metrics", timeout=60)
    with refused.value as answer:
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("token", ["", " ", "a\nb", "\xe9", " a"])
def test_a_token_that_nobody_could_send_is_refused(serve, token):
    with pytest.raises(ValueError, match="token"):
        serve(token=token)


def test_the_environment_may_have_the_token(serve, monkeypatch):
    monkeypatch.setenv("KAFKASOURCE_METRICS_TOKEN", "s3cret")
    assert status(serve(), Host="localhost")[0] == 401


def test_no_token_is_shown_in_a_repr():
    assert "s3cret" not in repr(Access.of(MetricsServer.kind, [], "s3cret"))


def test_hosts_without_their_ports():
    texts = ("a:1", "A.", "[::1]:9404", "[fe80::1]", "::1", "10.0.0.1:80", "")
    assert [host_of(text) for text in texts] == ["a", "a", "::1", "fe80::1", "::1", "10.0.0.1", ""]


def test_the_page_takes_the_token_from_its_address(serve, browse):
    served = serve(token="s3cret")
    page = browse(served.url + "/#token=s3cret")
    assert page.tiles["query-1", "lag"] == "8"
    assert "s3cret" not in page.html
    without = browse(served.url + "/#token=wrong")
    assert not without.tiles
    assert "the driver wants a token" in without.html


def test_the_command_asks_for_the_token_of_a_file(tmp_path):
    (tmp_path / "token").write_text("s3cret\n")
    command = [sys.executable, "-m", "kafkasource", "metrics", str(tmp_path / "metrics"), "--port", "0"]
    command += ["--token-file", str(tmp_path / "token"), "--allow-host", "metrics.example"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as serving:
        try:
            url = serving.stderr.readline().strip().replace("/metrics", "/api/metrics")
            asked = urllib.request.Request(url, headers={"Host": "metrics.example"})
            with pytest.raises(urllib.error.HTTPError, match="401") as refused:
                urllib.request.urlopen(asked, timeout=60)
            refused.value.close()
            asked.add_header("Authorization", "Bearer s3cret")
            with urllib.request.urlopen(asked, timeout=60) as answer:
                assert json.load(answer) == []
        finally:
            serving.terminate()
