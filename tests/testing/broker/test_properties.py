"""What a node is told, and how readiness is read, without a broker."""

import struct

import pytest

from kafkasource.testing.broker.probe import CORRELATION_ID, REQUEST, decode_brokers
from kafkasource.testing.broker.properties import NodePorts, free_ports, is_free, kafka_uuid, render, server_properties
from kafkasource.types import Node

ONE = [NodePorts(client=9092, controller=9093, advertised=9092)]
THREE = [NodePorts(client=9092 + n, controller=9192 + n, advertised=9292 + n) for n in range(3)]


def test_a_single_node_gets_coordinators_that_come_up_alone(tmp_path):
    told = server_properties(1, ONE, tmp_path / "node-1", {})
    assert told["controller.quorum.voters"] == "1@127.0.0.1:9093"
    assert told["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert told["log.dirs"] == str(tmp_path / "node-1")
    for kind in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        assert told[f"{kind}.replication.factor"] == "1"


def test_three_nodes_survive_the_loss_of_one(tmp_path):
    told = server_properties(2, THREE, tmp_path, {})
    assert told["controller.quorum.voters"] == "1@127.0.0.1:9192,2@127.0.0.1:9193,3@127.0.0.1:9194"
    assert told["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9293"
    assert (told["default.replication.factor"], told["min.insync.replicas"]) == ("3", "2")
    assert (told["transaction.state.log.replication.factor"], told["transaction.state.log.min.isr"]) == ("3", "2")


def test_what_the_user_says_has_the_last_word(tmp_path):
    told = server_properties(1, ONE, tmp_path, {"num.partitions": 7, "auto.create.topics.enable": "false"})
    assert (told["num.partitions"], told["auto.create.topics.enable"]) == ("7", "false")


def test_a_value_cannot_become_a_second_property():
    assert render({"a": "1\nb=2", "path": "C:\\x"}) == "a=1\\nb=2\npath=C:\\\\x\n"


def test_a_value_is_read_as_java_reads_it():
    # java.util.Properties: ISO-8859-1 with UTF-16 units as \uXXXX, and no leading space unless it is escaped.
    assert render({"a": "ü", "b": " 😀", "c": "a b"}) == "a=\\u00fc\nb=\\ \\ud83d\\ude00\nc=a b\n"


def test_a_new_id_is_never_taken_for_an_option():
    ids = [kafka_uuid() for _ in range(2000)]
    assert all(len(each) == 22 for each in ids)
    assert not any(each.startswith("-") for each in ids)


def test_free_ports_differ_and_are_free():
    ports = free_ports(6)
    assert len(set(ports)) == 6
    assert all(map(is_free, ports))


def test_the_hand_built_request_is_metadata_v0():
    head = bytes.fromhex("0000001f 0003 0000 00006b61 0011")
    assert head + b"kafkasource-probe" + bytes(4) == REQUEST


RESPONSE = (
    struct.pack(">ii", CORRELATION_ID, 2)
    + bytes.fromhex("00000001 0009") + b"127.0.0.1" + bytes.fromhex("00002384")
    + bytes.fromhex("00000002 0001") + b"b" + bytes.fromhex("00002385")
)  # fmt: skip


def test_the_brokers_are_read_from_a_metadata_response():
    rest = bytes.fromhex("00000000")  # topics, which nobody asks for
    assert decode_brokers(RESPONSE + rest) == [Node(1, "127.0.0.1", 9092), Node(2, "b", 9093)]


def test_a_response_cut_anywhere_or_of_somebody_else_is_refused():
    for end in range(len(RESPONSE)):
        with pytest.raises(ValueError, match="cut short"):
            decode_brokers(RESPONSE[:end])
    with pytest.raises(ValueError, match="not the answer"):
        decode_brokers(b"HTTP/1.1 400 Bad Request")
