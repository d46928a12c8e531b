"""What `kafkasource.register(spark, name=..., options=...)` takes, and what the class does that it registers."""

import pickle
from types import SimpleNamespace

import pytest

from kafkasource.datasource import of_session
from kafkasource.errors import OptionError

SESSION = SimpleNamespace(conf={"spark.sql.redaction.string.regex": None})
OPTIONS = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "orders", "includeHeaders": True, "minPartitions": 3}


def registered(name="orders", options=OPTIONS):
    from pyspark.cloudpickle import dumps

    return pickle.loads(dumps(of_session(SESSION, name, options)))  # as Spark keeps it


def test_a_format_with_a_name_has_its_options_and_a_statement_replaces_each_in_any_case():
    source = registered()
    assert source.name() == "orders"
    assert source({}).options == {key: str(text).lower() for key, text in OPTIONS.items()}
    assert [column.name for column in source({}).schema()][-1] == "headers"
    assert source({"SUBSCRIBE": "other"}).options["SUBSCRIBE"] == "other"
    assert "subscribe" not in source({"SUBSCRIBE": "other"}).options


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("orders", None, "together"),
        (None, OPTIONS, "together"),
        ("orders", {}, "together"),
        ("pykafka", OPTIONS, "a name of your own"),
        ("Kafka", OPTIONS, "a name of your own"),
        ("my orders", OPTIONS, "of letters, digits and _"),
        (
            "orders",
            OPTIONS | {"kafka.sasl.jaas.config": "Login required password=p;"},
            "kafka.sasl.jaas.config.*secret",
        ),
    ],
)
def test_a_name_or_options_that_cannot_be_used_are_refused(name, options, says):
    with pytest.raises(OptionError, match=says) as raised:
        registered(name, options)
    assert "password=p" not in str(raised.value)


def test_a_secret_may_be_a_reference():
    options = OPTIONS | {"kafka.ssl.truststore.password": "${env:STORE_PASSWORD}"}
    assert registered(options=options)({}).options["kafka.ssl.truststore.password"] == "${env:STORE_PASSWORD}"
