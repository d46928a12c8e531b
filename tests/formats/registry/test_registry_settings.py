"""The options of a registry: checked on the driver, and no secret is shown."""

import pickle

import pytest

from kafkasource.errors import OptionError
from kafkasource.formats.registry import RegistryOptions
from kafkasource.kafka.security.secrets import References
from kafkasource.options.registry import REGISTRY_OPTIONS, registry_options

URL = {"url": "https://registry:8081"}
ISSUER = {"bearer.auth.issuer.endpoint.url": "https://login/token"}
CLIENT = {"bearer.auth.client.id": "id", "bearer.auth.client.secret": "geheim"}


def test_urls_are_one_registry():
    found = RegistryOptions.of({"url": " https://a:1/x/ , http://b,"})
    assert list(map(str, found.addresses)) == ["https://a:1/x", "http://b:80"]
    assert found.url == "https://a:1/x,http://b:80"


@pytest.mark.parametrize(
    "url",
    [
        "",
        " , ",
        "registry:8081",
        "ftp://a",
        "https://alice:geheim@a",
        "https://a?key=geheim",
        "https://a/b\r\nX: y",
        "http://a..b",
        "http://a/ü",
    ],
)
def test_what_is_no_url_of_a_registry_is_refused(url):
    with pytest.raises(OptionError, match=r"'schemaRegistry\.url'") as raised:
        RegistryOptions.of({"url": url})
    assert "geheim" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"basic.auth.user.info": "geheim"}, "expected user:password"),
        ({"basic.auth.user.info": "a:geheim", "bearer.auth.token": "geheim"}, "exclude each other"),
        ({"bearer.auth.token": "geheim", **ISSUER, **CLIENT}, "exclude each other"),
        ({"bearer.auth.token": "geheim\r\nX: y"}, "token of ASCII"),
        (ISSUER, r"needs 'schemaRegistry\.bearer\.auth\.client\.id'"),
        (CLIENT, r"needs 'schemaRegistry\.bearer\.auth\.issuer\.endpoint\.url'"),
        ({**CLIENT, "bearer.auth.issuer.endpoint.url": "http://login/token"}, "expected a URL https"),
        ({"bearer.auth.logical.cluster": "lsrc-1"}, r"needs 'schemaRegistry\.bearer\.auth\.token'"),
        ({"retry.timeout.ms": "soon"}, "whole number"),
        ({"http.read.timeout.ms": "0"}, "whole number"),
        ({"basic.auth.user.inf": "a:geheim"}, r"did you mean 'schemaRegistry\.basic\.auth\.user\.info'"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "Leave it out"),
        ({"ssl.truststore.password": "geheim"}, r"'schemaRegistry\.ssl\.truststore\.password'.* needs"),
        ({"ssl.keystore.key": "geheim"}, r"schemaRegistry\.ssl\.keystore\.key"),
        ({"ssl.enabled.protocols": "TLSv1"}, r"schemaRegistry\.ssl\.enabled\.protocols"),
        ({"ssl.keystore.location": "-----BEGIN geheim"}, r"'schemaRegistry\.ssl\.key\.pem'"),
        ({"https.ca.location": "-----BEGIN geheim", **ISSUER, **CLIENT}, r"'schemaRegistry\.https\.ca\.location'"),
        ({"ssl.ca.location": "a.pem", "ssl.truststore.location": "b.pem"}, "given twice"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_on_the_driver(options, complaint):
    with pytest.raises(OptionError, match=complaint) as raised:
        RegistryOptions.of({**URL, **options})
    assert "geheim" not in str(raised.value)
    assert "'kafka." not in str(raised.value)


def test_no_secret_is_shown_and_references_travel_as_they_are(monkeypatch):
    options = RegistryOptions.of({**URL, "BASIC.auth.user.info": "alice:${env:REGISTRY_PASSWORD}"})
    assert b"REGISTRY_PASSWORD" in pickle.dumps(options)
    with pytest.raises(OptionError, match=r"option 'schemaRegistry\.basic\.auth\.user\.info'"):
        options.resolve()
    monkeypatch.setenv("REGISTRY_PASSWORD", "geheim")
    copy = pickle.loads(pickle.dumps(options))
    assert copy == options
    settings = copy.resolve()
    assert settings.basic.reveal() == "Basic YWxpY2U6Z2VoZWlt"
    for each in (options, settings):
        assert "geheim" not in f"{each!r} {each}"
        assert "R2Vo" not in repr(each)
    assert "YWxpY2U6" not in repr(settings)


def test_a_reference_must_be_allowed(monkeypatch):
    monkeypatch.setenv("OTHER", "a:b")
    only = References.of({"config.providers.env.param.allowlist.pattern": "REGISTRY_.*"})
    options = RegistryOptions.of({**URL, "basic.auth.user.info": "${env:OTHER}"}, only)
    with pytest.raises(OptionError, match="does not allow this variable"):
        options.resolve()


def test_rows_of_the_table_become_the_registrys_options():
    by_name = {row.name: row for row in REGISTRY_OPTIONS}
    written = {"schemaRegistry.url": "https://r", "schemaRegistry.basic.auth.user.info": "alice:geheim"}
    parsed = {name: by_name[name].parse(written[name]) if name in written else None for name in by_name}
    assert "geheim" not in repr(parsed)
    given = registry_options(parsed)
    assert given == {"url": "https://r", "basic.auth.user.info": "alice:geheim"}
    assert RegistryOptions.of(given).url == "https://r:443"
    assert registry_options({}) == {}
