"""`maxBytesPerTrigger` over random logs: holes, retention, leaders that move and answers that fail.

A run plans micro-batches as a query does, to the ends of the logs. Each holds at most the limit and a record, and there
are not many more of them than there are records. Batches are larger than what a sample asks for, so a sample shows one.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from random_inputs import examples
from test_record_weights import Leaders, batch

from kafkasource import options
from kafkasource.errors import RequestTimeout
from kafkasource.kafka.cluster.offsets import ListedOffset
from kafkasource.source.plan import record_weights
from kafkasource.source.plan.admission import Admission
from kafkasource.source.plan.record_weights import RecordWeights
from kafkasource.spark.releases import ReadMaxBytes
from kafkasource.types import IsolationLevel
from kafkasource.types import TopicPartition as TP

KIB = 1 << 10
HOLES = (0, 0, 0, 3, 1000, 1_000_000)
FAILURES = (0, 6, -1, 29)  # fine, the leader has moved, a cause that is not known, no permission


class Log:
    """A log: batches of records of one weight, with holes between them."""

    def __init__(self, rng, weight):
        self.weight = weight
        self.records_a_batch = rng.randrange(1 + 70 * KIB // self.weight, 4 + 70 * KIB // self.weight)
        self.bases, self.end = [], 0
        for _ in range(rng.randrange(1, 5)):
            self.bases.append(self.end + rng.choice(HOLES))
            self.end = self.bases[-1] + self.records_a_batch
        self.start = rng.choice([0, 0, self.bases[0]])

    def retain(self, rng):
        """Sometimes remove the first batch and all offsets up to the next one."""
        if self.bases and rng.random() < 0.2:
            del self.bases[0]
            self.start = self.bases[0] if self.bases else self.end

    def stored_bytes(self, first, last):
        """The bytes of the records in [first, last)."""
        spans = ((max(base, first), min(base + self.records_a_batch, last)) for base in self.bases)
        return sum(max(until - since, 0) for since, until in spans) * self.weight

    def fetched(self, offset):
        if offset < self.start:
            return 1
        bases = [base for base in self.bases if base + self.records_a_batch > offset]
        return batch(bases[0], self.records_a_batch, self.records_a_batch * self.weight) if bases else b""


class Logs(Leaders):
    """Leaders of these logs, by partition. The first answers fail, some of them."""

    def __init__(self, logs, rng):
        super().__init__({})
        self.logs, self.rng = logs, rng
        self.failing_answers = rng.choice([0, 0, 1, 5])
        self.offsets = self

    def list(self, wanted):
        return {tp: ListedOffset(self.logs[tp].start) for tp in wanted}

    def _answer(self, body):
        fails = self.failing_answers > 0
        self.failing_answers -= 1
        if fails and self.rng.random() < 0.3:
            raise RequestTimeout("no answer")
        for topic in body["topics"]:
            for row in topic["partitions"]:
                code = self.rng.choice(FAILURES) if fails else 0
                log = self.logs[TP("t", row["partition"])]
                self.records[row["partition"]] = code or log.fetched(row["fetch_offset"])
        return super()._answer(body)


def run(seed):
    rng = random.Random(seed)
    weight = rng.choice([1, 30, 300]) * KIB  # a partition without a sample gets the mean of its topic
    logs = {TP("t", number): Log(rng, weight) for number in range(rng.choice([1, 1, 3]))}
    limit = rng.choice([100, 1000, 10_000]) * KIB
    leaders = Logs(logs, rng)
    weights = RecordWeights(leaders, IsolationLevel.READ_COMMITTED, leaders.clock)
    given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "maxBytesPerTrigger": str(limit)}
    admission = Admission(options.parse(given, "source"))

    def weigh(begin, end, limit_bytes):
        found = weights.weigh(begin, end, limit_bytes)
        return weights.past_holes(begin), found

    at, ends = dict.fromkeys(logs, 0), {tp: log.end for tp, log in logs.items()}
    most_records = sum(len(log.bases) * log.records_a_batch for log in logs.values())
    planned = 0
    while at != ends:
        for log in logs.values():
            log.retain(rng)
        end = admission.admit(at, ends, ReadMaxBytes(limit), earliest_of_new=dict.fromkeys, weigh=weigh)
        taken = sum(log.stored_bytes(at[tp], end[tp]) for tp, log in logs.items())
        assert taken <= limit + weight, f"{taken} bytes at {at}"
        leaders.clock.now += 1
        at = end
        planned += 1
        assert planned <= most_records + 20, f"no end is in sight at {at}"


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=examples(400), deadline=None)
def test_micro_batches_keep_to_their_limit_over_logs_of_every_kind(seed):
    run(seed)


def dilutes(monkeypatch):
    """The offsets that are missing before the first batch make its records lighter."""
    right = record_weights.weight_of

    def planted(records, fetch_offset):
        weight, first = right(records, fetch_offset), record_weights.first_offset(records, fetch_offset)
        return weight and weight / (1 + first - fetch_offset)

    monkeypatch.setattr(record_weights, "weight_of", planted)


def takes_unknown_for_light(monkeypatch):
    """A topic that was asked about in vain weighs 1 kB a record."""
    monkeypatch.setattr(record_weights, "UNKNOWN_WEIGHT", 1024.0)


def walks_through_holes(monkeypatch):
    """Offsets that are missing count as if they held records."""
    monkeypatch.setattr(RecordWeights, "past_holes", lambda self, begin: dict(begin))


@pytest.mark.parametrize("plant", [dilutes, takes_unknown_for_light, walks_through_holes])
def test_the_same_runs_find_a_planted_bug(plant, monkeypatch):
    plant(monkeypatch)
    bounds = {"max_examples": 200, "deadline": None, "derandomize": True, "database": None}
    runs = given(seed=st.integers(0, 1 << 32))(run)
    with pytest.raises(AssertionError):
        settings(**bounds, phases=[Phase.generate])(runs)()
