"""A mirror's queries and threads, without a Spark: how it waits, fails and ends."""

import threading

import pytest

from kafkasource.mirror.job import Mirror, MirrorFailed


class FakeQuery:
    def __init__(self, name, *, active=True, error=None, on_stop=None):
        self.name, self.isActive, self._error, self._on_stop = name, active, error, on_stop
        self.stopped = False

    def exception(self):
        return self._error

    def stop(self):
        self.stopped = True
        if self._on_stop is not None:
            raise self._on_stop


class FakeKeeper:
    def __init__(self):
        self.closed = False

    def close(self):
        self.closed = True


def test_it_ends_when_all_its_queries_have():
    Mirror([FakeQuery("a", active=False), FakeQuery("b", active=False)], []).wait()


def test_it_ends_when_it_is_told_to():
    end = threading.Event()
    end.set()
    Mirror([FakeQuery("a")], []).wait(end)


def test_one_query_that_fails_fails_it_with_what_our_side_said():
    error = RuntimeError(
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted\n"
        "  File x, line 1\n"
        "kafkasource.errors.DataLoss: offsets 3 to 5 of t-0 are gone\n"
        "at org.apache.spark..."
    )
    mirror = Mirror([FakeQuery("a"), FakeQuery("mirror-B", active=False, error=error)], [])
    with pytest.raises(
        MirrorFailed, match=r"query mirror-B: kafkasource.errors.DataLoss: offsets 3 to 5 of t-0 are gone"
    ):
        mirror.wait()


def test_whatever_one_query_does_at_its_end_all_the_rest_is_ended_too():
    queries, keeper = [FakeQuery("a", on_stop=RuntimeError("no")), FakeQuery("b")], FakeKeeper()
    with pytest.raises(RuntimeError, match="no"):
        Mirror(queries, [keeper]).stop()
    assert [query.stopped for query in queries] == [True, True]
    assert keeper.closed
