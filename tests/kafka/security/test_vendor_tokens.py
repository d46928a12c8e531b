"""Tokens of vendors' identity services: the requests to them, and how the client reads their answers."""

import base64
import json
import sys
import time
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
from fake_broker import FakeKafka, serve
from token_server import an_endpoint, granted

from kafkasource import options
from kafkasource.errors import OptionError, TokenNotAvailable, TokenRefused
from kafkasource.kafka.security.config import SecurityConfig
from kafkasource.kafka.security.endpoint import HttpClient, HttpLimits
from kafkasource.kafka.security.sasl.config import SaslOptions
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tokens.aws import AwsToken, region_of
from kafkasource.kafka.security.tokens.azure import AzureToken
from kafkasource.kafka.security.tokens.file import TokenFile
from kafkasource.kafka.security.tokens.google import GoogleToken
from kafkasource.kafka.security.tokens.grants import ClientCredentials
from kafkasource.tools.cli import main

NOW = 1_700_000_000.0
HTTP = HttpClient(HttpLimits(retry_backoff_max_ms=1))
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="geheim";'
MSK = "b-1.mine.x1y2z3.c4.kafka.eu-central-1.amazonaws.com"


def source(host="h", **options):
    given = {name.replace("_", "."): text for name, text in options.items()}
    return SaslOptions.of(given, host).resolve(host).token_source


class Signer:
    """A fake of Amazon's package: three functions that return a token and its end, in ms since 1970."""

    calls: list = None
    now_s = NOW

    def __getattr__(self, name):
        def sign(*given):
            self.calls.append((name, *given))
            if given[0] == "broken":
                raise RuntimeError("geheim")
            return "abc_-", (self.now_s + 900) * 1000

        return sign


@pytest.fixture
def signer(monkeypatch):
    monkeypatch.setattr(Signer, "calls", [])
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", SimpleNamespace(MSKAuthTokenProvider=Signer()))
    return Signer


def test_amazons_signer_is_asked_for_the_region_of_the_host(signer):
    token = source(MSK, auth="aws").fetch(HTTP, NOW)
    assert (token.value, token.expires_at_s) == (Secret("abc_-"), NOW + 900)
    AwsToken("r", profile="p").fetch(HTTP, NOW)
    AwsToken("r", role_arn="arn", role_session="s").fetch(HTTP, NOW)
    assert signer.calls == [
        ("generate_auth_token", "eu-central-1"),
        ("generate_auth_token_from_profile", "r", "p"),
        ("generate_auth_token_from_role_arn", "r", "arn", "s"),
    ]
    with pytest.raises(TokenNotAvailable, match="RuntimeError") as raised:
        AwsToken("broken").fetch(HTTP, NOW)
    assert "geheim" not in str(raised.value)


def test_without_amazons_signer_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(OptionError, match=r"kafkasource\[aws\]"):
        AwsToken("r").fetch(HTTP, NOW)


def test_a_region_comes_from_the_host_or_the_environment(monkeypatch):
    assert region_of(MSK) == "eu-central-1"
    assert region_of("boot-x1.c2.kafka-serverless.us-east-1.amazonaws.com") == "us-east-1"
    assert region_of("localhost") is None
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(OptionError, match="AWS_REGION"):
        source(auth="aws")
    monkeypatch.setenv("AWS_REGION", "r")
    assert source(auth="aws") == AwsToken("r")


def test_jobs_with_amazons_java_classes_move_unchanged():
    options = 'awsProfileName="p" awsRoleArn="a" awsRoleSessionName="s"'
    jaas = f"software.amazon.msk.auth.iam.IAMLoginModule required {options};"
    handler = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
    given = {"sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": jaas, "sasl.client.callback.handler.class": handler}
    config = SaslOptions.of(given, MSK).resolve(MSK)
    assert (config.mechanism, config.token_source) == ("OAUTHBEARER", AwsToken("eu-central-1", "p", "a", "s"))
    handler = handler.replace("Client", "OAuthBearerLogin")
    for name in ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class"):
        oauth = {"sasl.mechanism": "OAUTHBEARER", name: handler}
        assert SaslOptions.of(oauth, MSK).resolve(MSK).token_source == AwsToken("eu-central-1")


def of_amazons_module(options):
    jaas = f"software.amazon.msk.auth.iam.IAMLoginModule required {options};"
    return SaslOptions.of({"sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": jaas}, MSK).resolve(MSK).token_source


def test_a_profile_goes_before_a_role_as_in_amazons_chain(signer):
    """MSKCredentialProvider of aws-msk-iam-auth adds the profile's provider to its chain, and then the role's."""
    of_amazons_module('awsProfileName="p" awsRoleArn="arn" awsRoleSessionName="s"').fetch(HTTP, NOW)
    assert signer.calls == [("generate_auth_token_from_profile", "eu-central-1", "p")]


@pytest.mark.parametrize(
    "name", ["awsRoleAccessKeyId", "awsRoleSecretAccessKey", "awsRoleSessionToken", "awsRoleExternalId"]
)
def test_what_amazons_signer_cannot_take_of_a_role_is_refused_by_name(name):
    with pytest.raises(OptionError, match=rf"{name}.*kafka\.sasl\.oauthbearer\.token\.function") as raised:
        of_amazons_module(f'awsRoleArn="arn" {name}="geheim"')
    assert "geheim" not in str(raised.value)


def test_the_region_that_is_asked_for_a_role_is_that_of_the_environment_or_an_error(monkeypatch):
    """Amazon's signer for Python (1.0.2) calls boto3.client("sts") without a region: boto3 reads AWS_DEFAULT_REGION."""
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    role = 'awsRoleArn="arn" awsStsRegion="us-east-1"'
    with pytest.raises(OptionError, match=r"awsStsRegion.*AWS_DEFAULT_REGION"):
        of_amazons_module(role)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert of_amazons_module(role) == AwsToken("eu-central-1", None, "arn")


# The four lines of Amazon's documentation of MSK.
AMAZONS_FOUR = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}


def test_a_query_takes_amazons_four_options_and_no_other_clients_handler():
    given = {f"kafka.{name}": text for name, text in AMAZONS_FOUR.items()}
    given |= {"kafka.bootstrap.servers": f"{MSK}:9098", "subscribe": "t"}
    sasl = SecurityConfig.from_options(options.parse(given, "source")).sasl
    assert sasl.resolve(MSK).token_source == AwsToken("eu-central-1")
    with pytest.raises(OptionError, match=r"kafka\.sasl\.client\.callback\.handler\.class"):
        options.parse({**given, "kafka.sasl.client.callback.handler.class": "com.acme.Handler"}, "source")


def test_a_command_takes_amazons_four_options_from_a_file(tmp_path, monkeypatch, capsys, signer):
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setattr(signer, "now_s", time.time())
    kafka = FakeKafka(topics={"t": 2})
    kafka.mechanisms = ["OAUTHBEARER"]
    asked = []

    def accept(request):
        asked.append(bytes(request.body["auth_bytes"]))
        return {"error_code": 0, "error_message": None, "auth_bytes": b"", "session_lifetime_ms": 0}

    monkeypatch.setattr(kafka, "_sasl_authenticate", accept)
    file = tmp_path / "client.properties"
    lines = AMAZONS_FOUR | {"security.protocol": "SASL_PLAINTEXT"}
    file.write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
    with serve(kafka) as (host, port):
        kafka.addresses = {1: (host, port)}
        assert main(["topics", "list", "-b", f"{host}:{port}", "--command-config", str(file)]) == 0
    assert "t" in capsys.readouterr().out
    assert b"auth=Bearer abc_-" in asked[0]


def test_azures_metadata_service_is_asked_for_the_namespace():
    assert source("ns.servicebus.windows.net", auth="azure") == AzureToken("https://ns.servicebus.windows.net")
    assert source(
        sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_metadata_authentication_type="azure_imds"
    ) == AzureToken("https://h")
    with an_endpoint((200, b'{"access_token":"abc","expires_in":"3599","expires_on":"1"}')) as endpoint:
        token = AzureToken("https://ns", "my id", url=endpoint.url).fetch(HTTP, NOW)
    (request,) = endpoint.requests
    assert (token.value, token.expires_at_s) == (Secret("abc"), NOW + 3599)
    assert request.method == "GET"
    assert request.headers["Metadata"] == "true"
    assert parse_qs(urlsplit(request.path).query) == {
        "api-version": ["2018-02-01"],
        "resource": ["https://ns"],
        "client_id": ["my id"],
    }


def test_googles_token_has_three_parts_of_which_the_last_is_the_access_token():
    assert source(auth="google") == GoogleToken()
    with an_endpoint((200, b"me@project.iam"), granted("ya29.abc", expires_in=600)) as endpoint:
        token = GoogleToken(endpoint.url).fetch(HTTP, NOW)
    header, claims, access = (base64.urlsafe_b64decode(part + "==") for part in token.value.reveal().split("."))
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    assert json.loads(claims) == {
        "exp": NOW + 600,
        "iat": NOW,
        "iss": "Google",
        "scope": "kafka",
        "sub": "me@project.iam",
    }
    assert access == b"ya29.abc"
    assert token.expires_at_s == NOW + 600
    assert [request.path for request in endpoint.requests] == ["/token/email", "/token/token"]
    assert all(request.headers["Metadata-Flavor"] == "Google" for request in endpoint.requests)
    with an_endpoint((200, b"<html>")) as endpoint, pytest.raises(TokenRefused):
        GoogleToken(endpoint.url).fetch(HTTP, NOW)


def test_a_vendors_token_can_be_replaced_by_any_other():
    url = {"sasl.oauthbearer.token.endpoint.url": "file:/t"}
    for vendor in ("aws", "azure", "google", "confluent"):
        given = {"auth": vendor, **url}
        assert SaslOptions.of(given, "h").resolve("h").token_source == TokenFile("/t")
    url = {"sasl.oauthbearer.token.endpoint.url": "https://login/t"}
    client = {"sasl.oauthbearer.client.id": "i", "sasl.oauthbearer.client.secret": "s"}
    entra = SaslOptions.of({"auth": "azure", **url, **client}, "ns.net").resolve("ns.net").token_source
    assert entra == ClientCredentials("https://login/t", "i", Secret("s"), "https://ns.net/.default")
    with pytest.raises(OptionError, match="token"):
        SaslOptions.of({"auth": "confluent"}, "h")
