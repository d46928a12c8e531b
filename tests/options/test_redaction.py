"""The expressions of spark-conf/ hide each option that the table marks as secret, under each of its names.

`tests/spark/test_secrets_left_behind.py` lets Spark itself apply the expressions.
"""

import re
import sys
from pathlib import Path

import pytest

from kafkasource.kafka.security import properties
from kafkasource.kafka.security.option import SECRET
from kafkasource.options import OPTIONS, REDACTION, hides_secrets
from kafkasource.options.registry import REGISTRY_OPTIONS

CONF = Path(__file__).parent.parent.parent / "spark-conf" / "spark-defaults.conf"
EVERY = (*OPTIONS, *REGISTRY_OPTIONS)
SECRET_NAMES = sorted(name for row in EVERY if row.type is SECRET for name in (row.name, *row.aliases))
NAMES = [*SECRET_NAMES, *(f"clusters.east.{name}" for name in SECRET_NAMES), "clusters"]
OTHERS = ["subscribe", "kafka.bootstrap.servers", "kafka.sasl.username", "kafka.ssl.truststore.location", "topic"]
VALUE = 'ge"h\\eim'


def setting(name):
    expression = properties.parse(CONF.read_text())[name]
    if sys.version_info < (3, 11):  # without possessive quantifiers, which keep Java from deep recursion
        expression = expression.replace("*+", "*")
    return re.compile(expression)


def hidden(text):
    return setting(REDACTION).sub("*", text)


def escaped(text):
    """Escape a string as protobuf's text format does."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\'")


def test_the_table_has_secrets():
    assert {"kafka.sasl.password", "kafka.sasl.jaas.config", "kafka.ssl.key.pem"} < set(NAMES)
    assert {"schemaRegistry.basic.auth.user.info", "schemaRegistry.ssl.keystore.key"} < set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_secret_is_hidden_wherever_its_name_stands(name):
    assert setting("spark.redaction.regex").search(name)
    assert setting("spark.redaction.regex").search(name.upper())
    assert "eim" not in hidden(f'options {{\n  key: "{name}"\n  value: "{escaped(VALUE)}"\n}}')
    for written in (f"`{name}` 'geheim'", f"'{name}' = 'geheim'", f'"{name}" "geheim"', f"{name}='geheim'"):
        statement = f"CREATE VIEW v USING pykafka OPTIONS ({written}, subscribe 'events')"
        for text in (statement, f'query: "{escaped(statement)}"'):
            assert "geheim" not in hidden(text), text
            assert "events" in hidden(text), text
    for quote in "'\"":
        statement = f"OPTIONS ('{name}' {quote}ge\\{quote}heim{quote}, subscribe 'events')"
        for text in (statement, f'query: "{escaped(statement)}"'):
            assert "heim" not in hidden(text), text
            assert "events" in hidden(text), text


@pytest.mark.parametrize("name", NAMES)
def test_a_secret_that_spark_cuts_short_is_hidden(name):
    """Spark Connect shows the beginning of a long text."""
    statement = escaped(f"OPTIONS ('{name}' 'geheim, long and")
    for text in (
        f'query: "{statement}[truncated(size=9999)]"\nsession: "events"',
        f'options {{\n  key: "{name}"\n  value: "geheim [truncated(size=9999)]"\n}}\nsession: "events"',
    ):
        assert "geheim" not in hidden(text)
        assert "events" in hidden(text)
    for text in (f"OPTIONS ('{name}' 'geheim", f'OPTIONS ({name} "geheim', f'key: "{name}"\n value: "geheim'):
        assert "geheim" not in hidden(text)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_secret_stays_to_be_read(name):
    assert not setting("spark.redaction.regex").search(name)
    text = f'options {{\n  key: "{name}"\n  value: "seen"\n}}'
    assert hidden(text) == text


def test_a_path_to_a_file_of_certificates_stays_to_be_read():
    assert not setting("spark.redaction.regex").search("/etc/kafka/ca.pem,/etc/kafka/client.key.example")


def test_the_setting_is_recognised_as_one_that_hides_secrets():
    assert hides_secrets(properties.parse(CONF.read_text())[REDACTION])
    of_spark = 'key: "[^"]*(password|jaas)[^"]*"\\s*value: "(\\\\.|[^"\\\\])*"'
    assert hides_secrets(of_spark)
    for other in (None, "", "(?i)url", "(?i)secret|password"):
        assert not hides_secrets(other), other
