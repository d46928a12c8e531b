"""Access to the page's data: only with the token, from its own origin, and by a known host name."""

import json
import ssl
import urllib.error
import urllib.request

import pytest
from certificate_maker import authority
from ui_process import TOKEN, serving

pytestmark = pytest.mark.broker

PATHS = ("/api/cluster", "/api/topics", "/api/topic", "/api/records", "/api/none")


@pytest.mark.parametrize("path", PATHS)
def test_data_needs_the_token(served, path):
    for wrong in (None, "s3cre", "s3crets", "\u00e9"):
        status, text = served.get(path, token=wrong)
        assert (status, "send the token" in text) == (401, True)


@pytest.mark.parametrize("path", ["/", "/ui.js", *PATHS])
def test_neither_another_name_nor_another_origin_reads(served, path):
    assert served.get(path, headers={"Host": "evil.example"})[0] == 421
    assert served.get(path, headers={"Origin": "http://evil.example"})[0] == 403


def test_the_page_runs_scripts_of_its_own_files_only(served):
    with urllib.request.urlopen(served.url + "/", timeout=60) as answer:
        policy = answer.headers["Content-Security-Policy"]
        page = answer.read().decode()
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert (rules["default-src"], rules["script-src"], rules["style-src"]) == ("'none'", "'self'", "'self'")
    assert rules["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in policy
    assert "<script>" not in page
    assert "style=" not in page


def test_it_changes_nothing(served):
    assert served.post("/api/topics", {})[0] == 405
    assert served.post("/api/topics", {}, token=None)[0] == 401


def test_without_a_token_in_its_address_the_page_asks_for_it(served, browser):
    browser.open(served.url + "/")
    browser.run("sessionStorage.clear()")
    browser.open(served.url + "/")
    assert "the server wants the token" in browser.text("header")
    assert browser.run("document.getElementById('ask').hidden") is False


def test_over_tls_the_page_is_read_by_clients_that_trust_its_certificate(kafka_broker, token_file, tmp_path):
    root = authority()
    issued = root.issue("ui", ("localhost",), ("127.0.0.1",))
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    certificate.write_text(issued.pem)
    key.write_text(issued.key_pem())
    files = ("--certificate", str(certificate), "--key", str(key))
    with serving(kafka_broker.bootstrap_servers, token_file, *files) as served:
        assert served.url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cadata=root.pem)
        trusting.verify_flags &= ~ssl.VERIFY_X509_STRICT  # on from Python 3.13; our CA names no key usage
        asked = urllib.request.Request(f"{served.url}/api/cluster", headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(asked, timeout=60, context=trusting) as answer:
            assert json.load(answer)["brokers"]
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(asked, timeout=60)
        in_clear_text = urllib.request.Request(asked.full_url.replace("https:", "http:"), headers=dict(asked.headers))
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(in_clear_text, timeout=60)
        with refused.value as answer:
            assert answer.code == 400
