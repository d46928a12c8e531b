"""The metrics server with a certificate: clients read it over TLS, and it follows its files when they change."""

import json
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from certificate_maker import authority

from kafkasource.errors import OptionError
from kafkasource.metrics.snapshot import Snapshot
from kafkasource.tools.monitor.endpoint import MetricsServer
from kafkasource.tools.web.serving import Listening

NOTHING_COUNTED = Snapshot(process="")  # not this process's own: other tests count in it, too


@pytest.fixture(scope="module")
def root():
    return authority()


@pytest.fixture
def files(root, tmp_path):
    """`files("name")` writes a certificate of that subject and its key, and returns both paths."""

    def write(name):
        issued = root.issue(name, ("localhost",), ("127.0.0.1",))
        (tmp_path / "server.key").write_text(issued.key_pem())
        (tmp_path / "server.pem").write_text(issued.pem)
        return tmp_path / "server.pem", tmp_path / "server.key"

    return write


@pytest.fixture
def serve(files):
    opened = []

    def serve(**how):
        certificate, key = files("first")
        at = Listening(certificate=certificate, key=key, **how)
        opened.append(MetricsServer(at, lambda: NOTHING_COUNTED))
        return opened[-1]

    yield serve
    for one in opened:
        one.close()


def get(root, url, token=None):
    context = ssl.create_default_context(cadata=root.pem)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # on from Python 3.13; our CA names no key usage
    request = urllib.request.Request(
        url + "/api/metrics", headers={"Authorization": f"Bearer {token}"} if token else {}
    )
    with urllib.request.urlopen(request, timeout=60, context=context) as answer:
        return json.load(answer)


def subject(endpoint):
    """The subject of the certificate that the server presents now."""
    pem = ssl.get_server_certificate(("127.0.0.1", endpoint.port), timeout=60)
    from cryptography import x509

    return x509.load_pem_x509_certificate(pem.encode()).subject.rfc4514_string()


def test_metrics_are_read_over_tls_with_the_token_and_not_without(serve, root):
    served = serve(token="s3cret")
    assert served.url.startswith("https://127.0.0.1:")
    assert isinstance(get(root, served.url, "s3cret"), list)
    for token in (None, "wrong"):
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            get(root, served.url, token)
        refused.value.close()


def test_a_request_in_plain_text_learns_that_the_port_speaks_tls(serve, root):
    served = serve(token="s3cret")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(served.url.replace("https:", "http:") + "/metrics", timeout=60)
    assert refused.value.code == 400
    assert b"use https" in refused.value.read()
    refused.value.close()
    assert isinstance(get(root, served.url, "s3cret"), list)


def test_renewed_files_count_from_the_next_connection_on_and_damaged_ones_never(serve, files, root, caplog):
    served = serve()
    assert subject(served) == "CN=first"
    files("second")
    assert subject(served) == "CN=second"
    certificate, _ = files("third")
    certificate.write_text("half a certificate")
    assert subject(served) == "CN=second"
    assert "goes on with its certificate of before" in caplog.text
    files("fourth")
    assert subject(served) == "CN=fourth"


def test_files_that_cannot_be_used_are_said_at_once(files, root, tmp_path):
    certificate, key = files("first")
    other = tmp_path / "other.key"
    other.write_text(root.issue("other").key_pem("secret"))
    for wrong in ((certificate, other), (tmp_path / "none.pem", key), (None, key)):
        with pytest.raises(OptionError, match="metrics server"):
            MetricsServer(Listening(certificate=wrong[0], key=wrong[1]), lambda: NOTHING_COUNTED)


def test_the_command_serves_with_the_files_of_its_arguments(files, root, tmp_path):
    certificate, key = files("first")
    both = tmp_path / "both.pem"
    both.write_text(certificate.read_text() + key.read_text())
    command = [sys.executable, "-m", "kafkasource", "metrics", str(tmp_path / "metrics"), "--port", "0"]
    with subprocess.Popen([*command, "--certificate", str(both)], stderr=subprocess.PIPE, text=True) as serving:
        try:
            assert isinstance(get(root, serving.stderr.readline().strip().removesuffix("/metrics")), list)
        finally:
            serving.terminate()


def test_the_environment_may_name_the_files(files, root, monkeypatch):
    certificate, key = files("first")
    monkeypatch.setenv("KAFKASOURCE_METRICS_CERTIFICATE", str(certificate))
    monkeypatch.setenv("KAFKASOURCE_METRICS_KEY", str(key))
    served = MetricsServer(Listening(), lambda: NOTHING_COUNTED)
    try:
        assert isinstance(get(root, served.url), list)
    finally:
        served.close()
