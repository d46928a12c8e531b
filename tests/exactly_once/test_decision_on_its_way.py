"""A decision that is committed but not yet listed among its group's offsets is not taken for none."""

import pytest
from test_exactly_once import Query, check
from transaction_fakes import FakeGroupCalls, FakeTransactionCluster

from kafkasource.errors import DeadlineExceeded


class SlowGroupCoordinator(FakeTransactionCluster):
    """Takes in the end of a transaction later than the transaction's own coordinator.

    Until then it says 88 to whoever names the partition, or has an offset there from before, which clients ask again
    until it has; and leaves out a partition that had none of whoever asks for all. InitProducerId outlasts it.
    """

    def __init__(self, transaction_version):
        super().__init__(transaction_version)
        self.taken_in = {}
        self.groups = SlowGroups(self)

    def _end(self, name, known, commit, bump):
        self.taken_in = dict(self.offsets)
        super()._end(name, known, commit, bump)

    def _init(self, name, held_by=None):
        self.taken_in = dict(self.offsets)
        return super()._init(name, held_by)


class SlowGroups(FakeGroupCalls):
    def committed(self, group, partitions, require_stable=True):
        found = super().committed(group, partitions, require_stable)
        if partitions is not None or any((group, tp) in self.cluster.taken_in for tp in found):
            self.cluster.taken_in = dict(self.cluster.offsets)
        return {tp: row for tp, row in found.items() if (group, tp) in self.cluster.taken_in}


class Spread(Query):
    """Each batch writes to a partition of its own, where there was no decision before."""

    def rows_of(self, batch_id, slot):
        return {sorted(self.cluster.logs)[batch_id]: [f"{batch_id}/{slot}/{row}" for row in range(2)]}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_error_at_any_call_after_which_spark_aborts_loses_and_doubles_nothing(version, moment):
    cluster = SlowGroupCoordinator(version)
    Spread(cluster).run()
    for number in range(len(cluster.calls)):
        cluster = SlowGroupCoordinator(version)
        cluster.raise_at = {number: (moment, DeadlineExceeded("no answer"))}
        query = Spread(cluster)
        query.run_to_the_end()
        check(cluster, query.expected())
