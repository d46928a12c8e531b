"""What an operator is shown as open, where transactions end while he looks."""

from dataclasses import dataclass, field

from kafkasource.client.transaction_admin import DescribedTransaction, ListedTransaction
from kafkasource.sink.lanes import TransactionalIds
from kafkasource.sink.open_lanes import abort, open_transactions

IDS = TransactionalIds("orders")


@dataclass
class MovingCluster:
    """Two answers that are not of one moment: the states when listed, and those when each was described."""

    listed: dict
    described: dict
    aborted: list = field(default_factory=list)

    def list_transactions(self, prefix, states):
        return [ListedTransaction(name, 1, state, 0) for name, state in self.listed.items() if state in states]

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


def test_one_whose_markers_are_still_missing_is_shown_and_left_to_its_coordinator():
    cluster = MovingCluster({"orders-0": "PrepareAbort"}, {"orders-0": "PrepareAbort"})
    assert [each.name for each in open_transactions(cluster, IDS)] == ["orders-0"]
    aborted, left = abort(cluster, IDS)
    assert (aborted, [each.name for each in left], cluster.aborted) == ([], ["orders-0"], [])
