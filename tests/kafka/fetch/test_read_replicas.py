"""Records come from a replica in the executor's rack where the leader says so (KIP-392), and are the same ones."""

import pytest
from fake_broker import CLOSE, Answer, Error
from fetch_rig import TP, Rig, offsets

from kafkasource.kafka.fetch.replicas import rack_of
from kafkasource.kafka.protocol.apis import FETCH, METADATA
from kafkasource.types import OffsetRange

LEADER, REPLICA = 1, 2


@pytest.fixture
def rig():
    rig = Rig()
    rig.kafka.racks = {"here": REPLICA}
    return rig


def nodes(rig):
    return [node_id for node_id, _ in rig.fetches()]


def racks(rig):
    return [(request.node_id, request.body["rack_id"]) for request in rig.kafka.asked(FETCH)]


def test_the_leader_is_asked_once_and_all_records_come_from_the_replica(rig):
    assert rig.read(5, 95, rack="here") == list(range(5, 95))
    assert nodes(rig)[0] == LEADER
    assert set(nodes(rig)[1:]) == {REPLICA}
    assert rig.fetches()[:2] == [(LEADER, 5), (REPLICA, 5)]


@pytest.mark.parametrize(("rack", "node_id"), [("here", REPLICA), ("elsewhere", LEADER), (None, LEADER)])
def test_the_next_task_of_the_query_goes_to_the_replica_at_once_and_no_other_query_does(rig, rack, node_id):
    rig.read(0, 10, rack="here")
    before = len(rig.fetches())
    assert rig.read(rack=rack) == list(range(100))
    assert set(nodes(rig)[before:]) == {node_id}


def test_a_replica_whose_quota_is_used_up_is_waited_for(rig):
    rig.read(0, 10, rack="here")
    before = len(rig.fetches())
    throttled = {"throttle_time_ms": 100, "error_code": 0, "session_id": 0, "responses": []}
    rig.kafka.fault(FETCH, Answer(throttled))
    assert rig.read(rack="here") == list(range(100))
    assert set(nodes(rig)[before:]) == {REPLICA}


def test_the_leader_is_asked_again_after_metadata_max_age(rig):
    rig.read(0, 10, rack="here")
    before = len(rig.fetches())
    rig.net.now += rig.cluster.config.metadata_max_age_ms / 1000
    assert rig.read(rack="here") == list(range(100))
    assert nodes(rig)[before:][:2] == [LEADER, REPLICA]


@pytest.mark.parametrize("rack", [None, "elsewhere"])
def test_without_a_replica_in_the_rack_records_come_from_the_leader(rig, rack):
    assert rig.read(rack=rack) == list(range(100))
    assert racks(rig)[0] == (LEADER, rack or "")
    assert set(nodes(rig)) == {LEADER}


# A replica that is behind, or in trouble.


@pytest.mark.parametrize("error", [None, 1, 78])
@pytest.mark.parametrize("replicas_end", [0, 60])
def test_what_a_replica_does_not_have_yet_comes_from_the_leader_at_once(rig, error, replicas_end):
    rig.kafka.replicas_end, rig.kafka.replicas_error = replicas_end, error
    assert rig.read(rack="here") == list(range(100))
    assert all(node_id == LEADER for node_id, offset in rig.fetches() if offset > replicas_end)
    assert racks(rig)[-1] == (LEADER, "")  # or it would send us back
    assert rig.net.now == 1000.0


def test_a_replica_is_not_asked_to_wait_for_records(rig):
    rig.read(rack="here")
    waits = {(request.node_id, request.body["max_wait_ms"]) for request in rig.kafka.asked(FETCH)}
    assert waits == {(LEADER, 500), (REPLICA, 0)}


@pytest.mark.parametrize("fault", [CLOSE, Error(6), Error(9), Error(56), Error(75), Error(3)])
def test_a_replica_that_fails_is_left_for_the_leader(rig, fault):
    rig.kafka.fault(FETCH, None, None, fault)
    assert rig.read(rack="here") == list(range(100))
    assert set(nodes(rig)[4:]) == {LEADER}


def test_a_replica_that_is_no_replica_any_more_is_not_asked(rig):
    rig.read(0, 10, rack="here")
    rig.kafka.node_ids = [LEADER]
    rig.kafka.racks = {}
    rig.cluster.topics.describe(["t"])
    before = len(rig.fetches())
    assert rig.read(rack="here") == list(range(100))
    assert set(nodes(rig)[before:]) == {LEADER}


def test_a_replica_that_metadata_does_not_know_is_not_waited_for(rig):
    rig.kafka.racks = {"here": 77}
    assert rig.read(rack="here") == list(range(100))
    assert set(nodes(rig)) == {LEADER}
    assert rig.net.now == 1000.0


def test_damage_at_a_replica_is_read_from_the_leader(rig):
    rig.read(0, 10, rack="here")
    rig.kafka.damaged_node = REPLICA
    before = len(rig.fetches())
    assert rig.read(rack="here") == list(range(100))
    assert nodes(rig)[before] == REPLICA
    assert set(nodes(rig)[before + 2 :]) == {LEADER}


def test_no_more_than_one_fetch_is_under_way_whoever_answers(rig):
    under_way = set()
    for _ in rig.batches(rack="here", max_partition_bytes=1):
        under_way.add(rig.cluster.network.in_flight(LEADER) + rig.cluster.network.in_flight(REPLICA))
    assert under_way <= {0, 1}


def test_ranges_of_one_task_share_what_the_leader_said(rig):
    ranges = [OffsetRange(TP, 0, 10), OffsetRange(TP, 10, 20), OffsetRange(TP, 20, 30)]
    assert offsets(rig.fetch(*ranges, rack="here", read_ahead=1)) == list(range(30))
    assert nodes(rig) == [LEADER, REPLICA, REPLICA, REPLICA]
    assert rig.asked(METADATA).count(METADATA.name) == 1


# Which rack.


def test_a_rack_from_the_environment_is_that_of_the_executor(monkeypatch, rig):
    monkeypatch.setenv("RACK_OF_THIS_TEST", "here")
    assert rig.read(rack="env:RACK_OF_THIS_TEST") == list(range(100))
    assert racks(rig)[0] == (LEADER, "here")
    assert set(nodes(rig)[1:]) == {REPLICA}


def test_an_environment_without_it_is_told_and_read_from_leaders(rig, caplog):
    assert rig.read(rack="env:NOBODY_SETS_THIS") == list(range(100))
    assert set(nodes(rig)) == {LEADER}
    assert "'kafka.client.rack' is env:NOBODY_SETS_THIS" in caplog.text


@pytest.mark.parametrize(("written", "rack"), [(None, ""), ("eu-1a", "eu-1a"), ("environment", "environment")])
def test_a_rack_is_what_is_written(written, rack):
    assert rack_of(written) == rack
