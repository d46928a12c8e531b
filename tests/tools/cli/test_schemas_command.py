"""`pykafka schemas` against a registry in memory."""

import io
import json
import sys

import pytest
from fake_registry import Fault, a_registry

from kafkasource.tools.cli import main

LONG = '{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}'


@pytest.fixture
def registry(monkeypatch):
    with a_registry() as fake:
        monkeypatch.setenv("SCHEMA_REGISTRY_URL", fake.url)
        yield fake


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "r.avsc"
    path.write_text(f"{LONG}\n")
    return str(path)


def test_subjects_are_listed_with_their_latest_schema(registry, capsys):
    registry.add("b-value", '"long"')
    registry.add("b-value", LONG)
    registry.add("a", "syntax", "PROTOBUF")
    assert main(["schemas", "list"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["SUBJECT", "VERSION", "ID", "KIND"], ["a", "1", "3", "PROTOBUF"], ["b-value", "2", "2", "AVRO"]]
    assert main(["schemas", "list", "--json"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first == {"subject": "a", "version": 1, "id": 3, "kind": "PROTOBUF"}


def test_a_schema_is_shown_by_subject_version_and_id(registry, capsys):
    registry.add("b-value", '"long"')
    registry.add("b-value", LONG, references=(("n.X", "x", 1),))
    for words, text in ((["b-value"], LONG), (["b-value", "--version", "1"], '"long"'), (["--id", "1"], '"long"')):
        assert main(["schemas", "show", *words]) == 0
        assert capsys.readouterr().out == f"{text}\n"
    assert main(["schemas", "show", "b-value", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        **{"subject": "b-value", "version": 2, "id": 2, "kind": "AVRO", "schema": LONG},
        "references": [{"name": "n.X", "subject": "x", "version": 1}],
    }


def test_the_text_of_a_schema_is_escaped_on_a_terminal_alone(registry, monkeypatch, capsys):
    text = '{"type":"record","name":"R","doc":"\u202e","fields":[]}'
    registry.add("a", text)
    assert main(["schemas", "show", "a"]) == 0
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["schemas", "show", "a"]) == 0
    assert capsys.readouterr().out == text.replace("\u202e", "\\u202e") + "\n"


@pytest.mark.parametrize("words", [[], ["a", "--id", "1"], ["--id", "1", "--version", "1"]])
def test_show_wants_a_subject_or_an_id(registry, words, capsys):
    assert main(["schemas", "show", *words]) == 1
    assert registry.requests == []


def test_what_is_missing_is_one_line_on_stderr(registry, capsys):
    assert main(["schemas", "show", "none"]) == 1
    assert main(["schemas", "show", "--id", "9"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    # The number alone may also be the port of the registry in memory, which the line names.
    assert [line.partition("error_code ")[2][:5] for line in err.splitlines()] == ["40401", "40403"]


def test_a_schema_is_registered_and_its_id_printed(registry, file, capsys):
    assert main(["schemas", "register", "a-value", file]) == 0
    assert capsys.readouterr().out == "1\n"
    assert registry.by_id[1] == {"schema": LONG}
    words = ["--kind", "JSON", "--reference", "n=b:c:2", "--normalize", "--json"]
    assert main(["schemas", "register", "a-value", file, *words]) == 0
    assert json.loads(capsys.readouterr().out) == {"subject": "a-value", "id": 2}
    assert registry.by_id[2]["references"] == [{"name": "n", "subject": "b:c", "version": 2}]
    assert registry.by_id[2]["schemaType"] == "JSON"
    assert registry.paths[-1].endswith("?normalize=true")


def test_a_schema_comes_from_standard_input(registry, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LONG.encode())))
    assert main(["schemas", "register", "a-value", "-"]) == 1
    assert "--kind" in capsys.readouterr().err
    assert main(["schemas", "register", "a-value", "-", "--kind", "AVRO"]) == 0
    assert registry.by_id[1] == {"schema": LONG}


def test_what_does_not_fit_is_told_with_the_registrys_reason(registry, file, capsys):
    registry.add("a-value", '"long"')
    assert main(["schemas", "check", "a-value", file]) == 0
    assert capsys.readouterr().out == "compatible\n"
    registry.compatible = False
    assert main(["schemas", "check", "a-value", file]) == 1
    assert "field 'extra'" in capsys.readouterr().out
    assert main(["schemas", "check", "a-value", file, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["compatible"] is False
    assert main(["schemas", "register", "a-value", file]) == 1
    assert "field 'extra'" in capsys.readouterr().err
    assert len(registry.by_id) == 1


@pytest.mark.parametrize("reference", ["n=b", "n=b:latest", "n=:1"])
def test_a_reference_that_names_no_version_is_refused(registry, file, reference, capsys):
    assert main(["schemas", "register", "a-value", file, "--reference", reference]) == 1
    assert "NAME=SUBJECT:VERSION" in capsys.readouterr().err


def test_credentials_come_from_a_file_that_brokers_use_too(registry, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("REGISTRY_PASSWORD", "geheim")
    config = tmp_path / "client.properties"
    config.write_text(
        f"bootstrap.servers=b:9092\nssl.truststore.location=/brokers.pem\nschema.registry.url={registry.url}\n"
        "basic.auth.user.info=alice:${env:REGISTRY_PASSWORD}\n"
    )
    monkeypatch.delenv("SCHEMA_REGISTRY_URL")
    registry.user = "Basic YWxpY2U6Z2VoZWlt"
    assert main(["schemas", "list", "-F", str(config)]) == 0
    assert main(["schemas", "list", "-r", registry.url, "-X", "schemaRegistry.basic.auth.user.info=alice:geheim"]) == 0
    capsys.readouterr()
    assert main(["schemas", "list", "-r", registry.url]) == 1
    out, err = capsys.readouterr()
    assert "basic.auth.user.info" in err
    assert "geheim" not in out + err


def test_a_registry_that_is_ill_is_named(registry, capsys):
    registry.always = Fault(503)
    assert main(["schemas", "list", "-X", "retry.timeout.ms=0"]) == 1
    assert f"{registry.url}: 503" in capsys.readouterr().err


def test_which_registry_is_asked_for_where_none_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("SCHEMA_REGISTRY_URL", raising=False)
    monkeypatch.setenv("KAFKASOURCE_CACHE", str(tmp_path))
    assert main(["schemas", "list"]) == 1
    assert "pykafka registry start" in capsys.readouterr().err
