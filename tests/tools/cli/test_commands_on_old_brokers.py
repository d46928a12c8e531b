"""The commands against brokers that lack what they ask for: what can be done is done, the rest is one line."""

import json
from typing import Any

import pytest
from fake_broker import FakeKafka, serve

from kafkasource.kafka.protocol.apis import METADATA
from kafkasource.tools.cli import main


@pytest.fixture(params=["0.8.2", "0.9.0"])
def kafka(request):
    kafka: Any = FakeKafka(topics={"t": 2})
    kafka.become(request.param)
    kafka.committed["g", "t", 0] = 40
    with serve(kafka) as (host, port):
        kafka.addresses = {1: (host, port)}
        kafka.release, kafka.bootstrap_servers = request.param, f"{host}:{port}"
        yield kafka


@pytest.fixture
def command(kafka, capsys):
    def run(*words):
        code = main([*words, "-b", kafka.bootstrap_servers, "-X", "default.api.timeout.ms=10000"])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_topics_are_shown_without_the_settings_that_nobody_tells(command):
    code, out, err = command("topics", "describe", "t", "--json")
    assert (code, err) == (0, "")
    (topic,) = json.loads(out)
    assert ([partition["latest"] for partition in topic["partitions"]], topic["settings"]) == ([100, 100], None)


def test_bytes_that_nobody_tells_are_a_dash_and_one_line_says_why(command):
    code, out, err = command("topics", "list")
    assert (code, [line.split() for line in out.splitlines()[1:]]) == (0, [["t", "2", "1", "200", "-", "ok"]])
    assert err == "pykafka: bytes are not shown: broker 1 does not offer DescribeLogDirs (Apache Kafka: from 1.0 on)\n"
    code, out, said = command("topics", "describe", "t")
    assert (code, [line.split()[-1] for line in out.splitlines()[2:]], said) == (0, ["-", "-"], said)
    assert said.startswith(f"{err}pykafka: settings are not shown: ")


def test_a_groups_lag_is_known_without_its_members(command, kafka):
    code, out, err = command("lag", "-g", "g", "--json")
    assert (code, err, json.loads(out)["lag"]) == (0, "", 60)


def test_what_the_broker_cannot_do_names_it_and_the_broker(command, kafka):
    code, _, err = command("topics", "create", "new")
    assert (code, err.count("\n")) == (1, 1)
    assert "CreateTopics" in err
    assert kafka.release in err


def test_doctor_says_how_old_it_is(command, kafka):
    _, out, _ = command("doctor", "--json")
    (broker,) = [finding for finding in json.loads(out) if finding["what"] == "broker 1"]
    assert broker["found"].endswith(f"Kafka {kafka.release[:3]}")


@pytest.mark.parametrize("words", [("read", "typo"), ("topics", "describe", "typo"), ("lag", "-c")])
def test_a_topic_that_does_not_exist_is_not_made_by_asking_for_it(command, kafka, checkpoint, words):
    """Old brokers make a topic when a client asks for its metadata by name (auto.create.topics.enable)."""
    checkpoint(0, '{"typo":{"0":1}}')
    _, out, err = command(*words, *([checkpoint.location] if words[-1] == "-c" else []))
    assert "no topic 'typo'" in err or "1 no longer exist" in out
    assert "typo" not in {row["name"] for request in kafka.asked(METADATA) for row in request.body["topics"] or ()}
