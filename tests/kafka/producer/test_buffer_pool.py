"""The pool never hands out more than it has, serves in order, and gets every byte back."""

import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkasource.errors import DeadlineExceeded
from kafkasource.kafka.producer import pool as buffer_pool
from kafkasource.kafka.producer.pool import AllocationTooLarge, BufferPool

POOLABLE = 1024


def waiting(pool, count):
    """Until `count` callers stand in line; the condition is certain to come, so no clock is asserted."""
    event = threading.Event()
    while pool.queued < count:
        event.wait(0.001)


class Taker(threading.Thread):
    """One caller in its own thread, whose outcome is looked at after join()."""

    def __init__(self, pool, size, max_block_ms=60_000, **more):
        super().__init__(daemon=True)
        self.pool, self.size, self.max_block_ms, self.more = pool, size, max_block_ms, more
        self.buffer = self.error = None
        self.start()

    def run(self):
        try:
            self.buffer = self.pool.allocate(self.size, self.max_block_ms, **self.more)
        except Exception as error:
            self.error = error


def test_a_poolable_buffer_is_used_again():
    pool = BufferPool(4 * POOLABLE, POOLABLE)
    first = pool.allocate(POOLABLE, 0)
    pool.deallocate(first)
    assert pool.allocate(POOLABLE, 0) is first


def test_a_buffer_of_another_size_is_not_kept():
    pool = BufferPool(4 * POOLABLE, POOLABLE)
    odd = pool.allocate(POOLABLE + 1, 0)
    assert len(odd) == POOLABLE + 1
    assert pool.available_bytes == 3 * POOLABLE - 1
    pool.deallocate(odd)
    assert pool.available_bytes == 4 * POOLABLE
    assert pool.allocate(POOLABLE + 1, 0) is not odd


def test_the_free_list_gives_way_to_other_sizes():
    pool = BufferPool(4 * POOLABLE, POOLABLE)
    for buffer in [pool.allocate(POOLABLE, 0) for _ in range(4)]:
        pool.deallocate(buffer)
    assert len(pool.allocate(4 * POOLABLE, 0)) == 4 * POOLABLE
    assert pool.available_bytes == 0


def test_more_than_the_whole_pool_is_refused_at_once():
    pool = BufferPool(4 * POOLABLE, POOLABLE)
    with pytest.raises(AllocationTooLarge, match=r"kafka\.buffer\.memory"):
        pool.allocate(4 * POOLABLE + 1, 60_000)


def test_a_caller_that_may_go_beyond_the_pool_waits_until_nobody_else_holds_any_of_it():
    pool = BufferPool(4 * POOLABLE, POOLABLE)
    held = [pool.allocate(POOLABLE, 0) for _ in range(3)]
    large = Taker(pool, 9 * POOLABLE, beyond=True)
    waiting(pool, 1)
    small = Taker(pool, POOLABLE)
    waiting(pool, 2)
    for buffer in held:
        assert large.buffer is None
        pool.deallocate(buffer)
    large.join()
    assert (len(large.buffer), pool.in_use_bytes, pool.queued) == (9 * POOLABLE, 9 * POOLABLE, 1)
    pool.deallocate(large.buffer)
    small.join()
    pool.deallocate(small.buffer)
    assert pool.available_bytes == 4 * POOLABLE


def test_a_caller_that_may_go_beyond_the_pool_is_served_where_the_pool_shrinks_below_what_it_has_gathered():
    pool = BufferPool(4 * POOLABLE, POOLABLE)
    held = pool.allocate(POOLABLE, 0)
    large = Taker(pool, 9 * POOLABLE, beyond=True)
    waiting(pool, 1)
    pool.resize(2 * POOLABLE)
    pool.deallocate(held)
    large.join(60)
    assert (len(large.buffer), pool.in_use_bytes, pool.queued) == (9 * POOLABLE, 9 * POOLABLE, 0)


def test_waiting_in_vain_names_both_options_and_gives_back_what_was_gathered():
    pool = BufferPool(4 * POOLABLE, POOLABLE)
    held = pool.allocate(POOLABLE, 0)
    with pytest.raises(DeadlineExceeded, match=r"kafka\.buffer\.memory.*kafka\.max\.block\.ms"):
        pool.allocate(4 * POOLABLE, 0)
    assert pool.available_bytes == 3 * POOLABLE
    pool.deallocate(held)
    assert pool.available_bytes == 4 * POOLABLE
    assert pool.queued == 0


def test_an_exhausted_pool_says_how_full_it_is():
    pool = BufferPool(4 * POOLABLE, POOLABLE)
    held = [pool.allocate(POOLABLE, 0), pool.allocate(POOLABLE + 100, 0)]
    with pytest.raises(DeadlineExceeded, match="of 4096 bytes 2148 are in use in 2 buffers, and 0 others wait"):
        pool.allocate(4 * POOLABLE, 0)
    assert pool.in_use_bytes == sum(map(len, held))


def test_a_buffer_is_given_back_once():
    """A second time it may be somebody else's already."""
    pool = BufferPool(4 * POOLABLE, POOLABLE)
    buffer = pool.allocate(POOLABLE, 0)
    pool.deallocate(buffer)
    for _ in range(2):
        with pytest.raises(ValueError, match="given back already"):
            pool.deallocate(buffer)
    with pytest.raises(ValueError, match="not of this pool"):
        pool.deallocate(bytearray(POOLABLE))
    assert pool.available_bytes == 4 * POOLABLE


def test_memory_that_the_system_refuses_is_not_accounted_for(monkeypatch):
    def refuse(size):
        raise MemoryError

    pool = BufferPool(4 * POOLABLE, POOLABLE)
    monkeypatch.setattr(buffer_pool, "bytearray", refuse, raising=False)
    with pytest.raises(MemoryError):
        pool.allocate(POOLABLE, 0)
    assert pool.available_bytes == 4 * POOLABLE


def test_the_sender_is_woken_only_by_a_caller_that_has_to_wait():
    pool = BufferPool(POOLABLE, POOLABLE)
    woken = []
    pool.allocate(POOLABLE, 0, on_wait=lambda: woken.append("no"))
    with pytest.raises(DeadlineExceeded):
        pool.allocate(1, 0, on_wait=lambda: woken.append("yes"))
    assert woken == ["yes"]


def test_a_small_request_does_not_overtake_a_waiting_large_one():
    pool = BufferPool(4 * POOLABLE, POOLABLE)
    held = pool.allocate(2 * POOLABLE, 0)
    large = Taker(pool, 4 * POOLABLE)
    waiting(pool, 1)
    with pytest.raises(DeadlineExceeded):
        pool.allocate(1, 0)
    pool.deallocate(held)
    large.join()
    assert len(large.buffer) == 4 * POOLABLE


def test_what_one_waiter_leaves_over_reaches_the_next():
    pool = BufferPool(4 * POOLABLE, POOLABLE)
    held = pool.allocate(4 * POOLABLE, 0)
    first, second = Taker(pool, POOLABLE), None
    waiting(pool, 1)
    second = Taker(pool, POOLABLE)
    waiting(pool, 2)
    pool.deallocate(held)  # notifies only the first
    first.join()
    second.join()
    assert first.error is None
    assert second.error is None


def test_a_pool_that_shrinks_while_it_is_full_serves_nobody_until_it_is_down_to_the_new_limit():
    pool = BufferPool(32 * POOLABLE, POOLABLE)
    held = [pool.allocate(POOLABLE, 0) for _ in range(32)]
    pool.resize(16 * POOLABLE)
    for given_back in range(1, 17):
        pool.deallocate(held.pop())
        assert pool.in_use_bytes == (32 - given_back) * POOLABLE
        assert pool.try_allocate(POOLABLE) is None
        with pytest.raises(DeadlineExceeded, match="of 16384 bytes"):
            pool.allocate(POOLABLE, 0)
    pool.deallocate(held.pop())
    assert len(pool.allocate(POOLABLE // 2, 0)) == POOLABLE // 2


def test_a_pool_that_shrinks_keeps_none_of_what_comes_back_until_it_is_small_enough():
    pool = BufferPool(4 * POOLABLE, POOLABLE)
    held = [pool.allocate(POOLABLE, 0) for _ in range(4)]
    pool.resize(2 * POOLABLE + POOLABLE // 2)  # one and a half too many
    given_back = list(held)
    for buffer in held:
        pool.deallocate(buffer)
    assert pool.available_bytes == 2 * POOLABLE + POOLABLE // 2
    again = [pool.allocate(POOLABLE, 0) for _ in range(2)]
    assert [any(buffer is old for old in given_back[:2]) for buffer in again] == [False, False]
    assert [any(buffer is old for old in given_back[2:]) for buffer in again] == [True, True]


def test_who_waits_while_the_pool_shrinks_is_served_below_the_new_limit_and_above_when_it_grows():
    pool = BufferPool(4 * POOLABLE, POOLABLE)
    held = [pool.allocate(POOLABLE, 0) for _ in range(4)]
    first, second = Taker(pool, POOLABLE), None
    waiting(pool, 1)
    second = Taker(pool, POOLABLE)
    waiting(pool, 2)
    pool.resize(2 * POOLABLE)
    for _ in range(2):
        pool.deallocate(held.pop())
    assert pool.queued == 2
    pool.deallocate(held.pop())
    first.join()
    assert (len(first.buffer), pool.in_use_bytes, pool.queued) == (POOLABLE, 2 * POOLABLE, 1)
    pool.resize(3 * POOLABLE)
    second.join()
    assert (len(second.buffer), pool.in_use_bytes) == (POOLABLE, 3 * POOLABLE)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), threads=st.integers(2, 5), total=st.integers(2, 6))
def test_many_threads_never_hold_more_than_the_total_and_leak_nothing(seed, threads, total):
    pool = BufferPool(total * POOLABLE, POOLABLE)
    lock, held, worst, failed = threading.Lock(), [0], [0], []

    def work(random_):
        for _ in range(40):
            size = random_.choice([POOLABLE, POOLABLE, random_.randint(1, total * POOLABLE)])
            try:
                buffer = pool.allocate(size, random_.choice([0, 1, 60_000]))
            except DeadlineExceeded:
                continue
            except Exception as error:
                failed.append(error)
                return
            with lock:
                held[0] += len(buffer)
                worst[0] = max(worst[0], held[0])
            with lock:
                held[0] -= len(buffer)
            pool.deallocate(buffer)

    workers = [threading.Thread(target=work, args=(random.Random(seed + i),), daemon=True) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not any(worker.is_alive() for worker in workers), "a waiter was forgotten"
    assert failed == []
    assert worst[0] <= total * POOLABLE
    assert pool.available_bytes == total * POOLABLE
    assert pool.queued == 0
