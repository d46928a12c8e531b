"""The driver warns of secrets that Spark Connect would show, once, and of nothing else."""

import json
import logging
import pickle

import pytest

from kafkasource import options
from kafkasource.kafka.process import PerProcess
from kafkasource.options import connect

KAFKA = {"kafka.bootstrap.servers": "broker:9093", "kafka.sasl.username": "billing", "subscribe": "events"}
SECRET = KAFKA | {"Kafka.SASL.password": "geheim"}


@pytest.fixture(autouse=True)
def _over_connect(monkeypatch):
    monkeypatch.setenv("SPARK_JOB_ARTIFACT_UUID", "c0f6ae8a-4130-418d-8b37-fd639785cf8e")
    monkeypatch.setattr(connect, "_warned", PerProcess(set))


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_secret_as_text_is_a_warning_once_that_names_the_option_and_the_way_out(caplog):
    for _ in range(3):
        options.warn_of_secrets_as_text(SECRET)
    (said,) = warnings(caplog)
    assert "'Kafka.SASL.password'" in said
    assert "${env:NAME}" in said
    assert "spark.sql.redaction.string.regex" in said
    assert "geheim" not in said


def test_secrets_of_clusters_are_found_in_both_forms(caplog):
    given = {"clusters": json.dumps({"east": SECRET, "west": KAFKA}), "clusters.west.kafka.ssl.key.pem": "geheim"}
    assert connect.secrets_as_text(given) == ["clusters", "clusters.west.kafka.ssl.key.pem"]
    for broken in ("{", "[]", '{"east": 1}'):
        assert connect.secrets_as_text({"clusters": broken}) == []


def test_references_and_other_options_are_no_warning(caplog):
    options.warn_of_secrets_as_text(KAFKA | {"kafka.sasl.password": "${file:/run/kafka.properties:password}"})
    options.warn_of_secrets_as_text(KAFKA)
    assert warnings(caplog) == []


@pytest.mark.parametrize("session", ["", "default"])
def test_a_classic_session_is_no_warning(caplog, monkeypatch, session):
    monkeypatch.setenv("SPARK_JOB_ARTIFACT_UUID", session)
    options.warn_of_secrets_as_text(SECRET)
    assert warnings(caplog) == []


def test_the_registered_class_takes_along_that_the_server_hides_secrets(caplog):
    pytest.importorskip("pyspark")
    from pyspark.cloudpickle import dumps

    from kafkasource.datasource import of_session

    class Session:
        def __init__(self, expression):
            self.conf = {"spark.sql.redaction.string.regex": expression}

    for expression, warned in (('(?s)key: "[^"]*jaas[^"]*"\\s*value: "(\\\\.|[^"])*"', 0), (None, 1), ("(?i)url", 1)):
        caplog.clear()
        connect._warned.reset()
        registered = pickle.loads(dumps(of_session(Session(expression))))
        assert registered.name() == "pykafka"
        registered(SECRET | {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}).schema()
        assert len(warnings(caplog)) == warned, expression


@pytest.mark.parametrize(
    ("mode", "warns"), [("extended", True), ("CODEGEN", True), ("formatted", False), (None, False)]
)
def test_an_explain_mode_with_which_spark_shows_options_is_warned_of_once(mode, warns, caplog):
    for _ in range(2):
        connect.warn_of_explain_mode(mode)
    assert len(caplog.records) == int(warns)
