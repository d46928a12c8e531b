"""A seed gives the same faults again, and the document counts each campaign once."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.campaign.checker import RULES
from lab.campaign.counts import BEGIN, END, added
from lab.campaign.faults import LANES, NODES, TABLE, schedule
from lab.campaign.planted.bugs import BUGS, GROUPS

RESULT = {
    "seed": 7,
    "shape": "campaign",
    "version": "4.3.1",
    "minutes": 20.0,
    "faults": {"kill a broker": 3},
    "records": 1000,
    "findings": {},
}
EMPTY = f"above\n{BEGIN}{END}below\n"


@given(st.integers(0, 1 << 31), st.sampled_from(LANES))
def test_a_seed_gives_the_same_faults_again(seed, lane):
    assert list(islice(schedule(seed, lane), 30)) == list(islice(schedule(seed, lane), 30))


def test_another_seed_gives_others():
    first, second = (list(islice(schedule(seed, "network"), 30)) for seed in (1, 2))
    assert first != second


@pytest.mark.parametrize("lane", LANES)
def test_each_kind_of_a_lane_comes_on_any_node_and_no_kind_of_another(lane):
    drawn = list(islice(schedule(5, lane), 1000))
    assert {fault.kind for fault in drawn} == {kind.name for kind in TABLE if kind.lane == lane}
    assert {fault.node for fault in drawn} == set(NODES)
    limits = {kind.name: kind.lasts_s for kind in TABLE}
    assert all(limits[fault.kind][0] <= fault.lasts_s <= limits[fault.kind][1] for fault in drawn)


def test_a_bugs_campaign_draws_the_faults_of_its_row_alone():
    for bug in BUGS.values():
        for lane in {kind.lane for kind in bug.kinds}:
            drawn = list(islice(schedule(1, lane, table=bug.kinds), 200))
            allowed = {(kind.name, variant) for kind in bug.kinds for variant in kind.variants}
            assert {(fault.kind, fault.variant) for fault in drawn} <= allowed


def test_each_rule_has_a_bug_that_it_must_find():
    assert sorted(bug.rule for bug in BUGS.values()) == sorted(RULES)


def test_each_bug_is_in_one_group_and_finds_its_place_in_the_code():
    """A patch of something that is not there any more would plant nothing."""
    assert sorted(bug for group in GROUPS for bug in group) == sorted(BUGS)
    program = """
import importlib
from lab.campaign.planted import bugs, storm_bugs
from lab.campaign.planted.hook import after_import
all_bugs = [*bugs.BUGS.values(), *storm_bugs.BUGS.values()]
planted = []
for bug in all_bugs:
    after_import(bug.module, lambda bug=bug: (bug.plant(), planted.append(bug)))
for bug in all_bugs:
    importlib.import_module(bug.module)
assert len(planted) == len(all_bugs), planted
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[3])


def test_counts_add_up_and_a_run_counts_once():
    faults = {"cut in an answer": 2, "kill a broker": 1}
    other = {**RESULT, "seed": 8, "faults": faults, "findings": {"lost": 4}}
    storm = {**other, "shape": "storm"}
    text = added(added(EMPTY, [RESULT]), [RESULT, other, storm])
    assert "| campaign | 4.3.1 | 40 | 6 | 2000 | 4 lost | 7 8 |" in text
    assert "| storm | 4.3.1 | 20 | 3 | 1000 | 4 lost | 8 |" in text
    assert text.startswith("above\n")
    assert text.endswith("below\n")


def test_a_document_without_the_table_is_an_error():
    with pytest.raises(ValueError, match="has no lines"):
        added("no table", [RESULT])
