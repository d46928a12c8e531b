"""The commands against servers that speak Kafka's protocol and lack a part of it, or answer it in their own way."""

import json

import pytest
from fake_broker import Answer, FakeKafka, serving

from kafkasource.kafka.protocol.apis import (
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    END_TXN,
    SASL_HANDSHAKE,
    TXN_OFFSET_COMMIT,
)
from kafkasource.tools.cli import main


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
        findings = json.loads(out)
        return findings[
            next(i for i, finding in enumerate(findings) if finding["what"] in ("cluster", "bootstrap TCP")) :
        ]

    return run


def test_a_listener_that_answers_sasl_handshake_and_wants_no_sasl_is_healthy(doctor, kafka):
    """kfake and Tansu do so."""
    findings = doctor()
    assert kafka.asked(SASL_HANDSHAKE)
    assert {finding["level"] for finding in findings} == {"ok"}, findings
    assert "broker 1" in {finding["what"] for finding in findings}


class WantsSasl(FakeKafka):
    """Closes the connection on each request of a client that has not logged in, as Apache's brokers do."""

    def _metadata(self, request):
        return None

    def _with_fault(self, request, correlation_id, fault):
        return super()._with_fault(request, correlation_id, fault) or [None]


def test_a_listener_that_wants_sasl_is_said_to(capsys):
    with serving(WantsSasl(topics={"t": 2})) as kafka:
        main(["doctor", "-b", kafka.bootstrap_servers])
    assert "the listener requires SASL" in capsys.readouterr().out


def refused_settings(kafka):
    row = {"error_code": 29, "error_message": None, "resource_type": 2, "resource_name": "t", "configs": []}
    kafka.fault(DESCRIBE_CONFIGS, Answer({"results": [row]}))


def test_a_topic_is_described_without_the_settings_that_the_user_may_not_see(command, kafka):
    refused_settings(kafka)
    code, out, err = command("topics", "describe", "t")
    assert (code, [line.split()[-4:-1] for line in out.splitlines()[2:]]) == (0, [["0", "100", "100"]] * 2)
    assert err.startswith("pykafka: settings are not shown: DescribeConfigs of 't': TOPIC_AUTHORIZATION_FAILED (29)")
    refused_settings(kafka)
    code, out, err = command("topics", "describe", "t", "--json")
    (topic,) = json.loads(out)
    assert (code, err, topic["settings"], len(topic["partitions"])) == (0, "", None, 2)


def test_a_server_that_lacks_describe_configs_and_describe_log_dirs_is_not_called_too_old(command, kafka):
    """Hosted services lack these, and serve other requests in the newest versions."""
    del kafka.versions[DESCRIBE_CONFIGS.key], kafka.versions[DESCRIBE_LOG_DIRS.key]
    code, out, err = command("topics", "describe", "t")
    assert (code, len(out.splitlines()), err.count("\n")) == (0, 4, 2)
    assert "does not offer DescribeLogDirs" in err
    assert "does not serve DescribeConfigs, which this needs: this server does not offer it" in err
    assert "too old" not in err


def test_doctor_names_what_exactly_once_lacks(doctor, kafka):
    for api in (DESCRIBE_CLUSTER, END_TXN, TXN_OFFSET_COMMIT):
        del kafka.versions[api.key]
    (finding,) = [finding for finding in doctor("--exactly-once", "p") if finding["what"] == "exactly once"]
    assert (finding["level"], finding["found"]) == ("FAILED", "the brokers do not offer TxnOffsetCommit, EndTxn")
