"""Assertions are signed as RFC 7515 says, and go to the endpoint as RFC 7523 says."""

import base64
import json

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from token_server import an_endpoint, granted

from kafkasource.errors import OptionError, TokenNotAvailable
from kafkasource.kafka.security.endpoint import HttpClient, HttpLimits
from kafkasource.kafka.security.sasl.config import SaslOptions
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tokens.assertion import AssertionFile, SignedAssertion
from kafkasource.kafka.security.tokens.grants import AssertedClient, JwtBearer

NOW = 1_700_000_000.5
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
HTTP = HttpClient(HttpLimits(allow_http=True))


def pem_of(key, passphrase=None):
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


@pytest.fixture(scope="module")
def rsa_key():
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def ec_key():
    return ec.generate_private_key(ec.SECP256R1())


def parts_of(text):
    header, payload, signature = (base64.urlsafe_b64decode(part + "==") for part in text.split("."))
    return json.loads(header), json.loads(payload), signature, text.rpartition(".")[0].encode()


def test_an_assertion_is_signed_and_says_what_java_puts_in(rsa_key, tmp_path):
    (tmp_path / "key.pem").write_text(pem_of(rsa_key, b"geheim"))
    claims = (("aud", "https://idp"), ("iss", "client"), ("sub", "client"))
    made = SignedAssertion(str(tmp_path / "key.pem"), None, Secret("geheim"), claims=claims, with_id=True)
    header, payload, signature, signed = parts_of(made.text(NOW))
    rsa_key.public_key().verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
    assert header == {"alg": "RS256", "typ": "JWT"}
    assert len(payload.pop("jti")) == 36
    times = {"iat": 1_700_000_000, "exp": 1_700_000_300, "nbf": 1_699_999_940}
    assert payload == {**times, "aud": "https://idp", "iss": "client", "sub": "client"}


def test_es256_is_the_two_numbers_of_rfc_7518(ec_key):
    _, _, signature, signed = parts_of(SignedAssertion(None, Secret(pem_of(ec_key)), algorithm="ES256").text(NOW))
    assert len(signature) == 64
    r, s = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
    ec_key.public_key().verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))


def test_a_template_adds_and_options_go_before_it(ec_key, tmp_path):
    template = {"header": {"kid": "k1"}, "payload": {"aud": "other", "role": "reader"}}
    (tmp_path / "template.json").write_text(json.dumps(template))
    made = SignedAssertion(
        None, Secret(pem_of(ec_key)), None, "ES256", str(tmp_path / "template.json"), (("aud", "mine"),)
    )
    header, payload, _, _ = parts_of(made.text(NOW))
    assert header["kid"] == "k1"
    assert (payload["aud"], payload["role"]) == ("mine", "reader")


def test_what_is_no_key_is_refused_unseen(rsa_key, ec_key, tmp_path):
    (tmp_path / "bad").write_text("[]")
    for made in (
        SignedAssertion(None, Secret("geheim")),
        SignedAssertion(None, Secret(pem_of(rsa_key, b"geheim"))),
        SignedAssertion(None, Secret(pem_of(rsa_key, b"geheim")), Secret("wrong geheim")),
        SignedAssertion(None, Secret(pem_of(rsa_key)), algorithm="ES256"),
        SignedAssertion(None, Secret(pem_of(ec_key))),
        SignedAssertion(None, Secret(pem_of(rsa_key)), template_file=str(tmp_path / "bad")),
    ):
        with pytest.raises(OptionError) as raised:
            made.text(NOW)
        assert "geheim" not in f"{raised.value}{made!r}"
        assert "PRIVATE" not in f"{raised.value}{made!r}"
    with pytest.raises(TokenNotAvailable):
        SignedAssertion(str(tmp_path / "none"), None).text(NOW)


def test_the_endpoint_gets_the_grant_or_the_clients_proof(tmp_path):
    (tmp_path / "assertion").write_text("a.b.c\n")
    file = AssertionFile(str(tmp_path / "assertion"))
    with an_endpoint(granted("opaque", expires_in=60)) as endpoint:
        assert JwtBearer(endpoint.url, file, "s").fetch(HTTP, NOW).expires_at_s == NOW + 60
        AssertedClient(endpoint.url, file, "me").fetch(HTTP, NOW)
    bearer, client = (request.form for request in endpoint.requests)
    assert bearer == {"grant_type": GRANT, "assertion": "a.b.c", "scope": "s"}
    assert client == {
        "grant_type": "client_credentials",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": "a.b.c",
        "client_id": "me",
    }
    assert not any("Authorization" in request.headers for request in endpoint.requests)


def test_options_say_which_of_the_two_it_is():
    prefix = "sasl.oauthbearer.assertion"
    given = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "https://idp/t"}

    def source(**more):
        options = {f"{prefix}.{name.replace('_', '.')}": text for name, text in more.items()}
        return SaslOptions.of(given | options).resolve("h").token_source

    assert source(file="/a") == AssertedClient("https://idp/t", AssertionFile("/a"))
    java = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
    for way in ({"sasl.oauthbearer.jwt.retriever.class": java}, {"sasl.oauthbearer.grant.type": GRANT}):
        given |= way
        assert source(file="/a") == JwtBearer("https://idp/t", AssertionFile("/a"))
        signed = source(private_key_file="/k", algorithm="es256", claim_iss="me", claim_exp_seconds="60")
        expected = SignedAssertion("/k", None, None, "ES256", None, (("iss", "me"),), 60)
        assert signed == JwtBearer("https://idp/t", expected)
        with pytest.raises(OptionError, match="assertion"):
            source()
        with pytest.raises(OptionError, match="RS256 or ES256"):
            source(private_key_file="/k", algorithm="none")
        for name in way:
            del given[name]
    for name in ("sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.grant.type", "sasl.oauthbearer.method"):
        with pytest.raises(OptionError, match=name):
            SaslOptions.of(given | {name: "com.acme.Mine"})
