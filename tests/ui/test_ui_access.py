"""Who may read the page's data: nobody without the token, no page of another origin, no name bound to this address."""

import urllib.request

import pytest

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
