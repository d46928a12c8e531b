"""A real schema registry: our client against Apicurio, as users' tests and `pykafka registry` start it."""

import json
import os
import subprocess
import sys
import urllib.request

import pytest

from kafkasource.errors import (
    OptionError,
    RegistryError,
    SchemaIncompatible,
    SchemaNotFound,
    SchemaRefused,
    UnknownSchemaId,
)
from kafkasource.formats.registry import Definition, Reference, RegistryClient, RegistryOptions
from kafkasource.testing.broker import Registry, RegistryStartFailed
from kafkasource.tools.cli import main

LONG = '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"long"}]}'
WIDER = LONG.replace("}]}", '},{"name":"b","type":"string"}]}')
ORDER = '{"type":"record","name":"Order","namespace":"n","fields":[{"name":"r","type":"n.R"}]}'
real = [pytest.mark.broker, pytest.mark.extended]


def a_client(url):
    return RegistryClient(RegistryOptions.of({"url": url, "missing.id.cache.ttl.sec": "0"}))


def call(registry, method, path, value=None):
    """Send a request that the client has no method for."""
    data = None if value is None else json.dumps(value).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(registry.url + path, data, headers, method=method)) as answer:
        return json.loads(answer.read())


def test_a_port_is_checked_before_anything_starts():
    with pytest.raises(OptionError, match="port=0"):
        Registry(0)


def test_an_existing_registry_is_used(monkeypatch, capsys):
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", "http://registry:8081")
    with Registry() as registry:
        assert (registry.url, registry.existing) == ("http://registry:8081", True)
    assert main(["registry", "start"]) == 1
    assert "unset it" in capsys.readouterr().err
    with pytest.raises(RegistryStartFailed, match="not started"):
        _ = Registry(use_existing=False).url


class TestRegistry:
    pytestmark = real

    def test_ids_and_versions(self, schema_registry):
        client = a_client(schema_registry.url)
        schema_id = client.register("ids-value", Definition(LONG))
        assert client.register("ids-value", Definition(LONG)) == schema_id
        second = client.register("ids-value", Definition(WIDER))
        assert client.versions("ids-value") == [1, 2]
        assert client.version("ids-value").schema_id == second
        assert client.version("ids-value", 1).definition == Definition(LONG)
        assert client.look_up("ids-value", Definition(LONG)).version == 1
        assert set(client.known("ids-value")) == {schema_id, second}
        assert a_client(schema_registry.url).schema(schema_id).text == LONG
        assert "ids-value" in client.subjects()

    def test_names_that_a_url_must_quote(self, schema_registry):
        client = a_client(schema_registry.url)
        client.register("a/b c%?ü", Definition(LONG))
        assert client.version("a/b c%?ü").definition.text == LONG

    def test_references(self, schema_registry):
        client = a_client(schema_registry.url)
        client.register("ref-r", Definition(LONG))
        schema_id = client.register("ref-order", Definition(ORDER, references=(Reference("n.R", "ref-r", 1),)))
        assert a_client(schema_registry.url).schema(schema_id).references == (("n.R", LONG),)
        with pytest.raises(SchemaRefused, match="42201"):
            client.register("ref-other", Definition(ORDER, references=(Reference("n.R", "gone", 1),)))

    def test_protobuf_and_json_have_their_kind(self, schema_registry):
        client = a_client(schema_registry.url)
        for kind, text in (
            ("PROTOBUF", 'syntax = "proto3"; message M { int64 a = 1; }'),
            ("JSON", '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}'),
        ):
            schema = client.schema(client.register(f"kind-{kind}", Definition(text, kind)))
            assert (schema.kind, schema.text) == (kind, text)

    def test_what_is_not_there(self, schema_registry):
        client = a_client(schema_registry.url)
        client.register("there-value", Definition(LONG))
        with pytest.raises(UnknownSchemaId, match="40403"):
            client.schema(2_000_000_000)
        with pytest.raises(SchemaNotFound, match="40401"):
            client.versions("not-there")
        with pytest.raises(SchemaNotFound, match="40402"):
            client.version("there-value", 9)
        with pytest.raises(RegistryError, match="path of") as raised:
            a_client(schema_registry.url.replace("/v7", "/v99")).schema(1)
        assert type(raised.value) is RegistryError

    def test_compatibility(self, schema_registry):
        client = a_client(schema_registry.url)
        client.register("rule-value", Definition(LONG))
        assert client.check("rule-value", Definition(WIDER)).is_compatible  # no rule yet
        call(schema_registry, "PUT", "/config/rule-value", {"compatibility": "BACKWARD"})
        assert not client.check("rule-value", Definition(WIDER)).is_compatible
        with pytest.raises(SchemaIncompatible, match="/fields/1"):
            client.register("rule-value", Definition(WIDER))
        with pytest.raises(SchemaRefused):
            client.register("rule-value", Definition('{"type":"lnog"}'))

    def test_a_deleted_schema_is_still_there_for_old_records(self, schema_registry):
        client = a_client(schema_registry.url)
        text = LONG.replace('"R"', '"Deleted"')
        schema_id = client.register("gone-value", Definition(text))
        call(schema_registry, "DELETE", "/subjects/gone-value")
        assert a_client(schema_registry.url).schema(schema_id).text == text
        with pytest.raises(SchemaNotFound):
            client.version("gone-value")
        assert client.known("gone-value") == {}


@pytest.mark.broker
@pytest.mark.extended
def test_schemas_in_kafka_are_there_after_a_restart(kafka_broker):
    kept = {"bootstrap_servers": kafka_broker.bootstrap_servers, "topic": "registry-restart", "use_existing": False}
    with Registry(**kept) as registry:
        schema_id = a_client(registry.url).register("kept-value", Definition(LONG))
    with Registry(**kept) as registry:
        assert a_client(registry.url).version("kept-value").schema_id == schema_id


@pytest.mark.broker
@pytest.mark.extended
def test_the_command_leaves_one_registry_running(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    from kafkasource.testing.broker.registry.app import registry_jar

    (cache / registry_jar().parent.name).symlink_to(registry_jar().parent)
    environment = {**os.environ, "KAFKASOURCE_CACHE": str(cache)}
    environment.pop("SCHEMA_REGISTRY_URL", None)

    def run(*words):
        command = [sys.executable, "-m", "kafkasource", "registry", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

    assert run("status").returncode == 1
    try:
        started = run("start")
        assert started.returncode == 0, started.stderr
        assert "starting a registry" in started.stderr  # some ten seconds
        url = started.stdout.strip()
        assert a_client(url).register("t-value", Definition(LONG)) > 0
        again = run("start", "--json")
        assert json.loads(again.stdout)["url"] == url
        assert "already running" in again.stderr
        assert url in run("status").stdout
    finally:
        stopped = run("stop", "--json")
    assert json.loads(stopped.stdout)["url"] == url
    assert not os.path.exists(json.loads(stopped.stdout)["folder"])
    assert run("status").returncode == 1
    assert run("stop").stdout == "no registry is running\n"
