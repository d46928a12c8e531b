"""With atomicBatch two attempts of a task never both write, also where Spark numbers them both 0."""

import itertools
import threading
from operator import attrgetter

import pyarrow as pa
import pytest
from producers_of_fakes import run_task
from test_exactly_once import Query, check, seen
from transaction_fakes import FakeContext, FakeTransactionCluster

from kafkasource.errors import BrokerError, DeadlineExceeded
from kafkasource.exactly_once.errors import CannotWriteOnce, NotDecided
from kafkasource.exactly_once.query_identity import IdentitySource
from kafkasource.exactly_once.task.task import ExactlyOnceTask, Guarantee
from kafkasource.types import Written

ATOMIC = Guarantee(IdentitySource("p"), 600_000, True, "fail")
ANY_DIALECT = pytest.mark.parametrize("version", [1, 2])


class AtomicQuery(Query):
    """The driver and its tasks, both as they are."""

    def __init__(self, cluster, **how):
        super().__init__(cluster, atomic=True, **how)

    def task(self, begun, batch_id, slot, cluster=None, after=None):
        """`after` is called when the rows are written."""
        cluster = cluster or self.cluster
        context = FakeContext(slot)
        context.properties = {"streaming.sql.batchId": str(batch_id), "sql.streaming.queryId": self.query_id}
        of_partition = self.rows_of(batch_id, slot)
        rows = [row.encode() for some in of_partition.values() for row in some]

        def write(values, transaction):
            assert values == rows
            transaction.enroll(of_partition)
            producer = transaction.producer
            for tp, some in of_partition.items():
                cluster.produce(transaction.transactional_id, producer, tp, some, transaction.transaction_version)
            if after is not None:
                after()
            return {tp: Written(len(some), 1, 0, len(some) - 1) for tp, some in of_partition.items()}

        batch = pa.record_batch([pa.array(rows, pa.binary())], names=["value"])
        result, _ = run_task(ExactlyOnceTask.start(ATOMIC, begun, context), [batch], cluster, write)
        return result


class LostFiles(Exception):
    """What a task of a stage that is run again died of."""


def dies():
    raise LostFiles


@ANY_DIALECT
def test_a_task_of_a_stage_that_is_run_again_writes_nothing_and_the_batch_starts_anew(version):
    cluster = FakeTransactionCluster(version)
    query = AtomicQuery(cluster, batches=1)
    begun = query.new_driver().begin()
    with pytest.raises(LostFiles):
        query.task(begun, 0, 0, after=dies)
    with pytest.raises(CannotWriteOnce, match="another attempt of task 0"):
        query.task(begun, 0, 0)
    query.new_driver().abort([query.task(begun, 0, 1)], 0)
    assert not seen(cluster)
    query.run()
    check(cluster, query.expected())
    assert not any(known.open for known in cluster.by_id.values())


@ANY_DIALECT
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_or_an_error_at_any_call_of_driver_and_tasks_loses_and_doubles_nothing(version, moment):
    cluster = FakeTransactionCluster(version)
    AtomicQuery(cluster).run()
    calls = len(cluster.calls)
    assert calls > 50
    for number in range(calls):
        for faults in ({"crash_at": {number: moment}}, {"raise_at": {number: (moment, DeadlineExceeded("no answer"))}}):
            cluster = FakeTransactionCluster(version)
            vars(cluster).update(faults)
            query = AtomicQuery(cluster)
            query.run_to_the_end()
            check(cluster, query.expected())


@ANY_DIALECT
def test_a_task_writes_also_when_its_producer_id_has_used_up_its_epochs(version):
    cluster = FakeTransactionCluster(version)
    query = AtomicQuery(cluster, batches=6)
    query.run_batch(0)
    for name in ("p-driver", "p-0", "p-1"):
        known = cluster.by_id[name]
        known.producer = known.producer._replace(producer_epoch=32_764)
    query.run()
    check(cluster, query.expected())


class InTurn:
    """The cluster for several threads, whose calls come in the order given; afterwards in any."""

    def __init__(self, cluster, order):
        self._cluster, self._order, self._changed = cluster, list(order), threading.Condition()

    def ended(self, name):
        with self._changed:
            self._order = [each for each in self._order if each != name]
            self._changed.notify_all()

    def as_seen_by(self, name):
        return _Seen(self, name)

    def call(self, name, method, args):
        with self._changed:
            assert self._changed.wait_for(lambda: name not in self._order or self._order[0] == name, 10)
            if self._order and self._order[0] == name:
                self._order.pop(0)
            try:
                return attrgetter(method)(self._cluster)(*args)
            finally:
                self._changed.notify_all()


class _Seen:
    """The cluster, or a part of it."""

    def __init__(self, turns, name, part=""):
        self._turns, self._name, self._part = turns, name, part

    def __getattr__(self, method):
        if method == "transactions":
            return _Seen(self._turns, self._name, "transactions.")
        return lambda *args: self._turns.call(self._name, self._part + method, args)


@ANY_DIALECT
@pytest.mark.parametrize("earlier", [0, 1], ids=["a new id", "a known id"])
def test_of_two_attempts_side_by_side_not_both_are_in_what_is_decided(version, earlier):
    calls = 5 if version == 1 else 4  # describe, init, add offsets, (add partitions), produce
    for chosen in itertools.combinations(range(2 * calls), calls):
        cluster = FakeTransactionCluster(version)
        query = AtomicQuery(cluster, batches=earlier + 1)
        for batch_id in range(earlier):
            query.run_batch(batch_id)
        begun = query.new_driver().begin()
        turns = InTurn(cluster, ["a" if number in chosen else "b" for number in range(2 * calls)])
        results = {}

        def attempt(name, query=query, begun=begun, turns=turns, results=results):
            try:
                results[name] = query.task(begun, earlier, 0, turns.as_seen_by(name))
            except (CannotWriteOnce, BrokerError):
                pass
            finally:
                turns.ended(name)

        threads = [threading.Thread(target=attempt, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in list(results.values())[:1]:  # whichever Spark takes
            try:
                query.new_driver().commit([result, *(query.task(begun, earlier, slot) for slot in (1, 2))], earlier)
            except NotDecided:
                query.new_driver().abort([result], earlier)
        query.run_to_the_end()
        check(cluster, query.expected())
