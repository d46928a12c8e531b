"""`Broker` before KRaft: with a ZooKeeper, and the same promises; kafka-python says whether it is a Kafka."""

import json
import os
import signal
import subprocess

import pytest

from kafkasource.testing.broker import Broker, kafka_jars
from kafkasource.testing.broker.probe import probe
from kafkasource.testing.broker.properties import HOST, NodePorts
from kafkasource.testing.broker.zookeeper import legacy_server_properties
from kafkasource.tools.cli import main

THREE = [NodePorts(client=9092 + n, controller=9192 + n, advertised=9292 + n) for n in range(3)]


@pytest.fixture(autouse=True)
def no_existing_cluster(monkeypatch):
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)


def commands_that_name(text):
    """The command lines of all processes, where they name it; a zombie has none."""
    lines = subprocess.run(["ps", "-axwwo", "args="], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if text in line]


def answers(broker):
    try:
        return bool(probe(HOST, broker.ports[0], timeout_s=0.2))
    except TimeoutError:
        return False


def produce(broker, release, topic, value):
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, api_version=release, acks="all", retries=10)
    producer.send(topic, value).get(60)
    producer.close(10)


def consume(broker, release, topic, count):
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, api_version=release, auto_offset_reset="earliest", group_id=None
    )
    consumer.assign([TopicPartition(topic, 0)])
    values = [next(consumer).value for _ in range(count)]
    consumer.close()
    return values


def test_each_release_is_told_its_address_in_its_own_words(tmp_path):
    old = legacy_server_properties((0, 8), 2, THREE, 2181, tmp_path, {})
    assert (old["port"], old["advertised.port"], old["host.name"]) == ("9093", "9293", "127.0.0.1")
    assert "listeners" not in old
    new = legacy_server_properties((0, 9), 2, THREE, 2181, tmp_path, {"num.partitions": 1})
    assert new["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9293"
    assert "port" not in new
    assert (new["num.partitions"], new["min.insync.replicas"], new["broker.id"]) == ("1", "2", "2")


@pytest.mark.broker
@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.8.2.2", (0, 8, 2)),
        ("0.9.0.1", (0, 9)),
        ("0.11.0.3", (0, 11)),
    ],
)
@pytest.mark.extended
def test_an_old_node_that_was_killed_or_paused_comes_back_with_its_data_and_leaves_nothing(version, release):
    with Broker(version, properties={"num.partitions": 1}) as broker:
        folder, servers = broker.folder, broker.bootstrap_servers
        produce(broker, release, "t", b"before")
        broker.kill()
        with pytest.raises(OSError, match="refused"):
            probe(HOST, broker.ports[0], timeout_s=5)
        broker.restart()
        assert broker.bootstrap_servers == servers
        produce(broker, release, "t", b"after")
        assert consume(broker, release, "t", 2) == [b"before", b"after"]
        broker.pause()
        while answers(broker):  # each of its threads stops when it gets to it
            pass
        broker.resume()
        assert [node.node_id for node in probe(HOST, broker.ports[0], timeout_s=60)] == [1]
        assert len(commands_that_name(f"{folder}/")) == 4  # two JVMs and their supervisors
    assert commands_that_name(f"{folder}/") == []
    assert not folder.exists()


@pytest.mark.broker
@pytest.mark.extended
def test_three_old_nodes_survive_the_loss_of_one_and_take_it_back():
    with Broker("0.8.2.2", nodes=3, properties={"num.partitions": 1}) as broker:
        produce(broker, (0, 8, 2), "t", b"before")
        broker.kill(2)
        produce(broker, (0, 8, 2), "t", b"without it")
        broker.restart(2)
        assert {node.node_id for node in probe(HOST, broker.ports[1], timeout_s=60)} == {1, 2, 3}
        assert consume(broker, (0, 8, 2), "t", 2) == [b"before", b"without it"]


@pytest.mark.broker
@pytest.mark.extended
def test_data_that_is_kept_is_found_again_by_the_next_old_broker(tmp_path):
    with Broker("0.9.0.1", properties={"num.partitions": 1}, log_dir=tmp_path) as broker:
        ports = broker.ports
        produce(broker, (0, 9), "t", b"kept")
        os.killpg(broker.pids[0], signal.SIGKILL)  # it cannot say goodbye to ZooKeeper
    with Broker("0.9.0.1", ports=ports, log_dir=tmp_path) as broker:
        assert consume(broker, (0, 9), "t", 1) == [b"kept"]


@pytest.mark.broker
def test_the_command_leaves_an_old_broker_running_and_ends_it_with_its_zookeeper(tmp_path, monkeypatch, capsys):
    jars, cache, data = kafka_jars("0.8.2.2"), tmp_path / "cache", tmp_path / "data"
    cache.mkdir()
    (cache / "kafka-0.8.2.2").symlink_to(jars)
    monkeypatch.setenv("KAFKASOURCE_CACHE", str(cache))
    assert main(["broker", "start", "--kafka-version", "0.8.2.2", "--data", str(data), "--json"]) == 0
    try:
        state = json.loads(capsys.readouterr().out)
        host, _, port = state["bootstrap_servers"].partition(":")
        assert [node.node_id for node in probe(host, int(port), timeout_s=60)] == [1]
        assert len(commands_that_name(f"{data}/")) == 4
    finally:
        assert main(["broker", "stop"]) == 0
    assert commands_that_name(f"{data}/") == []
    assert (data / "zookeeper").is_dir()
