"""Tests what a registry answers for `readerSchema`, and which schemas the driver ships to tasks."""

import pickle
import subprocess
import sys

import pytest
from fake_registry import Fault, a_registry
from registry_clients import a_client

from kafkasource.errors import OptionError, RegistryAccessRefused
from kafkasource.formats.registry import ReaderSchema, RegistryOptions, ShippedSchemas, shipped, subject_of
from kafkasource.formats.schema_source import RegisteredSchema

LONG = '{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}'
TEXT = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'


@pytest.fixture
def registry():
    with a_registry() as found:
        found.add("orders-value", LONG)
        found.add("orders-value", TEXT, references=())
        found.add("Other", '"long"')
        yield found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("latest", (2, TEXT)),
        (" version:1 ", (1, LONG)),
        ("version:2", (2, TEXT)),
        ("id:1", (1, LONG)),
        ("id:3", (3, '"long"')),
        ("subject:Other", (3, '"long"')),
    ],
)
def test_each_form_gives_one_schema(registry, text, found):
    schema_id, schema = ReaderSchema.parse(text).resolve(a_client(registry.url), [subject_of("orders", "value")])
    assert (schema_id, schema.text) == found
    assert len(registry.requests) == 1


@pytest.mark.parametrize("text", ["file:/a.avsc", '{"type":"record"}', '"long"', "long", "latests", "", "latest:1"])
def test_what_asks_no_registry_is_left_to_others(text):
    assert ReaderSchema.parse(text) is None


@pytest.mark.parametrize("text", ["version:", "version:0", "version:-1", "version:x", "version:²", "id:x", "subject: "])
def test_a_form_without_its_number_or_name_is_refused(text):
    with pytest.raises(OptionError, match="'keyReaderSchema'"):
        ReaderSchema.parse(text, "keyReaderSchema")


def test_what_the_registry_lacks_is_the_options_fault_and_a_refusal_is_not(registry):
    client = a_client(registry.url)
    for text, subject in (("latest", "none-value"), ("version:9", "orders-value"), ("id:99", "orders-value")):
        with pytest.raises(OptionError, match="'readerSchema'"):
            ReaderSchema.parse(text).resolve(client, [subject])
    registry.always = Fault(401)
    with pytest.raises(RegistryAccessRefused):
        ReaderSchema.parse("latest").resolve(client, ["orders-value"])


def test_topics_of_several_subjects_need_a_choice(registry):
    client = a_client(registry.url)
    with pytest.raises(OptionError, match="subject:NAME"):
        ReaderSchema.parse("latest").resolve(client, ["a-value", "b-value"])
    assert ReaderSchema.parse("subject:Other").resolve(client, ["a-value", "b-value"])[0] == 3


EXECUTOR = """
import pickle, sys, threading
shipped = pickle.loads(sys.stdin.buffer.read())
def task():
    for schema_id in {ids}:
        shipped.source().schema(schema_id)
threads = [threading.Thread(target=task) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
"""


def test_executors_ask_only_for_ids_that_are_new(registry):
    """In another process, by eight tasks at once."""
    found = ShippedSchemas.of(RegistryOptions.of({"url": registry.url}), ["orders-value", "none-value"])
    assert [schema_id for schema_id, _ in found.schemas] == [1, 2]
    later = registry.add("orders-value", '"string"')
    for ids, asked in (([1, 2], []), ([1, 2, later], [f"/schemas/ids/{later}"])):
        registry.requests.clear()
        program = EXECUTOR.format(ids=ids)
        subprocess.run([sys.executable, "-c", program], input=pickle.dumps(found), check=True, timeout=120)
        assert registry.paths == asked


def test_what_is_shipped_is_bounded_and_the_newest_goes_first(registry, monkeypatch):
    monkeypatch.setattr(shipped, "MOST_CHARACTERS", len(LONG) + len(TEXT) - 1)
    found = ShippedSchemas.of(RegistryOptions.of({"url": registry.url}), ["orders-value"])
    assert found.schemas == ((2, RegisteredSchema("AVRO", TEXT)),)


def test_a_micro_batch_whose_ids_are_known_asks_nothing(registry):
    source = ShippedSchemas.of(RegistryOptions.of({"url": registry.url}), ["orders-value"]).source()
    registry.requests.clear()
    for _ in range(100):
        source.schema(1)
        source.schema(2)
    assert registry.requests == []


def test_a_plan_shows_no_secret():
    options = RegistryOptions.of({"url": "https://r", "basic.auth.user.info": "alice:geheim"})
    assert "geheim" not in repr(ShippedSchemas(options))


def test_a_registry_that_is_away_is_told_in_the_log_once_a_question(registry, caplog):
    registry.always = Fault(503)
    with pytest.raises(Exception, match="503"):
        a_client(registry.url, retry_timeout_ms="60000").schema(1)
    (record,) = caplog.records
    assert "schema id 1" in record.getMessage()
    assert registry.url in record.getMessage()


def test_credentials_in_clear_are_warned_of(caplog):
    a_client("http://127.0.0.1:1", basic_auth_user_info="alice:geheim")
    a_client("http://registry:1")
    a_client("https://registry:1", basic_auth_user_info="alice:geheim")
    assert caplog.records == []
    for host in ("registry", "127.evil.example"):
        caplog.clear()
        a_client(f"http://{host}:1", basic_auth_user_info="alice:geheim")
        (record,) = caplog.records
        assert f"http://{host}:1 in clear" in record.getMessage()
        assert "geheim" not in record.getMessage()


def test_a_subject_that_the_driver_may_not_see_is_left_to_the_tasks(registry):
    options = RegistryOptions.of({"url": registry.url})
    registry.faults = [Fault(403)]
    assert ShippedSchemas.of(options, ["a-value", "orders-value"]).schemas[-1][0] == 2
    registry.faults = [Fault(401)]
    with pytest.raises(RegistryAccessRefused):
        ShippedSchemas.of(options, ["a-value", "orders-value"])


def test_many_topics_cost_a_bounded_number_of_requests(registry, monkeypatch):
    monkeypatch.setattr(shipped, "MOST_VERSIONS", 3)
    for number in range(10):
        registry.add(f"t{number}-value", f'"{number}"')
    found = ShippedSchemas.of(RegistryOptions.of({"url": registry.url}), [f"t{number}-value" for number in range(10)])
    assert len(found.schemas) == 3
    assert len(registry.requests) == 6
