"""Compares a producer's settings, accepted and refused, with Kafka's own ProducerConfig."""

from pathlib import Path

import pytest
from java_programs import ask_java

from kafkasource import options
from kafkasource.errors import OptionError
from kafkasource.kafka.producer.config import ProducerConfig

PROGRAM = Path(__file__).with_name("ProducerSettings.java")
SETTINGS = [
    *("request.timeout.ms=120000", "linger.ms=100000", "request.timeout.ms=2147483647", "delivery.timeout.ms=30005"),
    *("request.timeout.ms=120000 delivery.timeout.ms=120000", "linger.ms=100000 delivery.timeout.ms=120000"),
    *("batch.size=0", "batch.size=1", "batch.size=-1"),
    *("retries=0", "retries=0 enable.idempotence=true", "retries=0 enable.idempotence=false", "retries=1"),
    *("acks=1", "acks=1 enable.idempotence=true", "enable.idempotence=true max.in.flight.requests.per.connection=6"),
    *("transactional.id=p", "retries=0 transactional.id=p", "acks=1 transactional.id=p"),
    "enable.idempotence=false transactional.id=p",
]
COMMON = {"linger.ms": "5", "batch.size": "16384"}  # Java's defaults, where ours are others


def settings_of(line):
    return COMMON | dict(setting.split("=") for setting in line.split())


def ours(line):
    written = settings_of(line)
    once = {"deliveryGuarantee": "exactly_once"} if written.pop("transactional.id", None) else {}
    try:
        parsed = options.parse(
            {"kafka.bootstrap.servers": "localhost:9092", **once, **{f"kafka.{k}": v for k, v in written.items()}},
            "sink",
        )
    except OptionError:
        return "refused"
    config = ProducerConfig.from_options(parsed)
    return f"{parsed['kafka.batch.size']} {str(config.idempotent).lower()} {config.delivery_timeout_ms}"


@pytest.mark.broker
def test_settings_mean_and_exclude_what_they_do_in_kafkas_producer():
    commands = [[f"{name}={value}" for name, value in settings_of(line).items()] for line in SETTINGS]
    javas = ask_java(PROGRAM, commands)
    assert dict(zip(SETTINGS, map(ours, SETTINGS), strict=True)) == dict(zip(SETTINGS, javas, strict=True))
