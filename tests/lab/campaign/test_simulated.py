"""Worlds repeat by their seed, count what took effect, find nothing where all is well, and do find planted bugs."""

from __future__ import annotations

from random import Random

import pytest
from test_exactly_once import Query

from kafkasource.exactly_once.task.transactions import Recovered, TaskTransactions
from kafkasource.kafka.group.membership import Membership
from kafkasource.kafka.network.log_view import Verdict, compare
from kafkasource.source.plan import planner
from kafkasource.source.plan.offset_reader import OffsetReader
from lab.campaign.simulated import exactly_once, logs, members
from lab.campaign.simulated.worlds import KINDS

WORLDS = pytest.mark.parametrize("world", [exactly_once.run, members.run, logs.run])


@WORLDS
def test_a_world_repeats_by_its_seed_and_another_one_differs(world):
    assert world(Random("7")) == world(Random("7"))
    assert world(Random("7")).faults != world(Random("8")).faults


@WORLDS
def test_some_worlds_have_faults_of_known_kinds_and_no_finding(world):
    outcomes = [world(Random(f"{seed}")) for seed in range(15)]
    assert sum(outcome.faults.total() for outcome in outcomes) > 300
    assert {kind for outcome in outcomes for kind in outcome.faults} <= set(KINDS)
    assert not any(outcome.findings for outcome in outcomes)


def found_in(world, seeds=20):
    outcomes = [world(Random(f"{seed}")) for seed in range(seeds)]
    return {rule for outcome in outcomes for rule in outcome.findings}


def test_they_would_see_a_driver_that_does_not_recover(monkeypatch):
    monkeypatch.setattr(TaskTransactions, "recover", lambda *_: Recovered())
    assert "lost" in found_in(exactly_once.run)


def test_they_would_see_rows_that_are_written_again(monkeypatch):
    run_batch = Query.run_batch

    def twice(query, batch_id):
        run_batch(query, batch_id)
        rows = query.rows_of(batch_id, 0)
        for tp, some in rows.items():
            query.cluster.logs[tp] += [("row", 1, some[0]), ("commit", 1, None)]

    monkeypatch.setattr(Query, "run_batch", twice)
    assert "doubled" in found_in(exactly_once.run)


def test_they_would_see_a_member_that_does_not_tell_what_it_has_lost(monkeypatch):
    def in_silence(member, partitions):
        member.held -= partitions

    monkeypatch.setattr(Membership, "_take_from_user", in_silence)
    assert found_in(members.run)


def test_they_would_see_a_driver_that_believes_the_first_answer(monkeypatch):
    monkeypatch.setattr(OffsetReader, "_until_believed", lambda _self, ask, _doubt: ask())
    assert found_in(logs.run) >= {"a loss that was none", "doubled"}


def test_they_would_see_a_driver_that_takes_an_epoch_that_fell_for_old_news(monkeypatch):
    def by_id_alone(known, now):
        verdict = compare(known, now)
        return Verdict.OLD_NEWS if verdict is Verdict.ANOTHER_TOPIC and now.topic_id is None else verdict

    monkeypatch.setattr(planner, "compare", by_id_alone)
    assert "lost" in found_in(logs.run)


def test_they_would_see_a_driver_that_does_not_look_at_a_log_that_stands_still(monkeypatch):
    monkeypatch.setattr(OffsetReader, "cut_and_regrown", lambda *_: set())
    assert "lost" in found_in(logs.run)
