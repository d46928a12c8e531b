"""A token that a function of the user's gives: whatever it raises ends an attempt to log in, and never the client."""

from types import SimpleNamespace

import pytest
from fake_broker import AtOnce, FakeKafka, FakeNet

from kafkasource.errors import ConnectFailed, KafkaSourceError, OptionError
from kafkasource.kafka.network import background
from kafkasource.kafka.protocol.apis import METADATA
from kafkasource.kafka.security.config import SecurityConfig
from kafkasource.kafka.security.tokens.function import FunctionToken

ASK = {"topics": [], "allow_auto_topic_creation": False}


@pytest.fixture
def client(monkeypatch):
    monkeypatch.setattr(background, "threading", SimpleNamespace(Thread=AtOnce))
    kafka = FakeKafka()
    kafka.mechanisms = ["OAUTHBEARER"]
    options = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.function": "tokens_of_this_test:get",
    }
    return FakeNet(kafka).client(security=SecurityConfig.of(options))


def error_of(client) -> KafkaSourceError:
    asked = client.send(-1, METADATA, ASK)
    while not asked.done:
        client.poll(1000)
    return asked.error


def test_a_module_that_cannot_be_imported_names_the_option(client, monkeypatch, tmp_path):
    (tmp_path / "tokens_of_this_test.py").write_text("import os; URL = os.environ['NO_SUCH_VARIABLE']")
    monkeypatch.syspath_prepend(tmp_path)
    error = error_of(client)
    assert isinstance(error, OptionError)
    assert "kafka.sasl.oauthbearer.token.function" in str(error)


def test_an_error_that_nobody_expected_ends_the_attempt_and_says_where_it_came_from(client, monkeypatch):
    def fetch(self, http, now_s):
        raise ZeroDivisionError("geheim")

    monkeypatch.setattr(FunctionToken, "fetch", fetch)
    for _ in range(2):
        error = error_of(client)
        assert isinstance(error, ConnectFailed)
        assert error.retriable
        assert f"SASL failed: ZeroDivisionError, raised by fetch ({__file__}:" in str(error)
        assert "geheim" not in str(error)


def test_a_function_that_hangs_is_named_and_not_only_the_time_that_is_over(client, monkeypatch):
    never = SimpleNamespace(start=lambda: None)
    monkeypatch.setattr(background, "threading", SimpleNamespace(Thread=lambda **about: never))
    error = error_of(client)
    assert isinstance(error, ConnectFailed)
    assert "tokens_of_this_test:get" in str(error)
    assert "socket.connection.setup.timeout.ms" in str(error)
