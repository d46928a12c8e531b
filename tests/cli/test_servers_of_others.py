"""The commands against servers that speak Kafka's protocol and lack a part of it, or answer it in their own way."""

import json

import pytest
from fake_broker import FakeKafka, serving

from kafkasource.cli import main
from kafkasource.protocol.apis import DESCRIBE_CLUSTER, END_TXN, SASL_HANDSHAKE, TXN_OFFSET_COMMIT


@pytest.fixture
def kafka():
    with serving(FakeKafka(topics={"t": 2})) as kafka:
        yield kafka


@pytest.fixture
def command(kafka, capsys):
    def run(*words):
        code = main([*words, "-b", kafka.bootstrap_servers, "-X", "default.api.timeout.ms=10000"])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def doctor(command):
    def run(*words):
        """The findings about the cluster."""
        _, out, _ = command("doctor", "--json", *words)
        found = json.loads(out)
        return found[next(i for i, each in enumerate(found) if each["what"] in ("cluster", "bootstrap TCP")) :]

    return run


def test_a_listener_that_answers_sasl_handshake_and_wants_no_sasl_is_healthy(doctor, kafka):
    """As kfake and Tansu do."""
    found = doctor()
    assert kafka.asked(SASL_HANDSHAKE)
    assert {each["level"] for each in found} == {"ok"}, found
    assert "broker 1" in {each["what"] for each in found}


class WantsSasl(FakeKafka):
    """Closes the connection on each request of a client that has not logged in, as Apache's brokers do."""

    def _metadata(self, request):
        return None

    def _with_fault(self, request, correlation_id, fault):
        return super()._with_fault(request, correlation_id, fault) or [None]


def test_a_listener_that_wants_sasl_is_said_to(capsys):
    with serving(WantsSasl(topics={"t": 2})) as kafka:
        main(["doctor", "-b", kafka.bootstrap_servers])
    assert "the listener wants SASL" in capsys.readouterr().out


def test_doctor_names_what_exactly_once_lacks(doctor, kafka):
    for api in (DESCRIBE_CLUSTER, END_TXN, TXN_OFFSET_COMMIT):
        del kafka.versions[api.key]
    (found,) = [each for each in doctor("--exactly-once", "p") if each["what"] == "exactly once"]
    assert (found["level"], found["found"]) == ("FAILED", "the brokers do not offer TxnOffsetCommit, EndTxn")
