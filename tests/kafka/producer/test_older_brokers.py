"""Tests the requests to brokers before 0.11, and the records that the sink refuses to send them."""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext

import pyarrow as pa
import pytest
from fan_out_rig import fan_out
from hypothesis import given, settings
from hypothesis import strategies as st
from legacy_wire import rows_of
from random_inputs import examples
from sink_fakes import T0, T1, AcknowledgingClient, Rig, columns

from kafkasource.errors import ConnectFailed, ConnectionLost, NotLeaderOrFollower, UnsupportedApiVersion, error_for
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.producer.rows import Rows
from kafkasource.kafka.protocol.apis import PRODUCE
from kafkasource.kafka.records.builder import BatchBuilder, RecordColumns

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def old(version, **settings):
    rig = Rig(**settings)
    rig.client.produce_version = version
    return rig


def with_codec(rig, codec):
    rig.queues.new_builder = lambda buffer: BatchBuilder(buffer, codec=codec)


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1)])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_an_older_broker_gets_message_sets(version, magic, codec):
    rig = old(version)
    with_codec(rig, codec)
    delivery, sent = rig.send(count=5)
    time = (0, 1) if magic else (-1, -1)
    assert rows_of(sent.batches[T0]) == [(i, *time, None, b"v" * 100) for i in range(5)]
    sent.answer({T0: 7})
    rig.turn(1)
    assert (delivery.records, delivery.last_offsets) == (5, {T0: 11})
    rig.sender.end(delivery)
    assert rig.leaked_bytes == 0


def test_without_idempotence_one_batch_of_a_partition_is_in_flight(caplog):
    rig = old(1)
    delivery = rig.sender.begin()
    for _ in range(3):
        rig.append(delivery, count=30)
        rig.append(delivery, T1, count=30)
    for _ in range(3):
        (sent,) = rig.turn()
        assert set(sent.batches) == {T0, T1}
        assert rig.turn() == []  # the next ones wait for the answer
        sent.answer()
    rig.turn(1)
    assert delivery.records == 180
    assert caplog.text.count("written without idempotence") == 1


def test_a_retry_keeps_the_order():
    rig = old(1)
    delivery = rig.sender.begin()
    rig.append(delivery, value=b"first" * 800)
    _, sent = rig.send(value=b"second" * 600, delivery=delivery)
    sent.answer(codes={T0: NotLeaderOrFollower.CODE})
    rig.clock.now_ms += 10_000
    (again,) = rig.turn()
    assert again.batches == sent.batches
    again.answer()
    (second,) = rig.turn()
    assert b"second" in second.batches[T0]


OUTCOMES = st.lists(st.sampled_from(["stored", "answer lost", "not leader", "never sent"]), max_size=15)


@settings(deadline=None, max_examples=examples(60))
@given(outcomes=OUTCOMES)
def test_whatever_fails_nothing_is_lost_or_out_of_order(outcomes):
    """Only a record whose answer was lost may be there twice, since nothing tells such a broker a copy."""
    rig, logs, lost, left = old(1), {T0: [], T1: []}, 0, deque(outcomes)
    delivery = rig.sender.begin()
    for number in range(12):
        rig.append(delivery, [T0, T1][number % 2], value=b"%d " % number * 700)
    while delivery.records < 12:
        for sent in rig.turn():
            outcome = left.popleft() if left else "stored"
            found = {tp: [int(row[4].split()[0]) for row in rows_of(data)] for tp, data in sent.batches.items()}
            if outcome in ("stored", "answer lost"):
                for tp, numbers in found.items():
                    logs[tp] += numbers
            if outcome == "stored":
                sent.answer()
            elif outcome == "not leader":
                sent.answer(codes=dict.fromkeys(sent.batches, NotLeaderOrFollower.CODE))
            else:
                lost += sum(map(len, found.values())) if outcome == "answer lost" else 0
                sent.fail((ConnectionLost if outcome == "answer lost" else ConnectFailed)("gone"))
        rig.clock.now_ms += 1200
    for tp, log in logs.items():
        assert list(dict.fromkeys(log)) == list(range(tp.partition, 12, 2))
    assert sum(map(len, logs.values())) == 12 + lost
    rig.sender.end(delivery)
    assert rig.leaked_bytes == 0


def test_the_same_batch_goes_as_the_broker_of_the_moment_takes_it():
    rig = old(1)
    _, sent = rig.send()
    assert sent.batches[T0][16] == 0
    sent.fail(error_for(NotLeaderOrFollower.CODE, "moved"))
    rig.client.produce_version = 13
    rig.clock.now_ms += 10_000
    (again,) = rig.turn()
    assert again.batches[T0][16] == 2


def half_upgraded(**settings):
    """The broker that gives producer ids is newer than the one that leads."""
    rig = Rig(**settings)
    send = rig.client.send

    def as_old(node_id, api, body, **more):
        rig.client.produce_version = 2 if api is PRODUCE else 13
        return send(node_id, api, body, **more)

    rig.client.send = as_old
    return rig


def test_amid_an_upgrade_the_order_holds_too():
    rig = half_upgraded()
    delivery = rig.sender.begin()
    for _ in range(4):
        rig.append(delivery, count=30)
    while delivery.records < 120:
        sent = rig.turn()
        assert len(sent) <= 1
        for one in sent:
            one.answer()
    demanded = half_upgraded(idempotence_demanded=True)
    delivery = demanded.sender.begin()
    demanded.append(delivery)
    demanded.turn()
    assert "idempotence: that needs Kafka 0.11" in str(delivery.error)


def appended(rig, delivery, rows, tp=T0):
    rig.accumulator.append(tp.topic, rows, None, [(tp.partition, 0, rows.count)], delivery)


def test_what_the_broker_cannot_keep_is_refused_and_the_others_rows_are_not():
    rig = old(2)
    fine, refused = rig.sender.begin(), rig.sender.begin()
    appended(rig, fine, columns(2))
    headers = pa.array([[{"key": "h", "value": b"x"}]], HEADERS)
    appended(rig, refused, RecordColumns(None, pa.array([b"v"]), None, headers), T1)
    (sent,) = rig.turn()
    assert set(sent.batches) == {T0}
    sent.answer()
    rig.turn(1)
    assert fine.records == 2
    assert "headers: that needs Kafka 0.11 (Produce v3), and node 1 serves Produce up to v2" in str(refused.error)
    rig.sender.end(refused)
    rig.turn()
    assert rig.leaked_bytes == 0


MAGIC_1 = "timestamps: that needs Kafka 0.10 (Produce v2)"
ZSTD = "zstd: that needs Kafka 2.1 (Produce v7)"


@pytest.mark.parametrize(
    ("what", "version", "says"),
    [
        *(("timestamps", version, says) for version, says in ((1, MAGIC_1), (2, None), (13, None))),
        *(("zstd", version, says) for version, says in ((1, ZSTD), (6, ZSTD), (7, None))),
        ("a transaction", 2, "transactions: that needs Kafka 0.11"),
        ("idempotence", 2, "'kafka.enable.idempotence'=true needs Kafka 0.11"),
    ],
)
def test_what_a_broker_does_not_know_is_refused_and_a_newer_one_gets_it(what, version, says):
    rig = old(version, idempotence_demanded=what == "idempotence")
    with_codec(rig, "zstd" if what == "zstd" else "none")
    transaction = TaskTransaction(5000, 0, transactional_id="p-0") if what == "a transaction" else None
    delivery = rig.sender.begin(transaction)
    delivery.has_timestamps = what == "timestamps"
    rig.append(delivery)
    assert bool(rig.turn()) is (says is None)
    assert (delivery.error is None) is (says is None)
    assert says is None or (isinstance(delivery.error, UnsupportedApiVersion) and says in str(delivery.error))


@pytest.mark.parametrize(
    ("timestamps", "refuses"), [([-1, None, -1], False), ([None, None, None], False), ([-1, -1, 5], True)]
)
def test_rows_without_a_timestamp_need_no_place_for_one(timestamps, refuses):
    """Records as a mirror gets them from a broker before 0.10."""
    client = AcknowledgingClient({T0: 1})
    client.produce_version = 1
    rows = Rows("t", 3, None, pa.array([b"v"] * 3), None, None, pa.array(timestamps, pa.int64()))
    refused = pytest.raises(UnsupportedApiVersion, match=r"timestamps: that needs Kafka 0\.10") if refuses else None
    with fan_out({"east": client}) as (to, _), refused or nullcontext(), to.delivery() as delivery:
        to.append(rows, delivery)
    sets = [batch for sent in client.sent for batch in sent.batches.values()]
    stored = [(kind, time, value) for one in sets for _, kind, time, _, value in rows_of(one)]
    assert stored == ([] if refuses else [(-1, -1, b"v")] * 3)


def test_a_message_set_that_is_too_large_is_sent_in_pieces():
    rig = old(1)
    delivery, sent = rig.send(count=8)
    sent.answer(codes={T0: 10})
    rows = []
    while delivery.records < 8:
        for piece in rig.turn():
            rows += rows_of(piece.batches[T0])
            piece.answer()
    assert [row[4] for row in rows] == [b"v" * 100] * 8


def test_whoever_turned_idempotence_off_keeps_several_requests_in_flight():
    rig = Rig(idempotent=False)
    rig.client.produce_version = 1
    delivery = rig.sender.begin()
    for _ in range(3):
        rig.append(delivery, count=30)
    assert len(rig.turn()) > 1
