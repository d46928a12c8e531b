"""Where flows start and go on: single cases of what tests/mirror/test_changes_of_a_plan.py draws by chance."""

import pytest

from kafkasource.errors import DataLoss, KafkaSourceError, OptionError
from kafkasource.mirror.positions import (
    FlowRules,
    Logs,
    MirrorReader,
    PositionRecord,
    SourceRules,
    carried_over,
    from_text,
    replan,
    to_text,
)
from kafkasource.mirror.restart import Progress, SourceTopics, next_record
from kafkasource.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
WEST, ARCHIVE = FlowRules("west", "${topic}", "^(?:a|b)$"), FlowRules("archive", "${topic}", "^(?:a|b)$")
ONE, BOTH = SourceRules((WEST,)), SourceRules((WEST, ARCHIVE))
LOGS = Logs(configured={A0: 10, B0: 0}, earliest={A0: 10, B0: 0})
AT_LATEST = Logs(configured={A0: 900, B0: 500}, earliest={A0: 10, B0: 0}, from_latest=True)
KNOWN = {WEST.key: {A0: 800, B0: 400}}


def carried(readers):
    return [
        (reader.name, [flow.target for flow in reader.flows if flow.takes("a")], reader.start, reader.end)
        for reader in readers
    ]


def test_a_new_target_gets_the_history_by_itself_up_to_where_the_others_are():
    readers, parked = replan(7, BOTH, KNOWN, LOGS, ONE)
    assert carried(readers) == [
        ("7", ["west"], {A0: 800, B0: 400}, None),
        ("7-to-archive", ["archive"], {A0: 10, B0: 0}, {A0: 800, B0: 400}),
    ]
    assert parked == {}


def test_a_new_target_starts_where_the_others_are_if_the_mirror_starts_at_latest():
    readers, _ = replan(7, BOTH, KNOWN, AT_LATEST, ONE)
    assert carried(readers) == [("7", ["west", "archive"], {A0: 800, B0: 400}, None)]


def test_a_partition_that_came_while_the_mirror_was_away_is_copied_from_its_beginning():
    came = Logs({**AT_LATEST.configured, A1: 70}, {**AT_LATEST.earliest, A1: 0}, from_latest=True)
    readers, _ = replan(7, BOTH, KNOWN, came, ONE)
    assert readers[0].start == {A0: 800, A1: 0, B0: 400}


def test_the_first_start_of_all_is_left_to_the_options():
    (reader,), _ = replan(1, BOTH, {}, LOGS, None)
    assert reader.start is None


def test_only_the_topics_that_are_behind_are_caught_up_and_new_ones_come_with_the_others():
    known = {**KNOWN, ARCHIVE.key: {A0: 300, B0: 400}}
    (shared, catch_up), _ = replan(7, BOTH, known, LOGS, BOTH)
    west, archive = shared.flows
    assert [flow.takes(topic) for flow in (west, archive) for topic in "ab"] == [True, True, False, True]
    assert (catch_up.start, catch_up.end) == ({A0: 300}, {A0: 800})


def test_what_is_excluded_or_removed_keeps_its_position():
    only_b = SourceRules((FlowRules("archive", "${topic}", "^b$"),))
    known = {**KNOWN, ARCHIVE.key: {A0: 300, B0: 350}}
    (shared,), parked = replan(7, only_b, known, LOGS, BOTH)
    assert shared.start == {B0: 350}
    assert parked == {WEST.key: {A0: 800, B0: 400}, ARCHIVE.key: {A0: 300}}


def record(**more):
    given = {"number": 3, "source": "east", "cluster_ids": {"east": "E", "west": "W"}, "rules": ONE, "parked": {}}
    given |= {"readers": (MirrorReader("3", ONE.flows, {A0: 0}),), "topic_ids": {"a": "id-1"}}
    return PositionRecord(**given | more)


def test_a_record_is_what_was_written():
    reader = MirrorReader("3-to-west", (WEST,), {A0: 0, A1: 3}, {A0: 9, A1: 3})
    one = record(readers=(record().shared, reader), parked={ARCHIVE.key: {B0: 5}}, came_from="ost")
    assert from_text(to_text(one), "here") == one


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 2}', to_text(record()).replace('"0": 0', '"x": 0')])
def test_what_is_no_record_is_refused_with_its_place(text):
    with pytest.raises(KafkaSourceError, match=r"^here is not a record"):
        from_text(text, "here")


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        ({"east": "E", "west": "W"}, {}),
        ({"east": "E", "wild": "W"}, {"west": "wild"}),
        ({"east": "E", "west": "N", "wild": "W"}, {"west": "wild"}),
        ({"east": "E"}, {}),
        ({"east": "E", "west": None}, {}),
    ],
)
def test_a_cluster_is_known_by_its_id(ids, names):
    assert carried_over(record(), ids, {"east", "wild"}) == names


def test_a_name_that_means_another_cluster_now_is_refused():
    with pytest.raises(OptionError, match=r"'west' has the id N now, and had the id W .* another checkpoint"):
        carried_over(record(), {"east": "E", "west": "N"}, {"east", "west"})
    assert carried_over(record(), {"east": "E", "west": "N"}, {"east"}) == {}  # no flow of east goes there


class World:
    def __init__(self, progress, source):
        self._progress, self._source, self.saved, self.repeated = progress, source, [], []

    def progress(self, reader):
        return self._progress

    def repeat(self, rules, reader, flows):
        self.repeated.append(reader.name)

    def source(self, rules, known, first):
        return self._source

    def save(self, record):
        self.saved.append(record)

    def tidy(self, record):
        pass


IDS = {"east": "E", "west": "W"}
THERE = SourceRules((FlowRules("west", "there.${topic}", "^a$"),))


def test_the_same_plan_goes_on_with_the_same_readers():
    world = World(Progress({A0: 5}, open=True), SourceTopics(LOGS, {}))
    assert next_record(world, record(), "east", ONE, IDS) == record()
    assert (world.saved, world.repeated) == ([], [])


def test_a_topic_that_was_made_again_meanwhile_is_a_loss_only_where_a_flow_carried_it():
    world = World(Progress({A0: 5}, topic_ids={"a": "id-1"}), SourceTopics(LOGS, {"a": "id-2", "b": "id-3"}))
    with pytest.raises(DataLoss, match="Topic a has been deleted and created again"):
        next_record(world, record(), "east", BOTH, {**IDS, "archive": "R"})
    assert world.saved == []
    found = next_record(world, record(), "east", BOTH, {**IDS, "archive": "R"}, fail_on_data_loss=False)
    assert (found.shared.start, found.catch_ups) == ({A0: 10, B0: 0}, ())
    excluded = record(readers=(), parked={WEST.key: {A0: 5}})
    found = next_record(world, excluded, "east", BOTH, {**IDS, "archive": "R"})
    assert found.shared.start == {A0: 10, B0: 0}


def test_positions_in_a_deleted_topic_are_forgotten():
    said = []
    world = World(Progress({A0: 5, B0: 7}), SourceTopics(Logs({B0: 0}, {B0: 0}), {}, deleted={"a"}))
    found = next_record(world, record(), "east", BOTH, {**IDS, "archive": "R"}, warn=said.append)
    assert found.parked == {}
    assert said == ["topic a of east was deleted: its copies stay, and the mirror forgets how far it had read it"]


def test_another_template_is_another_flow_and_the_old_one_keeps_its_position():
    world = World(Progress({A0: 500}), SourceTopics(LOGS, {}))
    found = next_record(world, record(), "east", THERE, IDS)
    assert found.shared.start == {A0: 10}
    assert found.parked == {WEST.key: {A0: 500}}
