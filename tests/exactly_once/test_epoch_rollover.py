"""Transactional ids that are used so often that their producer ids have no epochs left."""

import pytest
from test_exactly_once import ANY_DIALECT, BOTH_WAYS, EVERYWHERE, Query, check
from transaction_fakes import LAST_EPOCH, FakeTransactionCluster


def used_up(version, left):
    """Each id has `left` epochs more before another producer id follows."""
    cluster = FakeTransactionCluster(version)
    for name in ("p-driver", "p-0", "p-1", "p-2"):
        cluster.transactions.init_producer_id(name, 1)
        known = cluster.by_id[name]
        known.producer = known.producer._replace(producer_epoch=LAST_EPOCH - left)
    cluster.calls.clear()
    return cluster


@ANY_DIALECT
@BOTH_WAYS
@EVERYWHERE
@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_crash_at_any_call_while_producer_ids_change_loses_and_doubles_nothing(version, atomic, moment, left):
    whole = used_up(version, left)
    Query(whole, atomic=atomic).run()
    before = used_up(version, left).by_id["p-driver"].producer
    assert whole.by_id["p-driver"].producer.producer_id != before.producer_id, "it was not used up"
    for number in range(len(whole.calls)):
        cluster = used_up(version, left)
        cluster.crash_at = {number: moment}
        query = Query(cluster, atomic=atomic)
        query.run_to_the_end()
        check(cluster, query.expected())
