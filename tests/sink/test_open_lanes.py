"""What an operator is shown as open, where transactions end while he looks."""

from dataclasses import dataclass, field

import pytest
from fake_broker import FakeKafka, serve
from fake_transactions import FakeTransaction

import kafkasource
from kafkasource.client.transaction_admin import DescribedTransaction, ListedTransaction
from kafkasource.errors import OptionError
from kafkasource.sink.lanes import TransactionalIds, transactional_ids
from kafkasource.sink.open_lanes import abort, open_transactions

IDS = TransactionalIds("orders")


@dataclass
class MovingCluster:
    """Two answers that are not of one moment: the states when listed, and those when each was described."""

    listed: dict
    described: dict
    aborted: list = field(default_factory=list)

    def list_transactions(self, prefix):
        return [ListedTransaction(name, 1, state, 0) for name, state in self.listed.items() if state == "Ongoing"]

    def describe_transactions(self, names):
        return {name: described(name, self.described.get(name)) for name in names}

    def abort_transaction(self, name):
        self.aborted.append(name)
        return described(name, self.described[name])

    def fetch_committed(self, group, partitions, require_stable):
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


LOCATION = "/checkpoints/orders"


@pytest.mark.parametrize(
    ("given", "prefix"),
    [
        ({"transactionalIdPrefix": "orders"}, "orders"),
        ({"checkpointLocation": LOCATION}, transactional_ids(None, {"checkpointlocation": LOCATION}).prefix),
    ],
)
def test_a_monitor_asks_with_the_options_of_the_sink(given, prefix):
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


def test_whoever_names_no_query_is_told_what_is_missing():
    options = {"kafka.bootstrap.servers": "localhost:1", "deliveryGuarantee": "exactly_once"}
    with pytest.raises(OptionError, match="transactionalIdPrefix"):
        kafkasource.open_transactions(options)
