"""A prefix belongs to one query: two of them, in every order of their steps, lose and double nothing; and what a query
decided under the prefix that earlier versions gave it is taken over.
"""

import itertools
from dataclasses import replace

import pytest
from test_exactly_once import ANY_DIALECT, IDS, Query, check, seen
from transaction_fakes import Crash, FakeTransactionCluster

from kafkasource.sink.transactions.batch.begin import BatchBegin
from kafkasource.sink.transactions.decision import last_decision
from kafkasource.sink.transactions.driver import ExactlyOnce
from kafkasource.sink.transactions.errors import AnotherQuery, LostDecision, LostTransactions, NotDecided
from kafkasource.sink.transactions.names import TransactionalIds
from kafkasource.sink.transactions.query_identity import QueryIdentity
from kafkasource.sink.transactions.states import BatchEvent

# Two queries with one prefix.


def steps_of(query, batch_id, ended):
    """A batch, step by step. `ended` is given how it ended."""
    results = []
    try:
        begun = query.new_driver().begin()
        yield
        for slot in range(3):
            results.append(query.task(begun, batch_id, slot))
            yield
        query.new_driver().commit(results, batch_id)
    except (AnotherQuery, NotDecided) as error:
        query.new_driver().abort(results, batch_id)
        ended.append(type(error))
        return
    except Exception as error:  # a task that another query has fenced
        query.new_driver().abort(results, batch_id)
        ended.append(type(error))
        return
    query.done.add(batch_id)
    ended.append(None)


def orders(steps):
    """Every way to take turns."""
    return sorted(set(itertools.permutations([0] * steps + [1] * steps)))


@ANY_DIALECT
@pytest.mark.parametrize("atomic", [False, True], ids=["transactions", "atomic"])
def test_two_queries_with_one_prefix_lose_and_double_nothing_in_whatever_order_they_go(version, atomic):
    outcomes = set()
    for order in orders(5):
        cluster = FakeTransactionCluster(version)
        queries = [Query(cluster, query_id=f"q{n}", batches=2, atomic=atomic) for n in range(2)]
        ended = [[], []]
        running = [steps_of(query, 0, ended[n]) for n, query in enumerate(queries)]
        for turn in order:
            next(running[turn], None)
        written = [query for query in queries if query.done]
        assert len(written) <= 1
        assert seen(cluster) == (written[0].expected([0]) if written else {})
        outcomes.add((len(written), *(kind.__name__ if kind else None for (kind,) in ended)))
        # Started again, its checkpoint not knowing of the batch, the decided one skips it. The other is refused.
        for query in written:
            query.done.clear()
            query.run()
            check(cluster, query.expected())
        for query in queries:
            if written and query is not written[0]:
                with pytest.raises(AnotherQuery, match=rf"'p' is that of batch 1 of query {written[0].query_id}"):
                    query.run()
                check(cluster, written[0].expected())
    assert (1, None, "AnotherQuery") in outcomes
    assert (1, "AnotherQuery", None) in outcomes


@ANY_DIALECT
def test_a_new_checkpoint_under_the_prefix_of_a_deleted_one_is_refused_until_the_decision_is_forgotten(version):
    cluster = FakeTransactionCluster(version)
    first, second = Query(cluster, query_id="q1"), Query(cluster, query_id="q2")
    first.run()
    with pytest.raises(AnotherQuery, match=r"batch 2 of query q1, .* 'pykafka transactions abort --prefix p', then .*"):
        second.run()
    check(cluster, first.expected())
    for key in [key for key in cluster.offsets if key[0].startswith("p-")]:  # pykafka groups delete
        del cluster.offsets[key]
    second.run()
    check(cluster, first.expected() + second.expected())


# A query of a version that made the prefix of the location's text.

OLD = TransactionalIds("kafkasource-of-the-text")


class Upgraded(Query):
    """Its batches went out under OLD until now."""

    ids, former, counts_skipped = OLD, (), False

    def task(self, begun, batch_id, slot):
        result = super().task(begun, batch_id, slot)
        if self.counts_skipped and result.skipped:  # as a task does
            return replace(result, skipped_rows=sum(map(len, self.rows_of(batch_id, slot).values())))
        return result

    def upgrade(self):
        self.ids, self.former = IDS, (TransactionalIds("kafkasource-otherwise"), OLD)

    def new_driver(self):
        identity = QueryIdentity(self.ids, self.query_id if self.former else None, self.former)
        return ExactlyOnce(self.cluster, identity, timeout_ms=600_000, atomic=self.atomic, on_lost=self.on_lost)


def crashed_at(query, batch_id, call):
    """Its driver dies in the batch's commit, before the first request whose name begins so."""
    results = query.write(batch_id)
    query.cluster.crash_before = call
    with pytest.raises(Crash):
        query.new_driver().commit(results, batch_id)


@ANY_DIALECT
def test_after_an_upgrade_the_query_goes_on_and_what_was_decided_is_finished_and_skipped(version):
    for call in (f"end {OLD.task(0)} True", f"end {OLD.task(1)} True"):  # no transaction had ended, or one of three
        cluster = FakeTransactionCluster(version)
        query = Upgraded(cluster)
        query.run_batch(0)
        crashed_at(query, 1, call)
        query.upgrade()
        query.run()
        check(cluster, query.expected())
        assert {name for name in cluster.by_id if name.endswith("driver")} == {IDS.driver, OLD.driver}


@ANY_DIALECT
def test_after_an_upgrade_what_was_not_decided_is_aborted_and_written_again(version):
    cluster = FakeTransactionCluster(version)
    query = Upgraded(cluster)
    query.run_batch(0)
    query.write(1)
    query.upgrade()
    query.run_batch(1)
    assert not cluster.by_id[OLD.task(0)].open
    query.run()
    check(cluster, query.expected())


@ANY_DIALECT
def test_after_an_upgrade_an_old_driver_that_still_lives_decides_nothing(version):
    cluster = FakeTransactionCluster(version)
    old, new = Upgraded(cluster), Upgraded(cluster)
    old.run_batch(0)
    late = old.write(1)
    new.upgrade()
    new.done = {0}
    new.run_batch(1)
    with pytest.raises(NotDecided):
        old.new_driver().commit(late, 1)
    new.run()
    check(cluster, new.expected())


@ANY_DIALECT
def test_after_an_upgrade_another_query_with_the_same_text_is_left_alone(version):
    cluster = FakeTransactionCluster(version)
    other, query = Upgraded(cluster, query_id="another-hosts"), Upgraded(cluster)
    other.run_batch(0)
    late = other.write(1)  # it goes on writing
    query.upgrade()
    query.run()
    other.new_driver().commit(late, 1)
    other.done.add(1)
    other.run()
    check(cluster, query.expected() + other.expected())


@ANY_DIALECT
def test_a_crash_at_any_call_after_an_upgrade_loses_and_doubles_nothing(version):
    def upgraded(crash_at=None):
        cluster = FakeTransactionCluster(version)
        query = Upgraded(cluster)
        query.run_batch(0)
        crashed_at(query, 1, f"end {OLD.task(1)} True")
        before = len(cluster.calls)
        if crash_at is not None:
            cluster.crash_at = {before + crash_at: "after"}
        query.upgrade()
        query.run_to_the_end()
        check(cluster, query.expected())
        return len(cluster.calls) - before

    for number in range(upgraded()):
        upgraded(number)


def lost_before_the_upgrade(version):
    """Of batch 0 one of three transactions is committed, and the others are lost."""
    cluster = FakeTransactionCluster(version)
    query = Upgraded(cluster, batches=2)
    crashed_at(query, 0, f"end {OLD.task(1)} True")
    cluster.time_is_up()
    query.upgrade()
    return cluster, query


@ANY_DIALECT
def test_transactions_lost_under_the_former_prefix_are_told_of_and_can_be_written_again(version):
    cluster, query = lost_before_the_upgrade(version)
    with pytest.raises(LostTransactions, match=r"tasks \[1, 2\]"):
        query.run()
    query.on_lost = "rewrite"
    query.run()
    check(cluster, query.expected())
    last = last_decision({tp: row for (group, tp), row in cluster.offsets.items() if group == IDS.marker_group})
    assert (last.batch_id, last.number) == (1, 3)


@ANY_DIALECT
def test_rows_lost_under_the_former_prefix_and_written_again_are_counted_with_those_that_were_not(version):
    """Spark dies before it notes the batch, and runs it again: it is skipped, with as many rows as it has in all."""
    cluster, query = lost_before_the_upgrade(version)
    query.on_lost, query.counts_skipped = "rewrite", True
    query.new_driver().commit(query.write(0), 0)
    check(cluster, query.expected([0]))
    query.run()
    check(cluster, query.expected())


@ANY_DIALECT
def test_so_they_are_where_some_were_lost_and_written_again_twice(version):
    """The second decision under the present prefix, too, names only some of the batch's rows."""
    cluster, query = lost_before_the_upgrade(version)
    query.on_lost, query.counts_skipped = "rewrite", True
    crashed_at(query, 0, f"end {IDS.task(1)} True")
    cluster.time_is_up()
    query.new_driver().commit(query.write(0), 0)
    check(cluster, query.expected([0]))
    query.run()
    check(cluster, query.expected())


def test_the_checks_would_see_an_upgrade_that_takes_nothing_over(monkeypatch):
    monkeypatch.setattr(BatchBegin, "_take_over", lambda begin: BatchEvent.NO_RECORD)
    cluster = FakeTransactionCluster(2)
    query = Upgraded(cluster)
    query.run_batch(0)
    crashed_at(query, 1, f"end {OLD.task(1)} True")
    query.upgrade()
    with pytest.raises(LostDecision, match="batch 1 is to be written, and nothing is known of batches before it under"):
        query.run()
    query.on_lost = "rewrite"
    query.run()
    assert seen(cluster) != query.expected()
