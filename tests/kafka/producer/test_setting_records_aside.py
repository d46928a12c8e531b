"""Records that a broker refuses one by one leave their batch, and all others are stored once and in order."""

import random
from collections import deque
from dataclasses import replace

import pyarrow as pa
import pytest
from broker_log import OUT_OF_ORDER, TOO_LARGE, BrokerLog
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch
from random_inputs import examples
from sink_fakes import T0, FakeTransactions, Rig, producer_of

from kafkasource import metrics
from kafkasource.errors import (
    ConnectionLost,
    InvalidRecord,
    MessageTooLarge,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
)
from kafkasource.formats.dead_letters.makers import topic_for_records
from kafkasource.kafka.producer import unwritable
from kafkasource.kafka.producer.delivery import Delivery
from kafkasource.kafka.producer.partitioner import Partitioner
from kafkasource.kafka.producer.pool import BufferPoolExhausted
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.kafka.records.builder import BatchBuilder, RecordColumns

NOT_LEADER, INVALID_TIMESTAMP, INVALID_RECORD = 6, 32, 87


class Broker(BrokerLog):
    """One partition, by the rules of Kafka 4.3's UnifiedLog: it looks at sizes and records first, at sequences then. A
    value that begins with `bad` is invalid."""

    def __init__(self, largest=10_000, *, names_records=True, lenient=0):
        """`lenient`: so many batches come before the topic's settings forbid anything."""
        super().__init__()
        self.largest, self.names_records, self.lenient = largest, names_records, lenient

    def append(self, batch):
        """(error code, what else the answer says)"""
        refusal = self.refusal_of(batch) if self.lenient <= 0 else None
        self.lenient -= 1
        return refusal or (super().append(batch), {})

    def refusal_of(self, batch):
        if len(batch) > self.largest:
            return TOO_LARGE, {"error_message": f"The record batch size is {len(batch)} bytes"}
        values = [record.value for record in DefaultRecordBatch(batch)]
        bad = [number for number, value in enumerate(values) if value.startswith(b"bad")]
        if not bad:
            return None
        errors = [{"batch_index": n, "batch_index_error_message": f"no key in record {n}"} for n in bad]
        errors = errors if self.names_records else []
        return INVALID_RECORD, {"record_errors": errors, "error_message": "One or more records have been rejected"}


class Task:
    """A rig's only task, with a topic of dead letters, which it keeps instead of appending them."""

    def __init__(self, rig, *, transaction=False):
        self.rig = rig
        joined = TaskTransaction.open(FakeTransactions(), "p-0", 1000, 2) if transaction else None
        dead_letters = topic_for_records("dlq", Partitioner(4096), "the cluster")
        self.delivery = rig.sender.begin(delivery=Delivery(joined, dead_letters))
        self.dead = []

    def take(self):
        self.dead += [letters for _, letters in self.delivery.take_set_aside()]

    @property
    def dead_values(self):
        return [value for rows in self.dead for value in rows.values.to_pylist()]

    def reasons(self):
        return [dict(row)["__dlq.errors.message"] for rows in self.dead for row in self.headers(rows)]

    @staticmethod
    def headers(rows):
        return [[(each["key"], each["value"]) for each in row] for row in rows.headers.to_pylist()]

    def drive(self, broker, fates=(), turns=3000):
        """Turns of the sender against the broker until all is settled. `fates`, one for each answer: `ok`; `not
        leader`; `lost`: stored, and no answer; `gone`: neither; `late`: no answer, and the broker sees it some answers
        later."""
        fates, late = iter(fates), []
        for _ in range(turns):
            self.rig.clock.now_ms += 50
            self.rig.turn(1)
            for sent in [request for request in self.rig.client.sent if not request.pending.done]:
                self.answer(broker, sent, next(fates, "ok"), late)
            self.take()
            self.delivery.flushing = True
            if self.delivery.failed or not self.rig.leaked_bytes:
                break
        else:
            raise AssertionError("it does not end")
        for batch in late:
            broker.append(batch)

    @staticmethod
    def answer(broker, sent, fate, late):
        batch = sent.batches[T0]
        if fate == "ok":
            code, details = broker.append(batch)
            sent.answer(codes={T0: code} if code else None, **details)
        elif fate == "not leader":
            sent.answer(codes={T0: NOT_LEADER})
        else:
            if fate == "lost":
                broker.append(batch)
            if fate == "late":
                late.append(batch)
            sent.fail(ConnectionLost("cut"))
        if len(late) > 1:
            broker.append(late.pop(0))


@pytest.mark.parametrize("transaction", [False, True])
@pytest.mark.parametrize("names_records", [True, False])
def test_refused_records_become_dead_letters_and_the_others_are_stored_in_order(transaction, names_records):
    rig = Rig()
    task = Task(rig, transaction=transaction)
    values = [b"bad %d" % i if i % 7 == 3 else b"good %d" % i for i in range(200)]
    for value in values:
        rig.append(task.delivery, value=value)
    broker = Broker(names_records=names_records)
    task.drive(broker)
    task.delivery.raise_if_failed()
    assert broker.values == [value for value in values if value.startswith(b"good")]
    assert task.dead_values == [value for value in values if value.startswith(b"bad")]
    assert task.delivery.records == len(broker.values)
    assert len({producer_of(batch)[:2] for sent in rig.client.sent for batch in sent.batches.values()}) == 1


TIME_MS = 1_750_000_000_000


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize(
    "times_ms",
    [
        [TIME_MS + 60] + [TIME_MS, TIME_MS + 120] * 75,  # a byte each from the first record, two from the second
        [TIME_MS, TIME_MS + 7_000_000_000_000_000] + [TIME_MS] * 149,  # one, and eight
    ],
)
def test_when_the_first_record_leaves_the_others_timestamps_may_take_more_bytes(codec, times_ms):
    rig = Rig(batch_bytes=16_384, buffer_memory_bytes=16 * 16_384)
    rig.queues.new_builder = lambda buffer: BatchBuilder(buffer, codec=codec)
    task = Task(rig)
    good = [b"g%d" % number for number in range(150)]
    rows = RecordColumns(None, pa.array([b"bad", *good], pa.binary()), pa.array(times_ms, pa.int64()))
    rig.accumulator.append("t", rows, None, [(0, 0, 151)], task.delivery)
    broker = Broker()
    task.drive(broker)
    task.delivery.raise_if_failed()
    assert broker.values == good
    assert [record.timestamp for record in broker.records] == times_ms[1:]
    assert task.dead_values == [b"bad"]


def test_a_dead_letter_is_the_record_with_its_headers_and_the_brokers_words():
    rig = Rig()
    task = Task(rig)
    headers = pa.array([[("a", b"1"), ("a", None)], None], HEADERS_TYPE)
    rows = RecordColumns(pa.array([b"k", None], pa.binary()), pa.array([b"bad", b"good"]), pa.array([77, 78]), headers)
    rig.accumulator.append("t", rows, None, [(0, 0, 2)], task.delivery)
    task.drive(Broker())
    (dead,) = task.dead
    assert (dead.topic, dead.keys.to_pylist(), dead.values.to_pylist()) == ("dlq", [b"k"], [b"bad"])
    assert (dead.timestamps_ms.to_pylist(), dead.partitions) == ([77], None)
    assert task.headers(dead) == [
        [
            ("a", b"1"),
            ("a", None),
            ("__dlq.errors.topic", b"t"),
            ("__dlq.errors.partition", b"0"),
            ("__dlq.errors.message", b"INVALID_RECORD: no key in record 0"),
            ("__dlq.errors.cluster.id", b"the cluster"),
        ]
    ]


@pytest.mark.parametrize(
    ("settings", "size", "reason"),
    [
        ({"batch_bytes": 2048}, 1500, b"MESSAGE_TOO_LARGE: The record batch size is 1"),
        ({"max_request_bytes": 4096}, 5000, b"more than 'kafka.max.request.size' (4096)"),
        (
            {"buffer_memory_bytes": 2 * 4096, "max_request_bytes": 100_000},
            9000,
            b"more than 'kafka.buffer.memory' (8192)",
        ),
    ],
    ids=["the topic's limit", "a request", "the memory for all batches"],
)
def test_a_record_that_is_too_large_is_a_dead_letter(settings, size, reason):
    rig = Rig(**settings)
    task = Task(rig)
    for value in (b"before", b"l" * size, b"behind"):
        rig.append(task.delivery, value=value)
    broker = Broker(largest=1000)
    task.drive(broker)
    assert (broker.values, task.dead_values) == ([b"before", b"behind"], [b"l" * size])
    assert reason in task.reasons()[0]


def test_dead_letters_are_counted_by_the_topic_that_refused_them_and_the_reason():
    large = {"max_request_bytes": 4096, "batch_bytes": 2048}, [b"bad", b"bad", b"l" * 1500, b"l" * 5000, b"good"]
    larger = {"max_request_bytes": 100_000, "buffer_memory_bytes": 2 * 4096}, [b"l" * 9000]
    for settings_, values in (large, larger):
        rig = Rig(cluster_name="of this test", **settings_)
        task = Task(rig)
        for value in values:
            rig.append(task.delivery, value=value)
        task.drive(Broker(largest=1000))
    counters = metrics.process_counts().snapshot().counters
    name = "kafkasource_dead_letters_total"
    counted = {labels: n for (metric, labels), n in counters.items() if metric == name and labels[0] == "of this test"}
    reasons = {"INVALID_RECORD": 2, "MESSAGE_TOO_LARGE": 1, "buffer.memory": 1, "max.request.size": 1}
    assert counted == {("of this test", "t", reason): n for reason, n in reasons.items()}


def test_dead_letters_may_be_larger_than_a_request():
    rig = Rig(leaders={T0._replace(topic="dlq"): 1}, max_request_bytes=4096)
    task = Task(rig)
    rig.append(task.delivery, T0._replace(topic="dlq"), value=b"l" * 5000)
    (sent,) = rig.turn()
    rig.answer(sent)
    assert task.delivery.records == 1


def test_a_dead_letter_may_be_larger_than_the_memory_for_all_batches_and_has_it_to_itself():
    dead = T0._replace(topic="dlq")
    rig = Rig(leaders={T0: 1, dead: 1}, buffer_memory_bytes=2 * 4096)
    task = Task(rig)
    rig.append(task.delivery, value=b"small")
    with pytest.raises(BufferPoolExhausted):
        rig.append(task.delivery, dead, value=b"l" * 9000)
    task.drive(Broker())
    rig.append(task.delivery, dead, value=b"l" * 9000)
    assert rig.pool.try_allocate(1) is None
    (sent,) = rig.turn()
    assert [record.value for record in DefaultRecordBatch(sent.batches[dead])] == [b"l" * 9000]
    rig.answer(sent)
    assert (task.delivery.records, rig.leaked_bytes) == (2, 0)


@pytest.mark.parametrize(("code", "error"), [(TOO_LARGE, MessageTooLarge), (INVALID_RECORD, InvalidRecord)])
def test_a_dead_letter_that_its_topic_refuses_fails_the_task_and_says_what_to_change(code, error):
    dead = T0._replace(topic="dlq")
    rig = Rig(leaders={dead: 1})
    task = Task(rig)
    rig.append(task.delivery, dead)
    (sent,) = rig.turn()
    rig.answer(sent, codes={dead: code})
    with pytest.raises(error, match=r"topic of 'badRecords' must take every record: raise its max\.message\.bytes"):
        task.delivery.raise_if_failed()


def test_numbers_that_the_batch_does_not_have_are_not_believed():
    rig = Rig()
    task = Task(rig)
    rig.append(task.delivery, count=3, value=b"good")
    (sent,) = rig.turn()
    lies = [{"batch_index": number, "batch_index_error_message": None} for number in (-1, 3, 2**31 - 1)]
    sent.answer(codes={T0: INVALID_TIMESTAMP}, record_errors=lies)
    broker = Broker()
    task.drive(broker)
    assert (broker.values, task.dead_values) == ([b"good"] * 3, [])


def test_batches_under_way_behind_a_refused_one_move_up():
    rig = Rig()
    task = Task(rig, transaction=True)
    broker = Broker()
    rig.append(task.delivery, value=b"first")
    task.drive(broker)  # from now on several batches may be on their way
    sent = []
    for value in (b"bad", b"second", b"third"):
        rig.append(task.delivery, value=value)
        task.delivery.flushing = True
        sent += rig.turn()
    assert [producer_of(each.batches[T0])[2] for each in sent] == [1, 2, 3]
    for each in sent:
        Task.answer(broker, each, "ok", [])
    task.drive(broker)
    assert broker.values == [b"first", b"second", b"third"]
    assert [*broker.last.values()] == [deque([(0, 1, 0), (1, 1, 1), (2, 1, 2)])]
    assert task.dead_values == [b"bad"]


@pytest.mark.parametrize("cut", [0, 1])
def test_a_batch_that_may_be_stored_is_neither_a_dead_letter_nor_moved(cut):
    """0: the refused batch's first answer was lost. 1: that of the batch behind it, which has its old sequence."""
    rig = Rig()
    task = Task(rig, transaction=True)
    broker = Broker()
    rig.append(task.delivery, value=b"first")
    task.drive(broker)
    sent = []
    for value in (b"bad", b"second"):
        rig.append(task.delivery, value=value)
        task.delivery.flushing = True
        sent += rig.turn()
    sent[cut].fail(ConnectionLost("cut"))
    if cut == 1:
        Task.answer(broker, sent[0], "ok", [])
    else:
        sent[1].answer(codes={T0: OUT_OF_ORDER})
    task.drive(broker)
    with pytest.raises((InvalidRecord, ConnectionLost)):
        task.delivery.raise_if_failed()
    assert broker.values == [b"first"]


EXPECTED = (ConnectionLost, InvalidRecord, MessageTooLarge, NotLeaderOrFollower, OutOfOrderSequenceNumber)
FATES = ["ok"] * 12 + ["not leader", "lost", "gone", "late"]


RUNS = {
    "sizes": st.lists(st.tuples(st.integers(1, 1500), st.integers(0, 5)), min_size=1, max_size=60),
    "fates": st.lists(st.sampled_from(FATES), max_size=40),
    "in_flight": st.integers(1, 5),
    "transaction": st.booleans(),
    "names_records": st.booleans(),
    "wraps": st.booleans(),
    "lenient": st.integers(0, 3),
    "largest": st.sampled_from([1000, 10_000]),
    "most_bytes": st.sampled_from([1200, 1 << 20]),
}


def run(sizes, fates, in_flight, transaction, names_records, wraps, lenient, largest, most_bytes):
    rig = Rig(buffer_memory_bytes=64 * 4096, max_in_flight=in_flight, max_request_bytes=most_bytes)
    task = Task(rig, transaction=transaction)
    broker = Broker(largest, names_records=names_records, lenient=lenient)
    if wraps and transaction:  # sequences are int31
        task.delivery.transaction._next_sequences[T0] = 2**31 - 1 - random.Random(len(sizes)).randrange(60)
    values = [(b"bad" if bad == 0 else b"good") + b" %06d" % i + b"v" * size for i, (size, bad) in enumerate(sizes)]
    for value in values:
        rig.append(task.delivery, value=value)
        rig.turn(1)
    task.drive(broker, fates)
    stored = broker.values
    assert stored == [value for value in values if value in set(stored)], "in order, each once"
    if task.delivery.failed:
        assert set(fates) - {"ok"}
        assert isinstance(task.delivery.error, EXPECTED)
    else:
        assert sorted([*stored, *task.dead_values]) == sorted(values)
        assert all(value.startswith(b"bad") or len(value) > 800 for value in task.dead_values)


@settings(max_examples=examples(300), deadline=None)
@given(**RUNS)
def test_whatever_is_refused_or_lost_no_record_is_doubled_or_moved_and_none_is_missing(**drawn):
    run(**drawn)


def takes_all(monkeypatch):
    """One bad record takes the good ones of its batch with it."""
    right = unwritable.set_aside

    def planted(answer, *rest):
        words = dict.fromkeys(range(answer.batch.record_count), b"")
        return right(replace(answer, refused=words), *rest)

    monkeypatch.setattr(unwritable, "set_aside", planted)


def takes_one(monkeypatch):
    """One bad record of a batch becomes a dead letter, and the others are forgotten."""
    right = Delivery.set_aside
    monkeypatch.setattr(
        Delivery, "set_aside", lambda self, tp, rows, **more: right(self, tp, rows.take(pa.array([0])), **more)
    )


@pytest.mark.parametrize("plant", [takes_all, takes_one])
def test_the_same_runs_find_a_planted_bug(plant, monkeypatch):
    plant(monkeypatch)
    runs = given(**RUNS)(lambda **drawn: run(**drawn))
    bounds = {"max_examples": 2000, "deadline": None, "derandomize": True, "database": None}
    with pytest.raises(AssertionError):
        settings(**bounds, phases=[Phase.generate])(runs)()
