"""KAFKA_JVM_PERFORMANCE_OPTS is obeyed as Kafka's own scripts obey it (bin/kafka-run-class.sh): words of a shell."""

import pytest

from kafkasource.broker import Broker
from kafkasource.broker.jvm.command_lines import performance_flags

FLAG = "-XX:MaxGCPauseMillis=20"  # in Kafka's own default


@pytest.mark.parametrize(
    ("text", "flags"), [("", ()), (f"-server  {FLAG}", ("-server", FLAG)), ("'-Dname=a b'", ("-Dname=a b",))]
)
def test_its_words_are_flags(monkeypatch, text, flags):
    monkeypatch.setenv("KAFKA_JVM_PERFORMANCE_OPTS", text)
    assert performance_flags() == flags


def test_without_it_there_are_none(monkeypatch):
    monkeypatch.delenv("KAFKA_JVM_PERFORMANCE_OPTS", raising=False)
    assert performance_flags() == ()


@pytest.mark.broker
def test_each_node_starts_with_them(kafka_broker: Broker):
    """tests/conftest.py sets them for the whole run."""
    if kafka_broker.existing:
        pytest.skip("needs the broker's files")
    with open(f"/proc/{kafka_broker.pids[0]}/cmdline", "rb") as file:
        assert b"\0-XX:TieredStopAtLevel=1\0" in file.read()
