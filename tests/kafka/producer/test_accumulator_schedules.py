"""Tasks append and fail while the sender drains, expires, splits and retries, in every order: a state machine."""

import random

import pyarrow as pa
import pytest
from broker_log import OUT_OF_ORDER, TOO_LARGE, BrokerLog
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kafka.record.default_records import DefaultRecordBatch
from random_inputs import examples
from sink_fakes import Rig
from sink_schedule import Schedule

from kafkasource.kafka.producer import accumulator, delivery
from kafkasource.kafka.producer import pool as buffer_pool
from kafkasource.kafka.producer import queues as partition_queues
from kafkasource.kafka.records.builder import RecordColumns
from kafkasource.types import TopicPartition

PARTITIONS = [TopicPartition("t", i) for i in range(3)]
BATCH, REQUEST = 600, 1200  # bytes
NOT_LEADER = 6


# Which request, and what becomes of it.
OUTCOMES = st.tuples(
    st.sampled_from([0, 0, 0, 1, 2, 3]), st.sampled_from(["stored", "stored", "stored", "not leader", "answer lost"])
)
# The rows of one append: (partition, bytes of the value).
ROWS = st.lists(
    st.tuples(st.sampled_from([0, 0, 0, 1, 2]), st.sampled_from([0, 50, 150, 300])), min_size=1, max_size=20
)


class GivenUp(Exception):
    pass


class AccumulatorMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.schedule = Schedule()
        self.patch = pytest.MonkeyPatch()
        for module in (partition_queues, buffer_pool, delivery):
            self.patch.setattr(module, "threading", self.schedule)
        append_spans = accumulator.append_spans  # type: ignore[attr-defined]

        def append_in_steps(*arguments):
            self.schedule.stop()
            reached = append_spans(*arguments)
            self.schedule.stop()
            return reached

        self.patch.setattr(accumulator, "append_spans", append_in_steps)
        self.tasks, self.deliveries = [], []
        self.given = {tp: [] for tp in PARTITIONS}  # by partition: (task, value) as its thread gave them
        self.producer_id, self.sequences = 7, dict.fromkeys(PARTITIONS, 0)
        self.requests = []
        self.skipped = []  # partitions that the last request had no room for

    @initialize(
        buffers=st.sampled_from([1, 2, 5, 10, 20]),
        in_flight=st.integers(1, 5),
        linger_ms=st.sampled_from([0, 5, 10**9]),
        max_message_bytes=st.sampled_from([400, 10_000]),
        first=st.integers(0, 40),
        timeout_ms=st.sampled_from([10**9, 10**9, 2500]),
    )
    def begin(self, buffers, in_flight, linger_ms, max_message_bytes, first, timeout_ms):
        self.logs = {tp: BrokerLog(max_message_bytes) for tp in PARTITIONS}
        self.rig = Rig(
            dict.fromkeys(PARTITIONS, 1),
            batch_bytes=BATCH,
            buffer_memory_bytes=buffers * BATCH,
            max_request_bytes=REQUEST,
            max_in_flight=in_flight,
            linger_ms=linger_ms,
            retry_backoff_ms=10,
            max_block_ms=10**9,
            delivery_timeout_ms=timeout_ms,
        )
        self.rig.pool = buffer_pool.BufferPool(buffers * BATCH, BATCH, clock=self.schedule.clock)
        self.rig.build(self.rig.clock)
        self.queues, self.accumulator = self.rig.queues, self.rig.accumulator
        self.begin_task([[(0, 150)] * first])
        self.schedule.settle()

    @precondition(lambda self: len(self.deliveries) < 4)
    @rule(appends=st.lists(ROWS, min_size=1, max_size=5))
    def begin_task(self, appends):
        number, given = len(self.deliveries), delivery.Delivery()
        self.deliveries.append(given)

        def work():
            for rows in appends:
                rows = sorted(rows, key=lambda row: row[0])
                values = []
                for partition, size in rows:
                    mine = self.given[PARTITIONS[partition]]
                    values.append(b"%d.%d." % (number, sum(task == number for task, _ in mine)) + b"v" * size)
                    mine.append((number, values[-1]))
                numbers = [partition for partition, _ in rows]
                spans = [
                    (partition, numbers.index(partition), numbers.index(partition) + numbers.count(partition))
                    for partition in sorted(set(numbers))
                ]
                columns = RecordColumns(None, pa.array(values, pa.binary()), default_timestamp_ms=1)
                self.accumulator.append("t", columns, None, spans, given)
            given.flushing = True

        self.tasks.append(self.schedule.start(f"task {number}", work))

    @precondition(lambda self: self.schedule.runnable)
    @rule(seed=st.integers(0, 2**16), steps=st.integers(1, 30))
    def step(self, seed, steps):
        choose = random.Random(seed).choice
        for _ in range(steps):
            if tasks := self.schedule.runnable:
                self.schedule.step(choose(tasks))

    @rule(ms=st.sampled_from([1, 10, 1000]))
    def pass_time(self, ms):
        self.rig.clock.now_ms += ms

    @rule(requests=st.integers(1, 4), seed=st.integers(0, 2**16), steps=st.integers(0, 3))
    def send(self, requests, seed, steps):
        for _ in range(requests):
            self.send_one(seed, steps)

    def send_one(self, seed=0, steps=0):
        """One turn of the sender, as far as the request; tasks come in between."""
        now_ms = self.rig.clock()
        expired = self.queues.take_expired(now_ms)
        assert all(now_ms - batch.created_ms >= self.rig.config.delivery_timeout_ms for batch in expired)
        for batch in expired:
            self.give_up(batch)
        for batch in self.queues.take_of({given for given in self.deliveries if given.failed}):
            self.give_up(batch)
        check = self.queues.ready(lambda tp: 1, now_ms, self.producer_id)
        partitions = check.nodes.get(1, [])
        self.step(seed, steps)
        fillable = [p.topic_partition for p in partitions if not p.waiting[0].held_back]
        sizes = {p.topic_partition: p.waiting[0].size for p in partitions}
        batches = self.queues.drain(partitions)
        taken = [batch.topic_partition for batch in batches]
        assert taken == fillable[: len(taken)], "in turn"
        still = [tp for tp in self.skipped if tp in fillable]
        assert fillable[: len(still)] == still, "who had to stand back comes first"
        self.skipped = fillable[len(taken) :]
        total = sum(sizes[tp] for tp in taken)
        assert len(taken) == 1 or total <= REQUEST
        if len(taken) < len(fillable):
            assert taken, "the first in turn is always sent"
            assert total + sizes[fillable[len(taken)]] > REQUEST
        for batch in batches:
            tp = batch.topic_partition
            flown = [other for request in self.requests for other in request if other.topic_partition == tp]
            assert not batch.appending
            assert len(flown) < self.rig.config.max_in_flight, "muted"
            assert all(batch.number != other.number for other in flown)
            if batch.attempts or batch.encoded is not None:
                assert all(batch.number < other.number for other in flown), "sent again before those behind it"
            else:
                assert all(batch.number > other.number for other in flown)
                assert batch.builder.record_count, "never an empty one"
                batch.close(self.producer_id, 0, self.sequences[tp])
                self.sequences[tp] += batch.record_count
                values = [record.value for record in DefaultRecordBatch(bytes(batch.encoded))]
                assert len({value.split(b".")[0] for value in values}) == 1, "two tasks share a batch"
            batch.attempts += 1
            batch.last_attempt_ms = now_ms
        if batches:
            self.requests.append(batches)

    @precondition(lambda self: self.requests)
    @rule(outcomes=st.lists(OUTCOMES, min_size=1, max_size=5))
    def answer(self, outcomes):
        for outcome in outcomes:
            if self.requests:
                self.answer_one(*outcome)

    def answer_one(self, which, outcome):
        """Any request: its partitions' leaders may have moved, so brokers need not answer in order."""
        request = self.requests.pop(which % len(self.requests))
        for batch in request:
            code = NOT_LEADER
            if outcome in ("stored", "answer lost"):
                code = self.logs[batch.topic_partition].append(bytes(batch.encoded))
            if outcome == "answer lost":
                code = NOT_LEADER
            self.settle_batch(batch, code)

    def give_up(self, batch):
        """Never to be sent again; if it ever was, the broker may have it, and its sequences are spent."""
        assert not batch.appending, "its task's thread is writing to it"
        batch.delivery.fail(GivenUp())
        if batch.sequenced:
            self.producer_id, self.sequences = self.producer_id + 1, dict.fromkeys(PARTITIONS, 0)
        self.queues.release(batch)

    @precondition(lambda self: self.deliveries)
    @rule(which=st.integers(0, 3), sure=st.sampled_from([False, False, True]))
    def interrupt_a_task(self, which, sure):
        if sure:
            self.deliveries[which % len(self.deliveries)].fail(GivenUp())

    def settle_batch(self, batch, code):
        if code and batch.delivery.failed:
            self.give_up(batch)
            self.queues.answered(batch, stored=False)
        elif code == 0:
            batch.delivery.acknowledged(batch.topic_partition, batch.record_count, batch.size, 0)
            self.queues.release(batch)
            self.queues.answered(batch, stored=True)
        elif code == TOO_LARGE:
            assert batch.record_count > 1
            self.queues.split(batch)
        else:
            assert code != OUT_OF_ORDER or not self.queues.is_next(batch), "nothing is missing before it"
            self.queues.put_back(batch)

    @invariant()
    def memory_is_bounded(self):
        if hasattr(self, "accumulator"):
            held = sum(partition.held_bytes for partition in self.queues._partitions.values())
            assert held <= self.rig.pool.in_use_bytes <= self.rig.pool.total_bytes

    @invariant()
    def no_batch_is_forgotten_by_the_deadline(self):
        if hasattr(self, "accumulator"):
            waiting = [batch for partition in self.queues._waiting for batch in partition.waiting]
            assert all(self.queues._oldest_ms <= batch.created_ms for batch in waiting)

    @invariant()
    def what_is_stored_is_in_each_tasks_order_and_once(self):
        for tp, log in getattr(self, "logs", {}).items():
            for number in range(len(self.deliveries)):
                stored = [value for value in log.values if value.startswith(b"%d." % number)]
                given = [value for task, value in self.given[tp] if task == number]
                assert stored == given[: len(stored)]  # of one that failed, too: nothing is missing before another

    def teardown(self):
        """Nobody starves: with a sender that goes on and a broker that answers, all is stored and all memory back."""
        try:
            if not hasattr(self, "accumulator"):
                return
            for _ in range(2000):
                self.schedule.settle()
                self.rig.clock.now_ms += 10
                self.send_one()
                if self.requests:
                    for batch in self.requests.pop(0):
                        self.settle_batch(batch, self.logs[batch.topic_partition].append(bytes(batch.encoded)))
                elif not self.schedule.alive and not self.queues._partitions:
                    break
            for number, (task, given) in enumerate(zip(self.tasks, self.deliveries, strict=True)):
                assert task.ended
                assert task.error is given.error or task.error is None
                if not given.failed:
                    assert given._open_batches == 0
                    for tp, log in self.logs.items():
                        stored = sum(value.startswith(b"%d." % number) for value in log.values)
                        assert stored == sum(owner == number for owner, _ in self.given[tp])
            assert self.rig.pool.in_use_bytes == 0
            assert self.rig.pool.available_bytes == self.rig.pool.total_bytes
        finally:
            self.schedule.abandon()
            self.patch.undo()


TestAccumulatorMachine = pytest.mark.slow(AccumulatorMachine.TestCase)
TestAccumulatorMachine.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
