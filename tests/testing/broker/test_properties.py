"""The configuration of a node, without a broker."""

from kafkasource.testing.broker.properties import NodePorts, free_ports, is_free, kafka_uuid, render, server_properties

ONE = [NodePorts(client=9092, controller=9093, advertised=9092)]
THREE = [NodePorts(client=9092 + n, controller=9192 + n, advertised=9292 + n) for n in range(3)]


def test_a_single_node_gets_coordinators_that_come_up_alone(tmp_path):
    properties = server_properties(1, ONE, tmp_path / "node-1", {})
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:9093"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert properties["log.dirs"] == str(tmp_path / "node-1")
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        assert properties[f"{topic}.replication.factor"] == "1"


def test_three_nodes_survive_the_loss_of_one(tmp_path):
    properties = server_properties(2, THREE, tmp_path, {})
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:9192,2@127.0.0.1:9193,3@127.0.0.1:9194"
    assert properties["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9293"
    assert (properties["default.replication.factor"], properties["min.insync.replicas"]) == ("3", "2")
    assert (properties["transaction.state.log.replication.factor"], properties["transaction.state.log.min.isr"]) == (
        "3",
        "2",
    )


def test_what_the_user_says_has_the_last_word(tmp_path):
    properties = server_properties(1, ONE, tmp_path, {"num.partitions": 7, "auto.create.topics.enable": "false"})
    assert (properties["num.partitions"], properties["auto.create.topics.enable"]) == ("7", "false")


def test_a_value_cannot_become_a_second_property():
    assert render({"a": "1\nb=2", "path": "C:\\x"}) == "a=1\\nb=2\npath=C:\\\\x\n"


def test_a_value_is_read_as_java_reads_it():
    # java.util.Properties: ISO-8859-1 with UTF-16 units as \uXXXX, and no leading space unless it is escaped.
    assert render({"a": "ü", "b": " 😀", "c": "a b"}) == "a=\\u00fc\nb=\\ \\ud83d\\ude00\nc=a b\n"


def test_a_new_id_is_never_taken_for_an_option():
    ids = [kafka_uuid() for _ in range(2000)]
    assert all(len(text) == 22 for text in ids)
    assert not any(text.startswith("-") for text in ids)


def test_free_ports_differ_and_are_free():
    ports = free_ports(6)
    assert len(set(ports)) == 6
    assert all(map(is_free, ports))
