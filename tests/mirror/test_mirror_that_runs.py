"""A mirror's queries and threads, without a Spark: how it waits, fails and ends."""

import threading

import pytest

from kafkasource.mirror.job import Mirror, MirrorFailed


class FakeQuery:
    def __init__(self, name, *, active=True, error=None, on_stop=None):
        self.name, self.isActive, self._error, self._on_stop = name, active, error, on_stop
        self.status = {"message": "Processing new data", "isTriggerActive": True}
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
    assert Mirror([FakeQuery("a", active=False), FakeQuery("b", active=False)], []).wait()


def test_it_ends_when_it_is_told_to():
    end = threading.Event()
    end.set()
    assert not Mirror([FakeQuery("a")], []).wait(end)


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


@pytest.mark.parametrize(
    "said",
    [
        "Multiple streaming queries are concurrently using file:/checkpoints/mirror/A/offsets",
        "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 7.",
    ],
)
def test_where_spark_finds_two_queries_on_a_checkpoint_the_last_line_says_what_to_do(said):
    error = RuntimeError(f"[STREAM_FAILED] Query [id = 1] terminated with exception: {said}\n\tat org.apache.spark...")
    with pytest.raises(MirrorFailed, match=r"Another mirror runs with this checkpoint: end one of them$") as raised:
        Mirror([FakeQuery("A", active=False, error=error)], []).wait()
    assert said in str(raised.value)


def test_whatever_one_query_does_at_its_end_all_the_rest_is_ended_too():
    queries, keeper = [FakeQuery("a", on_stop=RuntimeError("no")), FakeQuery("b")], FakeKeeper()
    with pytest.raises(RuntimeError, match="no"):
        Mirror(queries, [keeper]).stop()
    assert [query.stopped for query in queries] == [True, True]
    assert keeper.closed


def finishing(folder, *queries, looks=()):
    """`finish` of a mirror; `looks`: what happens before each time that it looks again. How often it did."""
    happens, count = iter(looks), 0

    def sleep(_):
        nonlocal count
        count += 1
        next(happens)()

    Mirror(list(queries), [], folder=folder, sleep=sleep).finish()
    return count


def test_it_is_finished_when_each_query_has_answered_its_stop_file(tmp_path):
    looks = [(tmp_path / "b").unlink, (tmp_path / "a").unlink]
    assert finishing(tmp_path, FakeQuery("a"), FakeQuery("b"), looks=looks) == 2


def test_a_query_that_waits_for_its_next_trigger_is_not_waited_for(tmp_path):
    idle = FakeQuery("a")
    idle.status = {"message": "Waiting for next trigger", "isTriggerActive": False}
    assert finishing(tmp_path, idle) == 0
    assert (tmp_path / "a").exists()  # a trigger that comes now plans nothing


def test_a_query_that_starts_is_waited_for_as_it_may_do_again_what_was_not_committed(tmp_path):
    starts = FakeQuery("a")
    starts.status = {"message": "Initializing sources", "isTriggerActive": False}
    assert finishing(tmp_path, starts, looks=[(tmp_path / "a").unlink]) == 1


def test_a_query_that_has_ended_is_not_waited_for(tmp_path):
    assert finishing(tmp_path, FakeQuery("a", active=False)) == 0


def test_a_micro_batch_that_fails_while_it_is_waited_for_fails_the_mirror(tmp_path):
    query = FakeQuery("a")

    def fail():
        query.isActive, query._error = False, RuntimeError("no")

    with pytest.raises(MirrorFailed, match="query a: no"):
        finishing(tmp_path, query, looks=[fail])
