"""A range is read from the log that it was planned for, and from no other: topic ids and leader epochs."""

import re
import uuid
from dataclasses import replace

import pyarrow as pa
import pytest
from fake_broker import Error, FakeNet, FakeTopic
from fetch_rig import TP, Kafka, Rig, offsets, record_batch

from kafkasource.errors import DataLoss
from kafkasource.kafka.protocol.apis import FETCH, LIST_OFFSETS, METADATA, OFFSET_FOR_LEADER_EPOCH
from kafkasource.types import IsolationLevel, OffsetRange, TopicPartition


@pytest.fixture
def rig():
    return Rig()


def questions(rig):
    return rig.asked(METADATA, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH)


def elect(rig, node_id=2, ends_at=None):
    """A new leader, in whose log the epoch before ends there; None: behind all that was planned."""
    epoch = rig.topic.epochs[0]
    rig.kafka.move_leader("t", 0, node_id)
    if ends_at is not None:
        rig.topic.epoch_ends[0, epoch] = ends_at


def test_where_id_and_epoch_are_the_plans_nothing_is_asked_but_records(rig):
    rig.topic.epochs[0] = 4
    assert rig.read(0, 10, topic_id=rig.topic.topic_id, leader_epoch=4) == list(range(10))
    before = len(rig.kafka.requests)
    assert rig.read(topic_id=rig.topic.topic_id, leader_epoch=4) == list(range(100))
    assert {request.api for request in rig.kafka.requests[before:]} == {FETCH}


# Topic ids.


def test_a_process_that_remembers_an_older_topic_asks_before_it_fetches(rig):
    rig.read(0, 10)
    rig.topic.topic_id = uuid.uuid4()
    before = len(rig.kafka.requests)
    assert rig.read(topic_id=rig.topic.topic_id) == list(range(100))
    assert [request.api for request in rig.kafka.requests[before:]][:2] == [METADATA, FETCH]
    assert rig.net.now < 1001  # and waits for nothing


@pytest.mark.parametrize("remembers", ["nothing", "the old topic", "the new topic"])
def test_a_topic_recreated_after_the_plan_is_not_read(rig, remembers):
    planned = rig.topic.topic_id
    if remembers == "the old topic":
        rig.read(0, 10)
    rig.topic.topic_id = uuid.uuid4()
    if remembers == "the new topic":
        rig.read(0, 10)
    with pytest.raises(DataLoss, match=r"offset \[5, 100\) for topic partition t-0: .*recreated"):
        rig.read(5, 100, topic_id=planned)


def test_tolerated_a_recreated_topic_gives_no_rows(rig, caplog):
    planned, rig.topic.topic_id = rig.topic.topic_id, uuid.uuid4()
    assert rig.read(5, 100, topic_id=planned, fail_on_data_loss=False) == []
    assert "95 offsets are skipped" in caplog.text


def test_where_a_deleted_topic_is_tolerated_one_that_was_made_again_is_a_loss(rig):
    planned, rig.topic.topic_id = rig.topic.topic_id, uuid.uuid4()
    with pytest.raises(DataLoss, match=r"offset \[5, 100\) for topic partition t-0: .*recreated"):
        rig.read(5, 100, topic_id=planned, fail_on_deleted_topic=False)


def test_a_topic_recreated_while_it_is_read_gives_none_of_its_new_rows(rig):
    batches = rig.batches(topic_id=rig.topic.topic_id, fail_on_data_loss=False)
    first = next(batches)
    rig.topic.topic_id = uuid.uuid4()
    rows = offsets([first, *batches])
    assert rows == list(range(len(rows)))
    assert 0 < len(rows) < 100


@pytest.mark.parametrize("tolerated", ["fail_on_data_loss", "fail_on_deleted_topic"])
def test_a_deleted_topic_ends_a_tolerant_read_behind_what_came(rig, caplog, tolerated):
    batches = rig.batches(topic_id=rig.topic.topic_id, **{tolerated: False})
    first = next(batches)
    del rig.kafka.topics["t"]
    rows = offsets([first, *batches])
    assert rows == list(range(len(rows)))
    assert f"[{len(rows)}, 100)" in caplog.text
    assert rig.net.now < 1010


def unheard_of(row):
    return {"error_code": 3, "name": row["name"], "partitions": []}


def without_partitions(row):
    return {**row, "partitions": []}


def of_another_id(row):
    return {**row, "topic_id": uuid.UUID(int=7)}


OLD_NEWS = pytest.mark.parametrize("old", [unheard_of, without_partitions, of_another_id])


def near_the_first_of(nodes, kafka=Kafka):
    """A task's cluster that is connected to the first of several brokers alone; the second has the records."""
    rig = Rig()
    rig.kafka = kafka(nodes=nodes, topics={"t": 1})
    rig.topic.leaders[0] = 2
    rig.net = FakeNet(rig.kafka, seed=0.99)  # of two that are connected the client takes the first
    rig.cluster = rig.net.cluster("broker-1:9092")
    rig.cluster.topics.describe([])
    rig.kafka.requests.clear()
    return rig


@OLD_NEWS
def test_a_broker_that_is_cut_off_from_the_controllers_does_not_make_a_log_gone(old, caplog):
    rig = near_the_first_of(3)
    rig.kafka.old_news[1] = lambda row: old(row) if row["name"] == "t" else row
    assert rig.read(topic_id=rig.topic.topic_id, leader_epoch=0, fail_on_data_loss=False) == list(range(100))
    assert rig.net.now < 1001
    assert len(rig.kafka.asked(METADATA)) == 2
    assert "lost" not in caplog.text


@OLD_NEWS
@pytest.mark.parametrize("fault", [1, 6, 100])  # OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_ID
def test_nor_does_it_when_it_is_asked_while_a_range_is_read(old, fault, caplog):
    rig = near_the_first_of(3)
    batches = rig.batches(topic_id=rig.topic.topic_id, leader_epoch=0, fail_on_data_loss=False)
    rows = offsets([next(batches)])
    rig.kafka.old_news[1] = old
    rig.kafka.fault(FETCH, Error(fault), Error(fault))
    assert rows + offsets(batches) == list(range(100))
    assert rig.net.now < 1020
    assert "lost" not in caplog.text


def test_a_deleted_topic_is_asked_about_at_two_brokers(rig, caplog):
    rig = near_the_first_of(5)
    planned = rig.topic.topic_id
    del rig.kafka.topics["t"]
    assert rig.read(topic_id=planned, fail_on_data_loss=False) == []
    assert "the topic has been deleted" in caplog.text
    assert rig.net.now < 1012


@pytest.mark.parametrize("fate", ["refused", "blackhole"])
@pytest.mark.parametrize(("away", "most_s"), [([3], 17), ([2, 3, 4], 27)])
def test_brokers_that_cannot_be_connected_do_not_keep_a_deleted_topic_from_being_noticed(fate, away, most_s, caplog):
    # With all brokers it takes 11 s: twice as long as the news of a new topic may travel.
    rig = near_the_first_of(4)
    planned = rig.topic.topic_id
    rig.net.fates = {f"broker-{node}": fate for node in away}
    del rig.kafka.topics["t"]
    assert rig.read(topic_id=planned, fail_on_data_loss=False) == []
    assert "the topic has been deleted" in caplog.text
    assert rig.net.now - 1000 < most_s


def test_a_plan_without_ids_is_read_by_name(rig):
    rig.read(0, 10)
    rig.topic.topic_id = uuid.uuid4()
    assert rig.read() == list(range(100))


# Bounds.


def test_an_open_transaction_is_not_the_end_of_a_log_that_a_lagging_leader_does_not_know_yet(rig, caplog):
    listed = rig.kafka._list_offsets

    def held_back(request):
        body = listed(request)
        if request.body["isolation_level"] == IsolationLevel.READ_COMMITTED.value:
            body["topics"][0]["partitions"][0]["offset"] = 20
        return body

    rig.kafka._list_offsets = held_back
    rig.kafka.fault(FETCH, Error(1))  # OFFSET_OUT_OF_RANGE
    assert rig.read(50, 100, isolation_level=IsolationLevel.READ_COMMITTED) == list(range(50, 100))


# Leader epochs.


def test_a_process_that_remembers_an_older_epoch_asks_before_it_fetches(rig):
    rig.read(0, 10)
    elect(rig, node_id=1)
    before = len(rig.kafka.requests)
    assert rig.read(leader_epoch=1) == list(range(100))
    assert [request.api for request in rig.kafka.requests[before:]][:2] == [METADATA, FETCH]
    assert OFFSET_FOR_LEADER_EPOCH.name not in questions(rig)


def test_a_newer_leader_is_asked_once_whether_it_has_what_was_planned(rig):
    elect(rig)
    assert rig.read(0, 100, leader_epoch=0) == list(range(100))
    (asked,) = rig.kafka.asked(OFFSET_FOR_LEADER_EPOCH)
    assert asked.node_id == 2
    (topic,) = asked.body["topics"]
    assert [(row["leader_epoch"], row["current_leader_epoch"]) for row in topic["partitions"]] == [(0, 1)]


def test_a_deleted_topic_does_not_keep_a_task_that_knows_newer_leaders_from_its_other_ranges(rig, caplog):
    rig.kafka.topics["gone"] = FakeTopic([1])
    for topic in ("t", "gone"):
        rig.kafka.move_leader(topic, 0, 2)
    rig.cluster.topics.describe(["t", "gone"])
    gone = OffsetRange(TopicPartition("gone", 0), 0, 10, topic_id=rig.kafka.topics["gone"].topic_id, leader_epoch=0)
    rig.topic.epoch_ends[0, 0] = 42
    there = OffsetRange(TopicPartition("t", 0), 0, 100, leader_epoch=0)
    del rig.kafka.topics["gone"]
    assert offsets(rig.fetch(gone, there, fail_on_data_loss=False)) == list(range(42))
    assert "gone-0: the topic has been deleted" in caplog.text
    assert "58 offsets are skipped" in caplog.text


def test_a_log_truncated_after_the_plan_is_a_loss_however_long_it_is_again(rig):
    elect(rig, ends_at=42)
    with pytest.raises(DataLoss, match=r"offset \[42, 90\) for topic partition t-0.*epoch 0 .*42.*leader epoch 1"):
        rig.read(7, 90, leader_epoch=0)


def test_tolerated_truncation_reads_what_is_left_of_the_plan(rig, caplog):
    elect(rig, ends_at=42)
    assert rig.read(7, 90, leader_epoch=0, fail_on_data_loss=False) == list(range(7, 42))
    assert "48 offsets are skipped" in caplog.text


def test_truncation_behind_the_end_of_the_plan_is_no_loss(rig):
    elect(rig, ends_at=90)
    assert rig.read(7, 90, leader_epoch=0) == list(range(7, 90))


def test_a_leader_elected_during_the_read_is_compared_before_it_is_read_from(rig):
    batches = rig.batches(leader_epoch=0, fail_on_data_loss=False)
    first = next(batches)
    elect(rig, ends_at=75)
    assert offsets([first, *batches]) == list(range(75))
    assert max(offset for node_id, offset in rig.fetches() if node_id == 2) < 75


def test_a_leader_that_stands_in_for_a_replica_is_compared_before_it_is_read_from(rig):
    rig.kafka.racks, rig.kafka.replicas_end = {"here": 2}, 50
    rows = []
    for batch in rig.batches(rack="here", leader_epoch=0, fail_on_data_loss=False):
        rows += offsets([batch])
        if len(rows) == 50:  # the replica has been asked for more, and has nothing
            elect(rig, ends_at=42)
            rig.cluster.topics.describe(["t"])  # as for another range of the task
    assert rows == list(range(50))
    assert max(offset for node_id, offset in rig.fetches() if node_id == 2) <= 50


def test_each_election_during_a_read_is_asked_about_once(rig):
    rows = []
    for batch in rig.batches(leader_epoch=0):
        rows += offsets([batch])
        if len(rows) in (30, 60):
            elect(rig, node_id=2 if len(rows) == 30 else 1)
    assert rows == list(range(100))
    assert [request.node_id for request in rig.kafka.asked(OFFSET_FOR_LEADER_EPOCH)] in ([2, 1], [1])


class LeaderOfBefore(Kafka):
    """Broker 1 led under epoch 5 and was cut off: it still believes so. Broker 2 leads under epoch 6."""

    value = b"leader"

    def __init__(self, **given):
        super().__init__(**given)
        self.topics["t"].epochs[0] = 6
        self.old_news[1] = lambda row: {
            **row,
            "partitions": [{**row["partitions"][0], "leader_id": 1, "leader_epoch": 5}],
        }

    def _of_partition(self, request, topic, asked):
        if request.node_id != 1:
            return super()._of_partition(request, topic, asked)
        if asked["current_leader_epoch"] > 5:
            return {"error_code": 75}
        first = asked["fetch_offset"] // 10 * 10
        return {"records": record_batch(first, value=b"before") if first < 40 else b"", "high_watermark": 40}

    def _list_offsets(self, request):
        body = super()._list_offsets(request)
        if request.node_id == 1:
            (row,), (asked,) = body["topics"][0]["partitions"], request.body["topics"][0]["partitions"]
            row |= {"error_code": 75 if asked["current_leader_epoch"] > 5 else 0, "offset": 300, "leader_epoch": 5}
        return body


@pytest.mark.parametrize("away_s", [0, 2])
@pytest.mark.parametrize("planned", [{}, {"to_latest": True}])
def test_a_leader_of_before_the_plan_is_not_read_from(away_s, planned):
    rig = near_the_first_of(2, LeaderOfBefore)
    if away_s:  # only the one of before can be asked at first
        rig.net.fates = {"broker-2": "refused"}
        rig.net.later(away_s, rig.net.fates.clear)
    one = OffsetRange(TP, 20, 100, leader_epoch=6, topic_id=rig.topic.topic_id, **planned)
    rows = pa.Table.from_batches(list(rig.fetch(one)))
    assert rows.column("offset").to_pylist() == list(range(20, 100))
    assert set(rows.column("value").to_pylist()) == {b"leader"}
    assert rig.net.now < 1010


def test_without_ids_an_epoch_before_the_plan_s_is_another_topic_of_the_name(rig, caplog):
    rig.kafka.versions[METADATA.key] = (0, 9)  # Kafka 2.4 to 2.7
    rig.topic.epochs[0] = 1
    assert rig.read(leader_epoch=5, fail_on_data_loss=False) == []
    assert "deleted, or recreated under its name" in caplog.text
    assert rig.net.now < 1010


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_without_ids_a_process_that_read_the_old_topic_reads_the_one_made_again(nodes):
    rig = Rig()
    rig.kafka = Kafka(nodes=nodes, topics={"t": 1})
    rig.kafka.versions[METADATA.key] = (0, 9)  # Kafka 2.4 to 2.7
    rig.net = FakeNet(rig.kafka)
    rig.cluster = rig.net.cluster()
    rig.topic.epochs[0] = 5
    assert rig.read(0, 10, leader_epoch=5) == list(range(10))
    rig.topic.epochs[0] = 0  # it was deleted and created again, and a new query has planned this
    assert rig.read(0, 100, leader_epoch=0) == list(range(100))
    assert rig.net.now < 1003
    assert rig.cluster.offsets.list({TP: -1})[TP].leader_epoch == 0


def test_a_leader_elected_after_the_topic_was_made_again_is_compared_though_its_epoch_is_below_the_old_one(rig):
    rig.kafka.versions[METADATA.key] = (0, 9)
    rig.topic.epochs[0] = 5
    rig.read(0, 10, leader_epoch=5)
    rig.topic.epochs[0] = 0
    batches = rig.batches(leader_epoch=0, fail_on_data_loss=False)
    first = next(batches)
    elect(rig, ends_at=75)
    assert offsets([first, *batches]) == list(range(75))


def test_one_wrong_end_of_an_epoch_is_no_loss(rig, caplog):
    """Redpanda #5435, #15112: a leader that was just elected, asked once."""
    batches = rig.batches(topic_id=rig.topic.topic_id, leader_epoch=0)
    first = next(batches)
    elect(rig, ends_at=42)
    answer = rig.kafka._offset_for_leader_epoch

    def wrong_once(request):
        found = answer(request)
        rig.topic.epoch_ends.clear()
        return found

    rig.kafka._offset_for_leader_epoch = wrong_once
    assert offsets([first, *batches]) == list(range(100))
    assert len(rig.kafka.asked(OFFSET_FOR_LEADER_EPOCH)) == 2
    assert "lost" not in caplog.text


def test_an_epoch_that_nobody_can_tell_the_end_of_is_no_loss(rig):
    elect(rig, ends_at=-1)
    assert rig.read(leader_epoch=0) == list(range(100))


def test_brokers_that_cannot_be_asked_are_read_from(rig):
    del rig.kafka.versions[OFFSET_FOR_LEADER_EPOCH.key]
    elect(rig)
    assert rig.read(leader_epoch=0) == list(range(100))


@pytest.mark.parametrize("code", [6, 74])
def test_a_question_that_meets_another_election_is_asked_again(rig, code):
    rig.kafka.fault(OFFSET_FOR_LEADER_EPOCH, Error(code))
    elect(rig)
    assert rig.read(leader_epoch=0) == list(range(100))


def test_a_plan_without_epochs_asks_about_none(rig):
    elect(rig, ends_at=10)
    assert rig.read() == list(range(100))
    assert OFFSET_FOR_LEADER_EPOCH.name not in questions(rig)


@pytest.mark.parametrize("version", [7, 8])
def test_brokers_before_2_4_are_read_from_though_their_metadata_lag_behind_a_reassignment(rig, monkeypatch, version):
    # KAFKA-9212: until the reassignment ends, metadata tell an epoch that the leader has left behind.
    rig.kafka.versions[METADATA.key] = (0, version)
    rig.topic.epochs[0] = 6
    row_of = rig.kafka._topic_row

    def behind(name):
        row = row_of(name)
        return {**row, "partitions": [{**each, "leader_epoch": 5} for each in row["partitions"]]}

    monkeypatch.setattr(rig.kafka, "_topic_row", behind)
    assert rig.read(leader_epoch=6) == list(range(100))
    assert rig.net.now < 1001


# The ranges of one task.


def test_a_tasks_ranges_are_asked_about_together():
    rig = Rig(partitions=6)
    for partition in range(6):
        rig.topic.epochs[partition] = 3
    ranges = [OffsetRange(TopicPartition("t", p), 0, 100, leader_epoch=2) for p in range(6)]
    assert offsets(rig.fetch(*ranges)) == list(range(100)) * 6
    assert sorted(request.node_id for request in rig.kafka.asked(OFFSET_FOR_LEADER_EPOCH)) == [1, 2]
    assert questions(rig).count(METADATA.name) == 1


def test_two_ranges_of_one_partition_find_the_same_truncation(rig):
    elect(rig, ends_at=42)
    ranges = [OffsetRange(TP, 0, 50, leader_epoch=0), OffsetRange(TP, 50, 100, leader_epoch=0)]
    assert offsets(rig.fetch(*ranges, fail_on_data_loss=False)) == list(range(42))


# Ends that are bound when the task begins.


def late(start, end, partition=0, **planned):
    return OffsetRange(TopicPartition("t", partition), start, end, to_latest=True, **planned)


def test_latest_is_the_logs_end_of_when_the_task_begins(rig):
    assert offsets(rig.fetch(late(5, 50))) == list(range(5, 100))


def test_a_range_that_was_empty_when_planned_is_read_to_latest(rig):
    assert offsets(rig.fetch(late(90, 90))) == list(range(90, 100))


def test_a_range_that_is_empty_still_is_not_fetched(rig):
    assert offsets(rig.fetch(late(100, 100))) == []
    assert rig.kafka.asked(FETCH) == []


def test_the_ends_of_a_tasks_ranges_are_listed_together():
    rig = Rig(partitions=6)
    ranges = [late(90, 90 + partition, partition) for partition in range(6)]
    assert offsets(rig.fetch(*ranges)) == list(range(90, 100)) * 6
    assert sorted(request.node_id for request in rig.kafka.asked(LIST_OFFSETS)) == [1, 2]


@pytest.mark.parametrize("isolation_level", IsolationLevel)
def test_the_end_is_listed_under_the_querys_isolation_level(rig, isolation_level):
    offsets(rig.fetch(late(5, 50), isolation_level=isolation_level))
    (asked,) = rig.kafka.asked(LIST_OFFSETS)
    assert asked.body["isolation_level"] == isolation_level.value


def whole_log(rig, end):
    """What a batch from earliest to latest has planned."""
    epoch, topic_id = rig.topic.epochs[0], rig.topic.topic_id
    return OffsetRange(TP, 5, end, from_earliest=True, to_latest=True, leader_epoch=epoch, topic_id=topic_id)


@pytest.mark.parametrize("planned_end", [60, 100, 300])
@pytest.mark.parametrize("remembers", ["the old topic", "the new topic"])
def test_earliest_to_latest_of_a_topic_made_again_is_what_the_new_one_holds_and_the_old_one_is_lost(
    rig, planned_end, remembers, caplog
):
    planned = whole_log(rig, planned_end)
    rig.read(0, 10)
    rig.topic.topic_id = uuid.uuid4()
    if remembers == "the new topic":
        rig.cluster.topics.describe(["t"])
    assert offsets(rig.fetch(planned, fail_on_data_loss=False)) == list(range(100))
    assert re.search(
        r"lost.*offset \[5, \d+\) for topic partition t-0: the topic has been deleted, or recreated", caplog.text
    )
    assert rig.net.now < 1005
    with pytest.raises(DataLoss, match=r"offset \[5, \d+\) for topic partition t-0: .*recreated"):
        offsets(rig.fetch(planned))


@pytest.mark.parametrize("remembers", ["nothing", "the old leader"])
def test_earliest_to_latest_of_a_truncated_log_is_what_it_holds_and_what_was_cut_is_lost(rig, remembers, caplog):
    planned = whole_log(rig, 100)
    if remembers == "the old leader":
        rig.read(0, 10)
    elect(rig, ends_at=60)
    rig.kafka.log_end = 80
    assert offsets(rig.fetch(planned, fail_on_data_loss=False)) == list(range(5, 80))
    with pytest.raises(DataLoss, match=r"offset \[60, 100\) for topic partition t-0: the log was truncated"):
        offsets(rig.fetch(planned))
    assert "offset [60, 100) for topic partition t-0" in caplog.text


@pytest.mark.parametrize("changes", [{"from_earliest": False}, {"to_latest": False}])
def test_of_a_piece_of_a_log_that_was_made_again_nothing_is_read(rig, changes):
    planned = replace(whole_log(rig, 100), **changes)
    rig.topic.topic_id = uuid.uuid4()
    assert offsets(rig.fetch(planned, fail_on_data_loss=False)) == []


def test_earliest_to_latest_of_a_deleted_topic_is_nothing(rig):
    planned = whole_log(rig, 100)
    del rig.kafka.topics["t"]
    assert offsets(rig.fetch(planned, fail_on_data_loss=False)) == []


def test_a_new_leader_that_does_not_know_its_end_yet_shortens_nothing(rig):
    assert offsets(rig.fetch(late(5, 100))) == list(range(5, 100))
    rig.kafka.log_end = 60
    assert offsets(rig.fetch(late(5, 100))) == list(range(5, 100))


def test_a_range_of_a_deleted_topic_does_not_keep_others_from_their_ends():
    rig = Rig()
    gone = OffsetRange(TopicPartition("gone", 0), 0, 10, to_latest=True)
    assert offsets(rig.fetch(late(5, 50), gone, fail_on_data_loss=False)) == list(range(5, 100))
