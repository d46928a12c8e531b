"""`Broker` and `pykafka broker` against the real thing; confluent-kafka says whether what came up is a Kafka."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest
from child_environment import with_package

from kafkasource.errors import OptionError
from kafkasource.testing.broker import Broker, BrokerNotOurs, BrokerStartFailed, kafka_jars, properties
from kafkasource.testing.broker.probe import probe
from kafkasource.testing.broker.properties import HOST, free_ports
from kafkasource.tools.cli import main


@pytest.fixture(autouse=True)
def no_existing_cluster(monkeypatch):
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)


def eventually(condition, within_s=60.0):
    """Wait for another process; only its failure takes as long as the limit."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s"
        time.sleep(0.05)


def runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not is_zombie(pid)


def is_zombie(pid):
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return state.startswith("Z")


def produce(servers, topic, value):
    from confluent_kafka import Producer

    failures = []
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "message.timeout.ms": 60000})
    producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(60) == 0
    assert failures == [None]


def create_topic(servers, topic, partitions, replicas):
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})  # kept until the answer: it ends with its last reference
    admin.create_topics([NewTopic(topic, partitions, replicas)])[topic].result(60)


def consume(servers, topic, count):
    from confluent_kafka import Consumer, TopicPartition

    with closing(Consumer({"bootstrap.servers": servers, "group.id": "g", "enable.auto.commit": False})) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, timeout=60)]


# Without a broker


def test_wrong_arguments_are_refused_before_anything_starts():
    with pytest.raises(OptionError, match="expected 1 or 3"):
        Broker(nodes=2)
    with pytest.raises(OptionError, match="ports"):
        Broker(nodes=3, ports=[9092])
    with pytest.raises(OptionError, match=r"'0\.7\.2': Broker runs Kafka 0\.8\.2 and newer"):
        Broker("0.7.2")
    with pytest.raises(OptionError, match=r"'2\.3\.1': .* fails on Java 14"):
        Broker("2.3.1")
    with pytest.raises(OptionError, match="have no racks"):
        Broker("0.9.0.1", racks=["a"])
    for port in (0, 70_000):  # 0 would be one that nobody learns of
        with pytest.raises(OptionError, match="1 to 65535"):
            Broker(ports=[port])
    with pytest.raises(OptionError, match="a Kafka release"):
        Broker("latest")


def test_an_existing_cluster_is_used_and_left_alone(monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "kafka-a:9092,kafka-b:9092")
    with Broker() as broker:
        assert broker.bootstrap_servers == "kafka-a:9092,kafka-b:9092"
        for forbidden in (broker.kill, broker.restart, broker.terminate):
            with pytest.raises(BrokerNotOurs, match="KAFKA_BOOTSTRAP_SERVERS"):
                forbidden(1)
    assert Broker(use_existing=False).existing is False


def test_before_the_start_there_is_no_address():
    with pytest.raises(BrokerStartFailed, match="not started"):
        _ = Broker().bootstrap_servers


# With one


@pytest.mark.broker
def test_a_node_that_was_killed_or_paused_comes_back_with_its_data_and_address():
    with Broker(properties={"num.partitions": 1}) as broker:
        servers = broker.bootstrap_servers
        produce(servers, "t", b"before")
        broker.kill(1)
        with pytest.raises(OSError, match="refused"):
            probe(HOST, broker.ports[0], timeout_s=5)
        broker.restart(1)
        assert broker.bootstrap_servers == servers
        produce(servers, "t", b"after")
        assert consume(servers, "t", 2) == [b"before", b"after"]
        broker.pause(1)
        with pytest.raises(TimeoutError):  # connected, but answered by nobody
            probe(HOST, broker.ports[0], timeout_s=0.2)
        broker.resume(1)
        assert [node.node_id for node in probe(HOST, broker.ports[0], timeout_s=60)] == [1]
        folder = broker.folder
    assert not folder.exists()


@pytest.mark.broker
@pytest.mark.extended
def test_three_nodes_go_on_without_one_of_them():
    with Broker(nodes=3) as broker:
        create_topic(broker.bootstrap_servers, "t", 3, 3)
        broker.kill(2)
        produce(broker.bootstrap_servers, "t", b"with two of three")
        broker.restart(2)
        for port in broker.ports:
            assert [node.node_id for node in probe(HOST, port, timeout_s=60)] == [1, 2, 3]


@pytest.mark.broker
@pytest.mark.extended
def test_nodes_go_to_a_newer_release_one_by_one_and_keep_their_records():
    with Broker(version="3.9.2", nodes=3, use_existing=False) as broker:
        create_topic(broker.bootstrap_servers, "t", 1, 3)
        for node in (1, 2, 3):
            produce(broker.bootstrap_servers, "t", b"before %d" % node)
            broker.restart(node, version="4.3.1")
            said = (broker.folder / f"node-{node}" / "meta.properties").read_text()
            assert f"node.id={node}" in said  # the same data
        broker.kill(2)
        broker.restart(2)  # stays what it is
        commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in broker.pids]
        assert all("4.3.1" in command and "3.9.2" not in command for command in commands)
        assert consume(broker.bootstrap_servers, "t", 3) == [b"before 1", b"before 2", b"before 3"]
        with pytest.raises(OptionError, match="only a node of a Kafka with KRaft"):
            broker.restart(1, version="0.9.0.1")


@pytest.mark.broker
def test_metadata_advertises_the_proxys_port_in_3_9():
    proxy = free_ports(1)
    with Broker("3.9.2", advertised_ports=proxy) as broker:
        assert broker.bootstrap_servers == f"{HOST}:{proxy[0]}"
        assert broker.ports != proxy
        assert [node.port for node in probe(HOST, broker.ports[0], timeout_s=60)] == proxy


@pytest.mark.broker
@pytest.mark.extended
def test_a_kept_folder_serves_again(tmp_path):
    ports = free_ports(1)
    with Broker(ports=ports, log_dir=tmp_path / "kept", properties={"num.partitions": 1}) as broker:
        produce(broker.bootstrap_servers, "t", b"kept")
    with Broker(ports=ports, log_dir=tmp_path / "kept") as broker:
        assert consume(broker.bootstrap_servers, "t", 1) == [b"kept"]


@pytest.mark.broker
def test_a_kafka_that_fails_to_start_shows_its_log_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(BrokerStartFailed, match=r"exit code 1(?s:.*)Class no\.such\.Reporter cannot be found"):
        Broker(properties={"metric.reporters": "no.such.Reporter"}).start()
    with pytest.raises(BrokerStartFailed, match=r"refuses its properties(?s:.*)Invalid value many"):
        Broker(properties={"num.partitions": "many"}).start()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.broker
@pytest.mark.extended
def test_a_port_lost_between_choice_and_start_is_chosen_again(monkeypatch):
    with socket.create_server((HOST, 0)) as winner:
        taken = winner.getsockname()[1]
        choices = iter([[taken, *free_ports(1)], free_ports(2)])
        monkeypatch.setattr(properties, "free_ports", lambda count: next(choices))
        with Broker() as broker:
            assert broker.ports != [taken]
            pids, folder = broker.pids, broker.folder
        assert not any(map(runs, pids))
        assert not folder.exists()
        with pytest.raises(BrokerStartFailed, match=f"port {taken} .* in use: choose another"):
            Broker(ports=[taken]).start()


@pytest.mark.broker
def test_no_kafka_and_no_data_outlive_a_parent_killed_with_9():
    code = """
import os, signal, sys
from kafkasource.testing.broker import Broker
broker = Broker()
broker.start()
if os.fork() == 0:  # a child that lives on holds the pipe open as well
    signal.pause()
print(broker.pids[0], broker.folder, broker.ports[0], flush=True)
signal.pause()
"""
    environment = with_package()
    parent = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        pid, folder, port = parent.stdout.readline().split()
        assert runs(int(pid))
        assert Path(folder).is_dir()
        parent.kill()
        parent.wait()
        eventually(lambda: not runs(int(pid)) and not Path(folder).exists())
        with pytest.raises(OSError, match="refused"):
            probe(HOST, int(port), timeout_s=5)
    finally:
        os.killpg(parent.pid, signal.SIGKILL)  # its forked child
        parent.stdout.close()


@pytest.mark.broker
@pytest.mark.parametrize("moment", ["while it is formatted", "while it starts"])
def test_ctrl_c_during_a_start_leaves_no_process_and_no_folder(tmp_path, moment):
    jars, cache, temporary = kafka_jars("4.3.1"), tmp_path / "cache", tmp_path / "tmp"
    cache.mkdir(), temporary.mkdir()
    (cache / "kafka-4.3.1").symlink_to(jars)
    environment = with_package(KAFKASOURCE_CACHE=str(cache), TMPDIR=str(temporary))
    command = [sys.executable, "-m", "kafkasource", "broker", "start"]
    starting = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a group of its own, as a shell gives each command: Ctrl-C goes to all of it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a run in the background ignores it
    )
    sign = "*/node-1.properties" if moment == "while it is formatted" else "*/node-1.log"
    eventually(lambda: list(temporary.glob(sign)))
    os.killpg(starting.pid, signal.SIGINT)
    out, err = starting.communicate(timeout=60)
    assert (starting.returncode, out, err) == (
        130,
        "",
        "pykafka: starting Kafka 4.3.1 ...\npykafka: interrupted\n",
    )
    assert list(temporary.iterdir()) == []
    assert not (cache / "broker.json").exists()
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(temporary) not in running


def test_a_preferred_port_that_is_taken_is_not_used():
    (taken, free) = free_ports(2)
    with socket.socket() as other:
        other.bind((HOST, taken))
        other.listen()
        for preferred, used in (([taken], False), ([free], True)):
            (ports,) = Broker()._choose_ports(preferred)
            assert (ports.client in preferred) == used


@pytest.mark.broker
def test_the_command_line_starts_one_broker_and_stops_it(tmp_path, monkeypatch, capsys):
    jars = kafka_jars("4.3.1")
    monkeypatch.setenv("KAFKASOURCE_CACHE", str(tmp_path))
    (tmp_path / "kafka-4.3.1").symlink_to(jars)
    (usual,) = free_ports(1)
    monkeypatch.setattr("kafkasource.testing.broker.detached.USUAL_PORT", usual)
    assert main(["broker", "status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"running": False}
    try:
        assert main(["broker", "start", "--data", str(tmp_path / "data")]) == 0
        first = capsys.readouterr()
        servers = first.out.strip()
        assert first.err == "pykafka: starting Kafka 4.3.1 ...\n"
        host, port = servers.split(":")
        assert int(port) == usual  # 9092, which the documents name
        assert [node.node_id for node in probe(host, int(port), timeout_s=60)] == [1]
        assert main(["broker", "start"]) == 0
        again = capsys.readouterr()
        assert again.out.strip() == servers
        assert "already running" in again.err
        assert "starting" not in again.err
        assert main(["broker", "status", "--json"]) == 0
        status = json.loads(capsys.readouterr().out)
        assert (status["running"], status["bootstrap_servers"]) == (True, servers)
    finally:
        assert main(["broker", "stop"]) == 0
    assert not any(map(runs, status["pids"]))
    assert (tmp_path / "data" / "node-1" / "meta.properties").exists()
    assert main(["broker", "status"]) == 1
