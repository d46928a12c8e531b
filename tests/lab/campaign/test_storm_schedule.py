"""A storm's seed gives its faults again; its writers tell what the checker needs, however they were killed."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from kafkasource import options
from lab.campaign import clock
from lab.campaign.checker import Outcome
from lab.campaign.faults import NODES, schedule
from lab.campaign.storm import content, storm
from lab.campaign.storm.checkpoint import Checkpoint
from lab.campaign.storm.content import Content, Telling, told
from lab.campaign.storm.faults import ANY, BY_API_NAME, CONNECTIONS, SLOW_LANES, TABLE, TO_MEET, of_connections
from lab.campaign.storm.passing import said_lost
from lab.campaign.storm.writers_app import Writers


def test_a_seed_gives_the_same_faults_again_and_another_seed_others():
    first, again, other = (list(islice(of_connections(seed, 30), 200)) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("per_second", [10, 50])
def test_faults_of_connections_come_at_their_rate_on_any_node_with_any_request(per_second):
    drawn = list(islice(of_connections(3, per_second), 5000))
    assert sum(fault.pause_s for fault in drawn) == pytest.approx(5000 / per_second, rel=0.05)
    assert {fault.kind for fault in drawn} == {kind.name for kind in CONNECTIONS}
    assert {fault.variant for fault in drawn} == {ANY, *(api.name for api in TO_MEET)}
    with_logins = islice(of_connections(3, per_second, logins=True), 5000)
    assert {fault.variant for fault in with_logins} == {ANY, *BY_API_NAME}
    assert {fault.node for fault in drawn} == set(NODES)


@pytest.mark.parametrize("lane", SLOW_LANES)
def test_slower_faults_are_those_of_the_campaign(lane):
    drawn = {fault.kind for fault in islice(schedule(5, lane, table=TABLE), 1000)}
    assert drawn == {kind.name for kind in TABLE if kind.lane == lane}


@pytest.mark.parametrize(("minutes", "lengths"), [(3, [3]), (10, [10]), (25, [25 / 3] * 3), (60, [10] * 6)])
def test_rounds_are_short_and_make_up_the_whole(minutes, lengths):
    assert storm.rounds(minutes) == lengths


def test_a_group_of_records_has_the_outcome_that_was_told_last_and_else_none(tmp_path):
    file = tmp_path / "written"
    rows = Content("life", Random(1), 4).rows(30)
    with file.open("w") as out:
        telling = Telling(out)
        telling.before("a", "life", rows[:10])
        telling.after("a", Outcome.COMMITTED)
        telling.before("b", "life", rows[10:20])
        telling.before("c", "life", rows[20:])
        telling.after("b", Outcome.ABORTED)
        out.write('{"group": "d", "producer": "life", "ro')  # killed here
    found = told(file, "topic")
    assert [each.value for each in found] == [row.value for row in rows]
    outcomes = [each.outcome for each in found]
    assert outcomes == [Outcome.COMMITTED] * 10 + [Outcome.ABORTED] * 10 + [Outcome.UNKNOWN] * 10
    assert len({each.value for each in found}) == 30


def test_what_is_written_is_what_is_told():
    rows = Content("life", Random(1), 4).rows(5)
    columns = content.table(rows).to_pydict()
    assert columns["value"] == [row.value for row in rows]
    assert columns["headers"] == [[{"key": "number", "value": b"%d" % row.number}] for row in rows]


def test_a_batch_that_was_planned_and_is_not_done_is_known_after_a_restart(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.plan(0, {"t": {"0": 5}})
    checkpoint.finish(0)
    checkpoint.plan(1, {"t": {"0": 9}})
    again = Checkpoint(tmp_path)
    assert (again.done(), again.planned(), again.query_id) == (0, 1, checkpoint.query_id)
    assert again.end_of(1) == {"t": {"0": 9}}


@pytest.mark.parametrize("planned", [True, False])
def test_a_checkpoint_that_was_rolled_back_can_be_restored(tmp_path, planned):
    checkpoint = Checkpoint(tmp_path)
    for number in range(2):
        checkpoint.plan(number, {"t": {"0": 5 + number}})
        checkpoint.finish(number)
    assert checkpoint.roll_back(planned)
    assert (checkpoint.done(), checkpoint.planned()) == (0, 1 if planned else 0)
    checkpoint.plan(1, {"t": {"0": 9}})  # anew, with more
    assert not checkpoint.roll_back(planned)  # its last batch is not done
    checkpoint.restore()
    assert (checkpoint.done(), checkpoint.end_of(1)) == ((0, {"t": {"0": 9}}) if planned else (1, {"t": {"0": 6}}))


def test_a_batch_that_went_on_after_all_is_not_restored(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.plan(0, {"t": {"0": 5}})
    checkpoint.finish(0)
    assert checkpoint.roll_back(planned=False)
    checkpoint.plan(0, {"t": {"0": 7}})
    checkpoint.finish(0)
    checkpoint.restore()
    assert checkpoint.end_of(0) == {"t": {"0": 7}}


def test_what_queries_left_out_adds_up(tmp_path):
    (tmp_path / "discarded").write_text('{"a": 1, "b": 2}\n\n{"a": 3}\n{"a": ')
    assert content.sums(tmp_path / "discarded") == {"a": 4, "b": 2}
    assert content.sums(tmp_path / "none") == {}


def test_a_clock_is_wrong_by_what_its_file_says(tmp_path):
    (tmp_path / "clock").write_text("-3600")
    assert clock.wrong_by(tmp_path / "clock") == -3600
    assert clock.wrong_by(tmp_path / "none") == 0


def test_ranges_that_were_said_to_be_lost_are_read_from_the_warnings():
    text = """Some data may have been lost. [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Could not read records in \
offset [3, 17) for topic partition short-1: the log holds [17, 20). Reading begins at 17.
Could not read records in offset [0, 2) for topic partition another-1: gone. 2 offsets are skipped.
"""
    assert said_lost(text, "short") == {1: [(3, 17)]}


def test_rows_of_a_group_with_a_known_place_have_offsets(tmp_path):
    rows = Content("life", Random(1), 2).rows(4, partition=1)
    with (tmp_path / "written").open("w") as out:
        Telling(out).before("a", "life", rows)
        Telling(out).after("a", Outcome.COMMITTED, 70)
    assert [(each.partition, each.offset) for each in told(tmp_path / "written", "t")] == [
        (1, n) for n in range(70, 74)
    ]


def test_all_that_a_writer_draws_are_options_of_the_sink(tmp_path):
    (tmp_path / "partitions").write_text("4")
    writers = Writers("localhost:1", "t", tmp_path, "0", "1", None)
    for seed in range(50):
        options.parse(writers.options(Random(seed)), "sink")
