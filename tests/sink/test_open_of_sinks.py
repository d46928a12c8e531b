"""Tests which transactions an operator sees as open, when some end while he looks."""

from dataclasses import dataclass, field

import pytest
from fake_broker import FakeKafka, serve
from fake_transactions import FakeTransaction

import kafkasource
from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.exactly_once.names import TransactionalIds
from kafkasource.kafka.cluster.transactions import DescribedTransaction, ListedTransaction
from kafkasource.sink.open_transactions import abort, of_clusters, open_transactions

IDS = TransactionalIds("orders")


@dataclass
class MovingCluster:
    """Two answers that are not of one moment: the states when listed, and those when each was described."""

    listed: dict
    described: dict
    aborted: list = field(default_factory=list)

    @property
    def transactions(self):
        return self

    @property
    def groups(self):
        return self

    def list(self, prefix):
        return [ListedTransaction(name, 1, state, 0) for name, state in self.listed.items() if state == "Ongoing"]

    def describe(self, names):
        return {name: described(name, self.described.get(name)) for name in names}

    def abort(self, name):
        self.aborted.append(name)
        return described(name, self.described[name])

    def committed(self, group, partitions, require_stable):
        return {}


def described(name, state):
    return None if state is None else DescribedTransaction(name, state, 1, 0, 60_000, None, ())


def test_what_ended_between_the_two_questions_is_not_shown():
    cluster = MovingCluster(
        {"orders-0": "Ongoing", "orders-1": "PrepareCommit", "orders-2": "Ongoing", "orders-3": "Ongoing"},
        {"orders-0": "CompleteCommit", "orders-1": "Empty", "orders-3": "Ongoing"},  # orders-2 has expired
    )
    assert [each.name for each in open_transactions(cluster, IDS)] == ["orders-3"]


def test_what_ended_between_the_two_questions_is_neither_aborted_nor_left():
    cluster = MovingCluster({"orders-0": "Ongoing", "orders-1": "Ongoing"}, {"orders-0": "CompleteAbort"})
    assert abort(cluster, IDS) == ([], [])
    assert cluster.aborted == []


def test_one_whose_end_is_under_way_is_not_open():
    for state in ("PrepareCommit", "PrepareAbort"):
        assert open_transactions(MovingCluster({"orders-0": state}, {"orders-0": state}), IDS) == []
        assert open_transactions(MovingCluster({"orders-0": "Ongoing"}, {"orders-0": state}), IDS) == []


@pytest.mark.parametrize("named", ["prefix", "checkpoint"])
def test_a_monitor_asks_with_the_options_of_the_sink(named, tmp_path):
    (tmp_path / "metadata").write_text('{"id":"q-1"}')
    given, prefix = {
        "prefix": ({"transactionalIdPrefix": "orders"}, "orders"),
        "checkpoint": ({"checkpointLocation": f"file://{tmp_path}/"}, "kafkasource-q-1"),
    }[named]
    kafka = FakeKafka(topics={"t": 2})
    kafka.transactions = {
        f"{prefix}-driver": FakeTransaction(1000, state="CompleteCommit"),
        f"{prefix}-0": FakeTransaction(1001, state="Ongoing", partitions={("t", 0)}),
        f"{prefix}-1": FakeTransaction(1002, state="Ongoing", partitions={("t", 1)}),
        "another-0": FakeTransaction(1003, state="Ongoing", partitions={("t", 1)}),
    }
    with serve(kafka) as (host, port):
        options = {"kafka.bootstrap.servers": f"{host}:{port}", "topic": "t", "deliveryGuarantee": "exactly_once"}
        found = kafkasource.open_transactions(options | given)
    assert [each.name for each in found] == [f"{prefix}-0", f"{prefix}-1"]
    assert [each.open_for_ms(1_700_000_005_000) for each in found] == [5000, 5000]  # as the fake's clock has it


def test_of_a_sink_with_clusters_each_is_asked_for_its_own(tmp_path):
    (tmp_path / "metadata").write_text('{"id":"q-1"}')
    east, west = FakeKafka(topics={"t": 1}), FakeKafka(topics={"t": 1})
    east.transactions = {"kafkasource-q-1-east-0": FakeTransaction(1, state="Ongoing", partitions={("t", 0)})}
    west.transactions = {
        "kafkasource-q-1-west-3": FakeTransaction(1, state="Ongoing", partitions={("t", 0)}),
        "kafkasource-q-1-east-1": FakeTransaction(2, state="Ongoing", partitions={("t", 0)}),  # nobody's here
    }
    with serve(east) as here, serve(west) as there:
        options = {
            "clusters.east.kafka.bootstrap.servers": "{}:{}".format(*here),
            "clusters.west.kafka.bootstrap.servers": "{}:{}".format(*there),
            "checkpointLocation": str(tmp_path),
            "deliveryGuarantee": "exactly_once",
        }
        found = kafkasource.open_transactions(options)
    assert [(each.cluster, each.name) for each in found] == [
        ("east", "kafkasource-q-1-east-0"),
        ("west", "kafkasource-q-1-west-3"),
    ]


def test_a_cluster_that_cannot_be_asked_does_not_hide_the_others():
    east = FakeKafka(topics={"t": 1})
    east.transactions = {"p-east-0": FakeTransaction(1, state="Ongoing", partitions={("t", 0)})}
    with serve(east) as (host, port):
        options = {
            "clusters.east.kafka.bootstrap.servers": f"{host}:{port}",
            "clusters.west.kafka.bootstrap.servers": "127.0.0.1:1",
            "kafka.default.api.timeout.ms": "1000",
            "kafka.request.timeout.ms": "500",
            "transactionalIdPrefix": "p",
            "deliveryGuarantee": "exactly_once",
        }
        found = of_clusters(options)
        with pytest.raises(KafkaSourceError, match=r"127\.0\.0\.1:1"):
            kafkasource.open_transactions(options)
    assert [each.name for each in found["east"]] == ["p-east-0"]  # type: ignore[union-attr]
    assert isinstance(found["west"], KafkaSourceError)


def test_whoever_names_no_query_is_told_what_is_missing():
    options = {"kafka.bootstrap.servers": "localhost:1", "deliveryGuarantee": "exactly_once"}
    with pytest.raises(OptionError, match="transactionalIdPrefix"):
        kafkasource.open_transactions(options)
