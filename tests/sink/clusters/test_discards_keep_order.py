"""Rows that arrive are in order, none twice, all are accounted for, whatever is dropped, expires or is lost."""

import contextlib
import random
import threading
from types import SimpleNamespace

import pyarrow as pa
import pytest
from broker_log import BrokerLog
from sink_fakes import Rig

from kafkasource.errors import ConnectionLost, OutOfOrderSequenceNumber
from kafkasource.kafka.producer.pool import BufferPoolExhausted
from kafkasource.kafka.records.builder import RecordColumns
from kafkasource.sink.clusters.deliveries import ClusterDelivery, Dropped, Ledger
from kafkasource.sink.clusters.producers import ClusterProducers
from kafkasource.sink.clusters.slow_cluster import Health, Refusals
from kafkasource.types import TopicPartition

PARTITIONS = [TopicPartition("t", number) for number in range(3)]
NOT_LEADER = 6


class Line:
    """A task, its sender and a cluster; the test is all threads."""

    def __init__(self, seed, **policy):
        self.random = random.Random(seed)
        timeouts = {"delivery_timeout_ms": 400, "retry_backoff_ms": 10, "retry_backoff_max_ms": 20}
        self.rig = Rig(dict.fromkeys(PARTITIONS, 1), batch_bytes=300, buffer_memory_bytes=12 * 300, **timeouts)
        self.logs = {tp: BrokerLog(10_000) for tp in PARTITIONS}
        self.health = Health(50, self.rig.clock)
        self.ledger, self.next_value = Ledger(), 0
        self.delivery = self.rig.sender.begin(
            None,
            ClusterDelivery(
                None, self.health, Refusals(50, self.rig.clock), threading.Condition(), **policy or {"discards": True}
            ),
        )
        self.answered = 0
        self.producers = SimpleNamespace(
            producers=[SimpleNamespace(queues=self.rig.queues)], target=SimpleNamespace(name="west")
        )

    def append(self, tp=None):
        """The last row's value."""
        tp, count = tp or self.random.choice(PARTITIONS), self.random.randint(1, 8)
        values = [b"%020d" % number for number in range(self.next_value, self.next_value + count)]
        self.next_value += count
        self.ledger.hand_over("t", {tp.partition: count}, 20)
        columns = RecordColumns(None, pa.array(values, pa.binary()), default_timestamp_ms=1)
        spans = [(tp.partition, 0, count)]
        with contextlib.suppress(BufferPoolExhausted):
            self.rig.accumulator.append("t", columns, None, spans, self.delivery)
        return values[-1]

    def drop(self):
        ClusterProducers.drop_oldest(self.producers, self.random.choice([1, 600, 5000]))

    def turn(self):
        self.rig.sender.run_once()

    def wait(self):
        self.rig.clock.now_ms += self.random.choice([1, 15, 60, 250])

    def answer(self, outcome=None):
        """Requests of a connection are answered in order."""
        if self.answered == len(self.rig.client.sent):
            return
        sent = self.rig.client.sent[self.answered]
        self.answered += 1
        outcome = outcome or self.random.choice(["stored"] * 4 + ["not leader", "answer lost", "request lost"])
        if outcome == "request lost":
            sent.fail(ConnectionLost("cut"))
            return
        if outcome == "not leader":
            sent.answer(codes=dict.fromkeys(sent.batches, NOT_LEADER))
            return
        codes = {tp: self.logs[tp].append(batch) for tp, batch in sent.batches.items()}
        if outcome == "stored":
            sent.answer(dict.fromkeys(codes, 100), {tp: code for tp, code in codes.items() if code})
        else:
            sent.fail(ConnectionLost("cut"))

    def heal(self):
        """Nothing goes wrong any more; one row more for each partition, whose values are returned."""
        self.settle()
        last = [self.append(tp) for tp in PARTITIONS]
        self.settle()
        return last

    def settle(self):
        self.delivery.flushing = True
        while not self.delivery.settled:  # type: ignore[attr-defined]
            self.turn()
            self.answer("stored")
            self.rig.clock.now_ms += 5
        self.delivery.flushing = False

    def end(self):
        """Of the task: patience, or not."""
        self.delivery.flushing = True
        for _ in range(self.random.choice([0, 3, 300])):
            self.turn()
            self.answer("stored")
            self.rig.clock.now_ms += 5
            if self.delivery.settled:  # type: ignore[attr-defined]
                break
        self.delivery.abandon(Dropped("the task has ended"))
        self.delivery.wait(lambda: True)
        written = {tp: one.records for tp, one in self.delivery.written.items()}
        discarded = {tp: one.records for tp, one in self.ledger.discarded(self.delivery.written).items()}
        self.rig.sender.end(self.delivery)
        while self.rig.leaked_bytes:
            self.turn()
            self.answer("stored")
        self.turn()
        return written, discarded


@pytest.mark.parametrize("seed", range(0, 240, 60))
def test_what_arrives_is_in_order_once_and_all_is_accounted_for(seed):
    discarded_in_all = 0
    for number in range(seed, seed + 60):
        line = Line(number)
        steps = [line.append] * 5 + [line.turn] * 5 + [line.answer] * 4 + [line.wait, line.drop]
        for _ in range(150):
            line.random.choice(steps)()
            line.delivery.raise_if_failed()
        if number % 2:
            last = line.heal()
            assert [log.values[-1] for log in line.logs.values()] == last, number
        written, discarded = line.end()
        for tp, log in line.logs.items():
            assert log.values == sorted(set(log.values)), number
            assert written.get(tp, 0) <= len(log.values), number
        assert sum(written.values()) + sum(discarded.values()) == line.next_value
        assert all(count > 0 for count in discarded.values())
        discarded_in_all += sum(discarded.values())
    assert discarded_in_all


def test_where_only_old_rows_may_be_discarded_all_others_arrive_in_order_or_the_task_fails():
    """`maxRecordAge` under `block`. A task fails only where nobody knows whether a batch is stored."""
    discarded_in_all, failures = 0, []
    for number in range(80):
        line = Line(number, ages=True)
        steps = [line.append] * 5 + [line.turn] * 5 + [line.answer] * 4 + [line.wait]
        try:
            for _ in range(150):
                line.random.choice(steps)()
            last = line.heal()
        except OutOfOrderSequenceNumber as error:
            failures.append(str(error))
            continue
        assert [log.values[-1] for log in line.logs.values()] == last, number
        written, discarded = line.end()
        for log in line.logs.values():
            assert log.values == sorted(set(log.values)), number
        assert sum(written.values()) + sum(discarded.values()) == line.next_value
        discarded_in_all += sum(discarded.values())
    assert discarded_in_all
    assert len(failures) < 80 / 4
    assert all("it is unknown whether a broker stored an earlier attempt" in each for each in failures)


def test_fresh_rows_behind_some_that_were_too_old_are_stored():
    """The broker refuses their sequence, as those before them never came (KIP-98). They get another one."""
    line = Line(0, ages=True)
    tp, client, clock = PARTITIONS[0], line.rig.client, line.rig.clock
    line.append(tp)
    line.turn()
    line.turn()  # it goes alone: the broker does not know the producer id yet
    before = line.next_value
    line.append(tp)
    old = line.next_value - before
    line.answer("stored")
    line.turn()
    line.turn()
    clock.now_ms += 350
    for _ in range(2):
        line.append(tp)
        line.turn()
    assert len(client.sent) == line.answered + 3
    line.answer("not leader")
    line.answer("stored")
    line.answer("stored")  # both refused: OUT_OF_ORDER_SEQUENCE_NUMBER
    line.turn()
    clock.now_ms += 60  # delivery.timeout.ms is 400: the first is too old, the others are not
    last = line.heal()
    stored = [int(value) for value in line.logs[tp].values]
    assert stored == [*range(before), *(n for n in range(before + old, line.next_value) if n <= int(last[0]))]
    assert line.end()[1] == {tp: old}


def test_nothing_of_an_abandoned_delivery_is_counted_as_written_later():
    line = Line(0)
    line.append()
    line.turn()
    line.turn()
    line.delivery.abandon(Dropped("the task has ended"))
    line.answer("stored")
    line.turn()
    assert line.delivery.written == {}
    assert isinstance(line.delivery.error, Dropped)
    assert not line.health.dead


def test_batches_dropped_while_the_sender_was_about_to_drain_them_are_not_missed():
    line = Line(0)
    line.append(PARTITIONS[0])
    queues = line.rig.queues
    check = queues.ready(line.rig.client.metadata.leader_id, line.rig.clock() + 1000, 7)
    ClusterProducers.drop_oldest(line.producers, 1 << 20)
    assert queues.drain(check.nodes[1]) == []
    line.append(PARTITIONS[0])  # a new queue; the sender still holds the old one
    assert queues.drain(check.nodes[1]) == []
    line.heal()
    assert sum(one.records for one in line.delivery.written.values()) == len(
        [value for log in line.logs.values() for value in log.values]
    )
