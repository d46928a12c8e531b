"""The pool under every order in which threads may come, one step at a time: a state machine finds the orders."""

import random
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from random_inputs import examples
from sink_schedule import Schedule

from kafkasource.errors import ClientClosed
from kafkasource.kafka.producer import pool as buffer_pool
from kafkasource.kafka.producer.pool import AllocationTooLarge, BufferPool, BufferPoolExhausted

POOLABLE = 16


class PoolMachine(RuleBasedStateMachine):
    """Callers ask, wait, fail and give back, and the limit moves. Each writes its own mark into what it was given."""

    def __init__(self):
        super().__init__()
        self.schedule = Schedule()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(buffer_pool, "threading", self.schedule)
        self.marks = count(1)
        self.asking = []  # (task, size) not looked at yet
        self.held = []  # (buffer, mark)
        self.line = []  # tasks in line after the last step

    @initialize(units=st.integers(1, 6), odd=st.integers(0, POOLABLE - 1))
    def begin(self, units, odd):
        self.total = self.largest = units * POOLABLE + odd
        self.pool = BufferPool(self.total, POOLABLE, clock=self.schedule.clock)

    @rule(size=st.just(POOLABLE) | st.integers(1, 7 * POOLABLE), seconds=st.sampled_from([0, 1, 1000]))
    def ask(self, size, seconds):
        size = min(size, self.total)
        task = self.schedule.start(f"ask {size}", lambda: self.pool.allocate(size, seconds * 1000))
        task.size, task.beyond = size, False
        self.asking.append(task)

    @rule(size=st.integers(1, 20 * POOLABLE))
    def ask_beyond(self, size):
        task = self.schedule.start(f"ask beyond {size}", lambda: self.pool.allocate(size, 1_000_000, beyond=True))
        task.size, task.beyond = size, True
        self.asking.append(task)

    @rule(size=st.just(POOLABLE) | st.integers(1, 3 * POOLABLE))
    def try_to_get(self, size):
        line = list(self.pool._waiters)
        buffer = self.pool.try_allocate(size)
        assert buffer is None or not line, "nobody overtakes those in line"
        assert buffer is None or self.pool._available() >= 0, "more than the total is in use"
        if buffer is not None:
            self.take(buffer, size)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), at_once=st.booleans())
    def give_back(self, data, at_once):
        buffer, mark = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        assert set(buffer) == {mark}, "somebody else has written into it"
        if at_once:  # the thread that it wakes has not gone on yet
            self.pool.deallocate(buffer)
        else:
            self.schedule.start("give back", lambda: self.pool.deallocate(buffer))

    @precondition(lambda self: self.schedule.runnable)
    @rule(data=st.data())
    def step(self, data):
        tasks = self.schedule.runnable
        self.run(tasks[data.draw(st.integers(0, len(tasks) - 1))])

    @rule(seed=st.integers(0, 2**16))
    def settle(self, seed):
        choose = random.Random(seed).choice
        while tasks := self.schedule.runnable:
            self.run(choose(tasks))
        self.nobody_waits_for_what_is_there()

    @rule(units=st.integers(1, 6), odd=st.integers(0, POOLABLE - 1))
    def resize(self, units, odd):
        self.total = units * POOLABLE + odd
        self.largest = max(self.largest, self.total)
        self.pool.resize(self.total)

    @rule(seconds=st.sampled_from([1, 1000]))
    def pass_time(self, seconds):
        self.schedule.pass_time(seconds)

    def run(self, task):
        """One step; it takes the lock at most once."""
        before, in_use = self.line, self.pool._in_use_bytes()
        self.schedule.step(task)
        self.line = [condition.task for condition in self.pool._waiters]  # type: ignore[attr-defined]
        left = [other for other in before if other not in self.line]
        assert left in ([], [task]), "only who runs leaves the line"
        assert self.line[: len(before) - len(left)] == [other for other in before if other not in left]
        if self.pool._in_use_bytes() > in_use:
            assert not before or before[0] is task, "served before somebody who came earlier"
            assert self.pool._available() >= 0 or not in_use, "served while more than the total is in use"
        if task.ended:
            assert task.error is None or isinstance(task.error, (AllocationTooLarge, BufferPoolExhausted))
            assert not isinstance(task.error, AllocationTooLarge) or task.size > self.total
            if task in self.asking:
                self.asking.remove(task)
                if task.error is None:
                    self.take(task.result, task.size)

    def take(self, buffer, size):
        assert len(buffer) == size
        assert all(buffer is not other for other, _ in self.held)
        mark = next(self.marks) % 256
        buffer[:] = bytes([mark]) * size
        self.held.append((buffer, mark))

    @invariant()
    def never_more_than_the_total(self):
        if not hasattr(self, "pool"):
            return
        pool = self.pool
        assert sum(len(buffer) for buffer, _ in self.held) <= self.largest or len(self.held) == 1
        assert pool._non_pooled_bytes >= 0 or not pool._free
        assert pool._gathered_bytes >= 0
        assert pool._available() + pool._gathered_bytes <= self.total
        assert pool.queued == len(self.line)

    def nobody_waits_for_what_is_there(self):
        """When every thread sleeps, the first waiter has taken all free memory."""
        assert self.pool.available_bytes <= 0 or not self.line, "the next waiter was not woken"
        assert self.pool.in_use_bytes or not self.line or not self.line[0].beyond, "it has the pool to itself"
        gathered = self.pool._gathered_bytes
        assert self.pool.available_bytes + gathered + sum(len(buffer) for buffer, _ in self.held) == self.total
        assert self.pool.in_use_bytes == sum(len(buffer) for buffer, _ in self.held)

    def teardown(self):
        """Nobody starves: without time passing, everybody still waiting is served once the others have given back."""
        try:
            if not hasattr(self, "pool"):
                return
            self.resize(self.largest // POOLABLE, self.largest % POOLABLE)  # some asked for more than the last total
            self.settle(0)
            while self.held or self.asking:
                assert self.held, "they wait, and nobody holds anything"
                buffer, _ = self.held.pop(0)
                self.schedule.start("give back", lambda buffer=buffer: self.pool.deallocate(buffer))
                self.settle(0)
            assert self.pool.available_bytes == self.total
            assert self.pool.queued == 0
        finally:
            self.schedule.abandon()
            self.patch.undo()


TestPoolMachine = pytest.mark.slow(PoolMachine.TestCase)
TestPoolMachine.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)


def test_a_large_request_is_served_while_small_ones_keep_coming():
    """After it has come, each small one that is given back brings it nearer; not one of those behind it is served."""
    schedule = Schedule()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffer_pool, "threading", schedule)
        pool = BufferPool(8 * POOLABLE, POOLABLE, clock=schedule.clock)
        held = [pool.allocate(POOLABLE, 0) for _ in range(8)]
        large = schedule.start("large", lambda: pool.allocate(6 * POOLABLE, 1))
        schedule.settle()
        small = []
        for given_back in range(1, 9):
            small.append(schedule.start("small", lambda: pool.allocate(POOLABLE, 1)))
            schedule.settle()
            pool.deallocate(held.pop())
            schedule.settle()
            assert large.ended == (given_back >= 6)
            assert sum(task.ended for task in small) == max(0, given_back - 6)
        pool.deallocate(large.result)
        schedule.settle()
        assert all(task.ended and task.error is None for task in small)


@pytest.mark.slow
def test_ten_thousand_failures_of_eight_threads_leak_nothing():
    schedule, choose = Schedule(), random.Random(7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffer_pool, "threading", schedule)
        pool = BufferPool(100 * POOLABLE, POOLABLE, clock=schedule.clock)
        pool.deallocate(pool.allocate(POOLABLE, 0))  # so that there is something to free up
        kept = pool.allocate(POOLABLE + 1, 0)
        failures = []

        def fail(numbers):
            for _ in range(1250):
                size = numbers.randint(99 * POOLABLE, 100 * POOLABLE)  # never all there
                with pytest.raises(BufferPoolExhausted):
                    pool.allocate(size, numbers.choice([0, 0, 1]))
                failures.append(size)

        tasks = [schedule.start(f"{i}", lambda i=i: fail(random.Random(i))) for i in range(8)]
        while schedule.alive:
            schedule.settle(choose.choice)
            schedule.pass_time(0.001)
        assert [task.error for task in tasks] == [None] * 8
        assert len(failures) == 10_000
        assert (pool.queued, pool.in_use_bytes) == (0, len(kept))
        pool.deallocate(kept)
        assert pool.available_bytes == 100 * POOLABLE
        assert len(pool.allocate(100 * POOLABLE, 0)) == 100 * POOLABLE


def test_closing_ends_every_wait_in_any_order_and_what_was_gathered_is_back():
    schedule, choose = Schedule(), random.Random(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffer_pool, "threading", schedule)
        pool = BufferPool(4 * POOLABLE, POOLABLE, clock=schedule.clock)
        held = pool.allocate(POOLABLE, 0)
        waiting = [schedule.start(f"{i}", lambda: pool.allocate(4 * POOLABLE, 1000)) for i in range(5)]
        schedule.settle(choose.choice)
        assert pool.available_bytes == 0, "the first has gathered what there was"
        pool.close()
        schedule.settle(choose.choice)
        assert all(isinstance(task.error, ClientClosed) for task in waiting)
        pool.deallocate(held)
        assert pool.available_bytes == 4 * POOLABLE
        with pytest.raises(ClientClosed):
            pool.allocate(1, 0)
