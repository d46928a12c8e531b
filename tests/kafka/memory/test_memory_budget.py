"""Leases of a budget's parts: what each is told, what is lent and taken back, and what goes before it."""

import gc
import os
import threading

import pytest

from kafkasource.kafka.memory import (
    ACCUMULATOR,
    DECODED,
    RECEIVE,
    Budget,
    MemoryDemand,
    Trimmable,
    gauges,
    process_budget,
)
from kafkasource.kafka.memory.blocks import Account, Block
from kafkasource.kafka.memory.gauges import gauges_of
from kafkasource.kafka.memory.limits import Limit

MIB = 1 << 20
MUCH = MemoryDemand(1024 * MIB)


class Holder(Trimmable):
    """Of a part; what it was told, in MiB."""

    def __init__(self):
        self.told, self.trims = [], 0

    def __call__(self, size):
        self.told.append(size // MIB)

    def trim(self):
        self.trims += 1

    def lease(self, budget, part, wish=MUCH, named=64 * MIB):
        return budget.lease(part, wish, self, total_bytes=named, keeper=self)


def test_an_idle_part_s_room_is_lent_and_taken_back(budget):
    reads, writes = Holder(), Holder()
    with reads.lease(budget, RECEIVE):
        with writes.lease(budget, ACCUMULATOR):
            assert (reads.told, writes.told) == ([64, 32], [32])
        assert reads.told == [64, 32, 64]


def test_clusters_share_the_queue_s_part_equally(budget):
    clusters = [Holder() for _ in range(3)]
    with (
        clusters[0].lease(budget, ACCUMULATOR),
        clusters[1].lease(budget, ACCUMULATOR),
        clusters[2].lease(budget, ACCUMULATOR),
    ):
        assert [one.told[-1] for one in clusters] == [10, 10, 10]  # of 32, the publish limit
        assert gauges_of(budget)["accumulator_limit_bytes"] == 3 * (32 * MIB // 3)


def test_tasks_that_share_a_pool_lease_it_once(budget):
    pool = Holder()
    with pool.lease(budget, ACCUMULATOR), pool.lease(budget, ACCUMULATOR):
        assert pool.told[-1] == 32
        assert gauges_of(budget)["accumulator_limit_bytes"] == 32 * MIB
    assert gauges_of(budget)["accumulator_limit_bytes"] == 0


def test_a_budget_that_nobody_named_lowers_sizes_and_raises_none():
    small, large = Budget(Limit(16 * MIB, "a container")), Budget(Limit(4096 * MIB, "a machine"))
    usual = MemoryDemand(32 * MIB)
    for budget, expected in ((small, 8), (large, 32)):
        pool = Holder()
        with pool.lease(budget, ACCUMULATOR, usual, named=None):
            assert pool.told == [expected]


def test_a_named_budget_is_what_its_parts_are_made_of(budget):
    pool = Holder()
    with pool.lease(budget, ACCUMULATOR, MemoryDemand(32 * MIB), named=512 * MIB):
        assert pool.told == [256]
    assert budget.total_bytes == 512 * MIB


def test_what_is_set_by_name_goes_before_the_budget_and_that_is_said(budget, caplog):
    pool = Holder()
    wish = MemoryDemand(48 * MIB, "kafka.buffer.memory")
    for _ in range(2):
        with pool.lease(budget, ACCUMULATOR, wish):
            assert pool.told[-1] == 48
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 1
    assert "'kafka.buffer.memory'" in said[0]
    assert str(48 * MIB) in said[0]
    assert str(32 * MIB) in said[0]


def test_what_is_set_by_name_below_the_share_is_taken_quietly(budget, caplog):
    pool = Holder()
    with pool.lease(budget, ACCUMULATOR, MemoryDemand(2 * MIB, "kafka.buffer.memory")):
        assert pool.told == [2]
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_no_part_falls_below_what_works(budget):
    pool = Holder()
    with pool.lease(budget, ACCUMULATOR, MemoryDemand(32 * MIB, least_bytes=5 * MIB), named=4 * MIB):
        assert pool.told == [5]


def test_memory_that_is_kept_between_tasks_is_given_up_when_somebody_else_needs_some(budget):
    pool, other, reads = Holder(), Holder(), Holder()
    with pool.lease(budget, ACCUMULATOR):
        pass
    with pool.lease(budget, ACCUMULATOR):
        pass
    assert pool.trims == 0  # the next task of its kind uses it again
    with other.lease(budget, ACCUMULATOR):
        assert (pool.trims, other.trims) == (1, 0)
    with reads.lease(budget, RECEIVE):
        assert (pool.trims, other.trims) == (2, 1)


def test_a_task_that_fails_gives_its_lease_back(budget):
    with pytest.raises(ZeroDivisionError), Holder().lease(budget, DECODED):
        raise ZeroDivisionError
    assert not any(budget.granted_bytes.values())


def test_a_lease_that_ends_while_others_are_told_leaves_them_its_room(budget):
    """As when a garbage collection closes a generator that reads, in the midst."""
    ending = Holder().lease(budget, ACCUMULATOR)

    class Ends(Holder):
        def __call__(self, size):
            super().__call__(size)
            if len(self.told) == 3:  # the last one came
                ending.__exit__(None, None, None)

    first, last = Ends(), Holder()
    with first.lease(budget, RECEIVE):
        ending.__enter__()
        with last.lease(budget, DECODED):
            assert (first.told[-1], last.told[-1]) == (32, 32)
            assert gauges_of(budget)["accumulator_limit_bytes"] == 0


def test_a_charge_lasts_as_long_as_anybody_views_the_memory():
    account = Account()
    first, second = account.view(MIB), account.view(2 * MIB)
    part = first[10:20].cast("B")
    del first
    assert account.used_bytes == 3 * MIB
    del part
    assert account.used_bytes == 2 * MIB
    second.release()
    del second
    assert (account.used_bytes, account.peak_bytes) == (0, 3 * MIB)
    account.reset_peak()
    assert account.peak_bytes == 0


def test_charges_of_many_threads_add_up_though_they_end_in_any_of_them():
    account = Account()
    kept = [[] for _ in range(4)]

    def work(mine, others):
        for _ in range(200):
            mine.append(account.view(100))
            if len(others) > 3:
                others.pop()

    threads = [threading.Thread(target=work, args=(kept[n], kept[n - 1])) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert account.used_bytes == 100 * sum(map(len, kept))
    kept.clear()
    gc.collect()
    assert account.used_bytes == 0


def test_a_block_is_free_when_no_view_of_it_is_left():
    block = Block(Account(), 100)
    assert block.is_free
    view = block.view()
    part = memoryview(view)[5:]
    del view
    assert not block.is_free
    assert bytes(block.view()[5:]) == bytes(part)
    del part
    assert block.is_free


def test_the_gauges_tell_parts_native_memory_and_the_heap(budget):
    view = budget.accounts[RECEIVE].view(3 * MIB)
    found = gauges()
    assert found["receive_bytes"] == found["receive_peak_bytes"] == len(view)
    assert found["native_bytes"] >= len(view)
    assert found["budget_bytes"] == 1024 * MIB
    if os.path.exists("/proc/self/status"):
        assert found["resident_peak_bytes"] >= found["resident_bytes"] > 10 * MIB
        assert found["heap_bytes"] > MIB
    assert all(isinstance(value, int) and value >= 0 for value in found.values())


def test_batches_of_rows_are_what_is_native_and_charged_to_no_part(budget):
    import pyarrow as pa

    before = budget.rows_bytes
    rows = pa.array(range(500_000), pa.int64())
    view = budget.accounts[ACCUMULATOR].view(MIB)
    assert budget.rows_bytes - before == rows.get_total_buffer_size()
    budget.saw_rows()
    del rows, view
    assert budget.rows_peak_bytes - before >= 4_000_000
    assert budget.rows_bytes - before < MIB


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_a_budget_without_its_parent_s_leases(budget):
    holder = Holder()
    with holder.lease(budget, RECEIVE):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            code = 1
            try:
                mine = Holder()
                with mine.lease(process_budget(), DECODED):
                    code = 0 if mine.told == [64] and holder.told == [64] else 2
            finally:
                os._exit(code)
        os.close(reader)
        os.close(writer)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
