"""Names and options that `kafkasource.register` takes, and the options of the format that it registers."""

import pickle
from types import SimpleNamespace

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

import kafkasource
from kafkasource import options
from kafkasource.datasource import of_session
from kafkasource.errors import OptionError
from kafkasource.spark import workers

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
    moved = source(CaseInsensitiveDict({"Kafka.Metadata.Broker.List": "localhost:2"}))  # an alias, as Spark gives it
    assert options.parse(moved.options, "source")["kafka.bootstrap.servers"] == (("localhost", 2),)


def test_a_read_does_not_warn_of_the_registered_options_for_writing_and_the_other_way_round(caplog):
    for_both = OPTIONS | {"kafka.acks": "all", "topic": "bills", "subscribe": "orders", "unknownOptions": "fail"}
    registered_class = registered(options=for_both | {"valueFormat": "json", "readerSchema": "amount BIGINT"})
    source = registered_class(CaseInsensitiveDict({}))  # as Spark makes it: the keys are in lower case then
    source.reader(source.schema())
    source.writer(StructType().add("value", StructType().add("amount", "long")), overwrite=False)
    assert caplog.messages == []


def test_an_option_of_the_statement_itself_that_is_for_the_other_side_is_told(caplog):
    registered()({"kafka.acks": "all"}).schema()
    assert ["'kafka.acks'" in text and "for writing" in text for text in caplog.messages] == [True]
    with pytest.raises(OptionError, match="topc"):
        registered(options=OPTIONS | {"topc": "t", "unknownOptions": "fail"})({}).schema()


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("orders", None, "together"),
        (None, OPTIONS, "together"),
        ("orders", {}, "together"),
        ("pykafka", OPTIONS, "a name of your own"),
        ("Kafka", OPTIONS, "a name of your own"),
        ("text", OPTIONS, "a name of your own"),  # CREATE TABLE t USING text is Spark's, of files
        ("my orders", OPTIONS, "of letters, digits and _"),
        ("orders", OPTIONS | {"kafka.client.id": None}, "'kafka.client.id'.*a text, a number or a boolean"),
        (
            "orders",
            OPTIONS | {"clusters": {"east": {"kafka.sasl.jaas.config": "Login required password=p;"}}},
            "'clusters'.*a text, a number or a boolean",
        ),
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


@pytest.fixture
def session(monkeypatch):
    """A session of a Spark that has found `pykafka` by its name. `registered` gets the classes."""
    monkeypatch.setattr(kafkasource, "_has_registered", False)
    monkeypatch.setattr(workers, "finds_by_name", lambda spark, name: name == "pykafka")
    registered = []
    return SimpleNamespace(
        **vars(SESSION), registered=registered, dataSource=SimpleNamespace(register=registered.append)
    )


def test_a_format_with_a_name_does_not_make_spark_replace_the_one_without(session):
    kafkasource.register(session, "orders", OPTIONS)
    kafkasource.register(session)
    assert [source.name() for source in session.registered] == ["orders"]


def test_a_name_that_spark_refuses_because_another_package_has_it_is_an_error(session):
    def refuse(source):
        raise RuntimeError(f"[DATA_SOURCE_ALREADY_EXISTS] {source.name()}")

    session.dataSource.register = refuse
    with pytest.raises(RuntimeError, match="orders"):
        kafkasource.register(session, "orders", OPTIONS)
    kafkasource.register(session)
    kafkasource.register(session)  # Spark's own find stays, without an error
