"""A prefix belongs to one query: two of them, in every order of their steps, lose and double nothing."""

import itertools

import pytest
from test_exactly_once import ANY_DIALECT, IDS, Query, check, seen
from transaction_fakes import FakeTransactionCluster

from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.errors import AnotherQuery
from kafkasource.exactly_once.query_identity import QueryIdentity
from kafkasource.exactly_once.task.plan import plan_task

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
    except Exception as error:  # of a task, too, that another query has fenced
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


def mistaken(cluster, kind, checkpoint):
    """The begin of another query with the prefix of one that runs."""
    identity = QueryIdentity(IDS, location=str(checkpoint))
    return ExactlyOnce(cluster, identity, timeout_ms=600_000).begin("another" if kind == "write" else None)


@ANY_DIALECT
@pytest.mark.parametrize(("running", "other"), [("stream", "write"), ("stream", "stream"), ("write", "stream")])
def test_a_query_that_is_refused_leaves_the_running_one_alone_however_often_it_is_tried(
    version, running, other, tmp_path
):
    (tmp_path / "metadata").write_text('{"id":"another"}')
    cluster = FakeTransactionCluster(version)
    for number in range(3):
        query = Query(cluster, query_id="q" if running == "stream" else f"w{number}")
        batch_id = number if running == "stream" else 0
        begun = query.new_driver().begin(None if running == "stream" else query.query_id)
        results = [query.task(begun, batch_id, slot) for slot in range(3)]
        before = len(cluster.calls)
        for _ in range(2 if number else 0):  # once something is decided under the prefix
            with pytest.raises(AnotherQuery, match=r"'p' is that of .*, not of this one"):
                mistaken(cluster, other, tmp_path)
        assert set(cluster.calls[before:]) <= {"fetch committed"}
        query.new_driver().commit(results, batch_id)
    assert len(seen(cluster)) == (32 if running == "stream" else 36)


def test_a_query_that_is_refused_does_not_settle_what_the_running_one_is_about_to_decide(tmp_path):
    """P-kept says `deciding`, and the coordinator says that nothing is decided yet."""
    (tmp_path / "metadata").write_text('{"id":"another"}')
    cluster = FakeTransactionCluster(2)
    query = Query(cluster)
    query.run_batch(0)
    keep, results = cluster.groups.keep, query.write(1)

    def and_another_comes(*args):
        keep(*args)
        cluster.groups.keep = keep
        with pytest.raises(AnotherQuery):
            mistaken(cluster, "stream", tmp_path)

    cluster.groups.keep = and_another_comes
    query.new_driver().commit(results, 1)
    query.done.add(1)
    query.run()
    check(cluster, query.expected())


def test_where_the_driver_cannot_read_who_it_is_its_tasks_refuse(tmp_path):
    cluster = FakeTransactionCluster(2)
    Query(cluster).run_batch(0)
    begun = mistaken(cluster, "stream", tmp_path / "elsewhere")
    with pytest.raises(AnotherQuery):
        plan_task(begun, "another", 0, 0, "fail")


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
