"""`pykafka broker start --security`: a client connects with the file that it names, and no password is printed."""

import json
from pathlib import Path

import pytest
from java_programs import ask_java

from kafkasource.testing.broker import kafka_jars
from kafkasource.tools.cli import main

WRITE = Path(__file__).parent / "KafkaWrite.java"


@pytest.mark.broker
def test_a_client_connects_with_the_file_that_the_command_names(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    jars = kafka_jars("4.3.1")
    monkeypatch.setenv("KAFKASOURCE_CACHE", str(tmp_path))
    (tmp_path / "kafka-4.3.1").symlink_to(jars)
    words = ["--security", "sasl_ssl", "--mechanism", "SCRAM-SHA-512", "--client-auth", "required"]
    assert main(["broker", "start", *words]) == 0
    try:
        printed = capsys.readouterr()
        assert main(["broker", "status", "--json"]) == 0
        state = json.loads(capsys.readouterr().out)
        path = Path(state["client_properties"])
        monkeypatch.delenv("KAFKASOURCE_CACHE")
        answers = ask_java(WRITE, [("t", path)])
        monkeypatch.setenv("KAFKASOURCE_CACHE", str(tmp_path))
        properties = path.read_text()
        kept = (tmp_path / "broker.json").read_text()
        (password,) = [part.partition('"')[0] for part in properties.split('password="')[1:]]
    finally:
        assert main(["broker", "stop"]) == 0
    assert answers == ["0"]
    assert printed.out.strip() == state["bootstrap_servers"]
    assert str(path) in printed.err
    assert password
    assert password not in printed.out + printed.err + kept
    assert not path.exists()
