"""The driver's side on the real client and three in-process brokers, each the coordinator of some; answers get lost."""

import pytest
from driver_world import IDS, T, World
from fake_broker import CLOSE, Cut, Error
from fake_transactions import LAST_EPOCH
from transaction_fakes import FakeContext, but_first

from kafkasource.exactly_once.decision_status import LastBatch
from kafkasource.exactly_once.errors import LostTransactions, NotDecided
from kafkasource.exactly_once.query_identity import IdentitySource
from kafkasource.exactly_once.task.content import ContentSum
from kafkasource.exactly_once.task.task import ExactlyOnceTask, Guarantee
from kafkasource.kafka.protocol.apis import (
    ADD_OFFSETS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    OFFSET_FETCH,
    TXN_OFFSET_COMMIT,
)


@pytest.fixture(params=[1, 2])
def world(request):
    return World(request.param, request_timeout_ms=5_000, default_api_timeout_ms=20_000)


def test_all_transactions_are_committed_wherever_their_coordinators_are(world):
    world.driver().commit(world.written(), 7)
    assert world.states() == ["CompleteCommit"] * 4
    assert world.driver().begin().last == LastBatch(1, "stream", "q", 7)
    assert world.kafka.committed == {("p-marker", "t", 0): 7, ("p-kept", "t", 0): 7}


ASKED = [DESCRIBE_TRANSACTIONS, TXN_OFFSET_COMMIT, ADD_OFFSETS_TO_TXN, END_TXN, FIND_COORDINATOR]
FAULTS = [(api, fault) for api in ASKED for fault in (CLOSE, Cut(0), Error(16))]
FAULTS += [(api, Error(51)) for api in (ADD_OFFSETS_TO_TXN, END_TXN)]


@pytest.mark.parametrize(("api", "fault"), FAULTS, ids=lambda each: getattr(each, "name", str(each)))
def test_a_lost_answer_or_a_passing_error_of_a_commit_is_asked_again(world, api, fault):
    results = world.written()
    world.kafka.fault(api, fault, fault)
    world.driver().commit(results, 7)
    assert world.states() == ["CompleteCommit"] * 4


@pytest.mark.parametrize("left", [0, 1])
def test_a_lost_answer_is_asked_again_where_an_id_has_no_epochs_left(world, left):
    world.driver().commit(world.written(), 7)
    before = {name: txn.producer_id for name, txn in world.kafka.transactions.items()}
    for txn in world.kafka.transactions.values():
        txn.epoch = LAST_EPOCH - left
    results = world.written()
    world.kafka.fault(END_TXN, Cut(0), Cut(0))
    world.driver().commit(results, 8)
    assert world.states() == ["CompleteCommit"] * 4
    assert world.driver().begin().last == LastBatch(2, "stream", "q", 8)
    others = [IDS.task(slot) for slot in range(4)]
    others = [name for name in others if world.kafka.transactions[name].producer_id != before[name]]
    assert len(others) == (0 if left and world.kafka.transaction_version == 1 else 4)  # there an end uses up none


@pytest.mark.parametrize("api", [INIT_PRODUCER_ID, OFFSET_FETCH, LIST_TRANSACTIONS, END_TXN], ids=lambda a: a.name)
def test_begin_survives_lost_answers_and_finds_the_same(world, api):
    world.driver().commit(world.written(), 7)
    world.written()  # a batch that was never decided
    world.kafka.fault(api, CLOSE, Cut(0))
    assert world.driver().begin().last == LastBatch(1, "stream", "q", 7)
    assert "Ongoing" not in world.states()


def test_transactions_that_timed_out_before_the_decision_undo_it_and_after_it_are_told_of(world):
    results = world.written()
    world.kafka.time_out("p-2")
    with pytest.raises(NotDecided, match="'p-2'"):
        world.driver().commit(results, 7)
    assert not world.kafka.committed
    world.driver().abort(results, 7)
    assert "Ongoing" not in world.states()

    results = world.written()
    late = world.driver(but_first(lambda: world.kafka.time_out("p-3")))
    with pytest.raises(LostTransactions, match=r"tasks \[3\] \(1 rows\)"):
        late.commit(results, 7)
    assert [transaction.slot for transaction in world.driver().begin().lost] == [3]


# Brokers that do not serve all that the sink would ask.

LAST_BEFORE_3_0 = {FIND_COORDINATOR: 3}  # one id at a time
BEFORE_2_5 = LAST_BEFORE_3_0 | {INIT_PRODUCER_ID: 2, OFFSET_FETCH: 6, END_TXN: 1, TXN_OFFSET_COMMIT: 2}


@pytest.mark.parametrize("last", [LAST_BEFORE_3_0, BEFORE_2_5], ids=["2.8", "2.4"])
def test_brokers_that_tell_nothing_of_transactions_take_a_batch_once(last):
    """Before Kafka 3.0: a task cannot ask whether its driver lives on, and is not failed by that."""
    world = World(1)
    del world.kafka.versions[DESCRIBE_TRANSACTIONS.key], world.kafka.versions[LIST_TRANSACTIONS.key]
    world.kafka.versions |= {api.key: (0, most) for api, most in last.items()}
    guarantee = Guarantee(IdentitySource("p"), 600_000, False, "fail")

    def run(batch_id):
        begun = world.driver().begin()
        task = ExactlyOnceTask.start(guarantee, begun, FakeContext(2, batch_id=batch_id))
        rows = ContentSum()
        rows.rows = 1
        if not task.plan.write:
            return world.driver().commit([task.skipped(rows)], batch_id)
        transaction = task.open_transaction(world.cluster)
        world.cluster.transactions.add_partitions(IDS.task(2), transaction.producer, [T[2]])
        result = task.result(transaction, rows, [T[2]])
        return world.driver().commit([result], batch_id)

    assert run(0).committed == 1
    assert world.kafka.transactions["p-2"].state == "CompleteCommit"
    assert run(0).committed == 0  # skipped
    assert run(1).committed == 1
