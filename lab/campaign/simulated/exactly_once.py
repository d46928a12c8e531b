"""A query that writes exactly once, on the tests' cluster of one: any of its calls may be lost, and its process killed.

The query, its driver and its tasks are those of tests/exactly_once/test_exactly_once.py: the sink's own code but
for the bytes on the wire. What a reader at read_committed sees goes to the campaign's checker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from test_exactly_once import Query
from transaction_fakes import Crash, FakeTransactionCluster, read_committed

from kafkasource.errors import DeadlineExceeded
from kafkasource.exactly_once.errors import LostTransactions, NotDecided
from lab.campaign.checker import Copy, History, Outcome, Record, Wait, Written, check
from lab.campaign.simulated.worlds import LOST_ANSWER, LOST_REQUEST, NO_ANSWER, NO_REQUEST, TIME_UP
from lab.campaign.simulated.worlds import Outcome as WorldOutcome

BATCHES = 12
ONE_CALL_IN = (5, 12, 40)  # is harmed, by world
TIME_UP_ONE_IN = 12  # restarts
RESTARTS = 400
HARMED_RESTARTS = 150  # then nothing is harmed any more
KINDS = (LOST_REQUEST, LOST_ANSWER, NO_REQUEST, NO_ANSWER)


class HarmedCluster(FakeTransactionCluster):
    def __init__(self, random: Random) -> None:
        super().__init__(random.choice((1, 2)))
        self.random, self.one_call_in = random, random.choice(ONE_CALL_IN)
        self.harms = True
        self.faults: Counter[str] = Counter()

    def _call(self, name: str, act: Callable[[], Any]) -> Any:
        if not self.harms or self.random.randrange(self.one_call_in):
            return act()
        kind = self.random.choice(KINDS)
        if kind in (LOST_ANSWER, NO_ANSWER):
            act()  # where this raises, the fault has no effect and does not count
        self.faults[kind] += 1
        raise Crash(name) if kind in (LOST_REQUEST, LOST_ANSWER) else DeadlineExceeded(f"{name}: no answer")


def run(random: Random) -> WorldOutcome:
    cluster = HarmedCluster(random)
    query = Query(cluster, atomic=random.random() < 0.4, on_lost="rewrite", batches=BATCHES)
    ended = False
    for restart in range(RESTARTS):
        cluster.harms = restart < HARMED_RESTARTS
        try:
            query.run()
            ended = True
            break
        except (Crash, DeadlineExceeded, NotDecided, LostTransactions):
            if cluster.harms and not query.atomic and not random.randrange(TIME_UP_ONE_IN):
                cluster.faults[TIME_UP] += any(known.open for known in cluster.by_id.values())
                cluster.time_is_up()
    report = check(_history(query, cluster, ended))
    records = sum(len(list(read_committed(log))) for log in cluster.logs.values())
    texts = tuple(f"{rule}: {each.text}" for rule, found in report.findings.items() for each in found[:3])
    found = Counter({rule: count for rule, count in report.counts.items() if count})
    return WorldOutcome(cluster.faults, records, found, texts)


def _history(query: Query, cluster: HarmedCluster, ended: bool) -> History:
    """Row `n` of a partition's rows is its record `n`, in the source and, if all went well, in the target."""
    source, written = [], []
    for tp in cluster.logs:
        rows = [row for batch in query.batches for slot in range(3) for row in query.rows_of(batch, slot).get(tp, ())]
        for number, row in enumerate(rows):
            value = row.encode()
            source.append(Record(tp.partition, number, None, value))
            written.append(Written("q", None, number, value, "in", tp.partition, number, Outcome.COMMITTED))
    target = [
        Record(tp.partition, number, None, row.encode())
        for tp, log in cluster.logs.items()
        for number, row in enumerate(read_committed(log))
    ]
    copy = Copy("query", "in", "out", once=True, same_partition=True)
    return History(
        written, {"in": source, "out": target}, [copy], waits=[Wait("the query's end", 0, 0 if ended else None, 0)]
    )
