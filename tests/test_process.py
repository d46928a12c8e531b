"""What a forked child has of the state of its parent: each test forks."""

from __future__ import annotations

import os
import threading

import pytest

from kafkasource.kafka.process import PerProcess, ProcessCache, Recent, Use, surplus


def in_child(check):
    """Does `check` return true in a forked child?"""
    pid = os.fork()
    if not pid:
        ok = False
        try:
            ok = bool(check())
        finally:
            os._exit(0 if ok else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_value_is_made_once_and_only_when_it_is_asked_for():
    made = []
    state = PerProcess(lambda: made.append(1) or object())
    assert state.if_made is None
    assert not made
    assert state.get() is state.get() is state.if_made
    assert made == [1]


def test_threads_that_ask_together_get_the_same_value():
    state, asked, found = PerProcess(object), threading.Barrier(8), []
    threads = [threading.Thread(target=lambda: (asked.wait(), found.append(state.get()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1


def test_a_child_makes_a_value_of_its_own_and_the_parent_keeps_its():
    state = PerProcess(os.getpid)
    assert state.get() == os.getpid()
    assert in_child(lambda: state.if_made is None and state.get() == os.getpid())
    assert state.get() == os.getpid()


def test_a_child_does_not_let_go_of_what_its_parent_made():
    """The destructor of a socket or a selector in the child would reach into the parent."""

    class Dropped:
        def __del__(self):
            os.write(writes, b"x")

    reads, writes = os.pipe()
    os.set_blocking(reads, False)
    state = PerProcess(Dropped)
    state.get()
    assert in_child(lambda: state.get() and True)  # os._exit calls no destructor
    with pytest.raises(BlockingIOError):
        os.read(reads, 1)


def test_with_renew_a_child_goes_on_with_what_its_parent_made():
    state = PerProcess(list, renew=list.clear)
    state.get().append("of the parent")
    known = id(state.get())
    assert in_child(lambda: id(state.get()) == known and state.get() == [])
    assert state.get() == ["of the parent"]


def test_a_child_can_make_its_value_though_a_thread_of_the_parent_was_just_making_one():
    making, go_on = threading.Event(), threading.Event()

    def make():
        if os.getpid() == parent:
            making.set()
            go_on.wait(10)
        return os.getpid()

    parent = os.getpid()
    state = PerProcess(make)
    thread = threading.Thread(target=state.get)
    thread.start()
    making.wait(10)
    try:
        assert in_child(lambda: state.get() == os.getpid())
    finally:
        go_on.set()
        thread.join()
    assert state.get() == parent


def test_after_a_reset_the_next_call_makes_a_new_value():
    state = PerProcess(object)
    first = state.get()
    state.reset()
    assert state.get() is not first


def test_state_of_objects_that_are_gone_is_not_kept():
    from kafkasource.kafka import process

    before = len(process._all)
    for _ in range(10):
        PerProcess(object).get()
    assert len(process._all) == before


def test_what_a_process_remembers_is_bounded_by_number_and_by_disuse():
    now_s = [0.0]
    recent = Recent(2, idle_s=10, clock_s=lambda: now_s[0])
    assert [recent.of(key, lambda: []) for key in "abb"] == [[]] * 3
    recent.get("a").append("asked, which is no use")
    recent.put("c", ["c"])
    assert (recent.get("a"), recent.get("b")) == (None, [])
    now_s[0] = 10
    assert recent.of("b", list) == []
    recent.get("b").append("used")
    now_s[0] = 20
    assert (recent.of("b", list), recent.get("c")) == (["used"], None)
    now_s[0] = 31
    assert recent.of("b", list) == []


def test_of_what_is_kept_the_unused_goes_and_nothing_in_use():
    idle_s = {"new": 0.1, "used": 0.0, "old": 299.0, "ancient": 300.0, "older": 299.5}
    assert surplus(idle_s, most=8) == ["ancient"]
    assert surplus(idle_s, most=3) == ["ancient", "older"]
    assert surplus(idle_s, most=0) == ["ancient", "older", "old", "new"]
    assert surplus({"used": 0.0, "also": 0.0}, most=1) == []


def test_what_a_task_uses_or_is_about_to_use_is_not_idle():
    now = [0.0]
    use = Use(lambda: now[0])
    now[0] = 7.0
    assert use.idle_s == 7.0
    use.hand_out()
    now[0] += 59
    assert use.idle_s == 0.0
    with use.using(), use.using():
        now[0] += 1000
        assert use.idle_s == 0.0
    now[0] += 3
    assert use.idle_s == 3.0
    use.hand_out()
    now[0] += 61  # that task did not come
    assert use.idle_s == 61.0


def test_a_child_has_none_of_its_parents_cache_and_lets_go_of_nothing():
    class Kept:
        usable = True

        def __init__(self, key):
            self.key = key

        def __del__(self):
            os.write(writes, b"x")

    reads, writes = os.pipe()
    os.set_blocking(reads, False)
    let_go = []
    cache = ProcessCache(
        Kept, is_usable=lambda kept: kept.usable, idle_s=lambda _: 1.0, let_go=lambda kept: let_go.append(kept.key)
    )
    (replaced,) = cache.get("a", 1)
    replaced.usable = False
    (now,) = cache.get("a", 1)
    assert (let_go, now is replaced) == (["a"], False)

    def child():
        nonlocal replaced, now
        ids = {id(replaced), id(now)}
        del replaced, now
        return not cache.values and id(*cache.get("a", 1)) not in ids

    assert in_child(child)
    with pytest.raises(BlockingIOError):
        os.read(reads, 1)
    assert cache.get("ab", 2)[0] is now
    cache.get("b", 1)
    assert let_go == ["a", "a"]
    assert [*cache.values] == ["b"]


def test_a_value_is_not_lost_where_the_one_that_is_to_replace_it_cannot_be_made():
    class Kept:
        pass

    to_make = [Kept()]
    cache = ProcessCache(
        lambda _: to_make.pop(), is_usable=lambda _: False, idle_s=lambda _: 1.0, let_go=lambda _: None
    )
    (old,) = cache.get("a", 8)
    with pytest.raises(IndexError):
        cache.get("a", 8)
    assert cache.clear() == [old]
