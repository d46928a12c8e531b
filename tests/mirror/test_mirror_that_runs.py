"""A mirror's runs, their queries and threads, without a Spark: how they wait, fail, catch up and end."""

import json
import threading

import pytest

from kafkasource.errors import KafkaSourceError
from kafkasource.mirror import job
from kafkasource.mirror.files import LocalFiles, newest_record
from kafkasource.mirror.flow import Flow
from kafkasource.mirror.job import Mirror, MirrorFailed
from kafkasource.mirror.plan import Plan, routes
from kafkasource.mirror.positions import Logs
from kafkasource.mirror.restart import SourceTopics
from kafkasource.mirror.source_run import SourceRun, name_of
from kafkasource.types import TopicPartition

T0 = TopicPartition("t", 0)
CLUSTERS = {name: {"kafka.bootstrap.servers": f"{name}:1"} for name in ("east", "north", "west", "archive")}
WEST, NORTH = Flow("east", "west", topic="${source}.${topic}"), Flow("north", "west", topic="${source}.${topic}")
ARCHIVE = Flow("east", "archive", topic="${source}.${topic}")


class FakeQuery:
    """Answers its stop file when it is asked how it does: then its micro-batch is committed."""

    def __init__(self, name, stop_file):
        self.name, self.stop_file, self.isActive, self.error = name, stop_file, True, None
        self.cut = False  # stopped in the midst of a micro-batch
        self.flows = []

    @property
    def status(self):
        self.held = self.stop_file.exists()
        self.stop_file.unlink(missing_ok=True)
        return {"message": "Processing new data", "isTriggerActive": True}

    def exception(self):
        return self.error

    def fail(self, error="kafkasource.errors.DataLoss: offsets 3 to 5 of t-0 are gone"):
        self.error = RuntimeError(
            f"[STREAM_FAILED] Query [id = 1] terminated\n  File x, line 1\n{error}\nat org.apache"
        )
        self.isActive = False

    def stop(self):
        self.cut = self.isActive and not getattr(self, "held", False)
        self.isActive = False


class FakeEngine:
    """Instead of Spark. A query that ends has read all, up to the front of a catch-up."""

    limits_all = True

    def __init__(self, folder, *flows):
        self.files = LocalFiles(str(folder))
        self.started, self.unreachable, self.away = [], set(), threading.Event()
        self.end = {T0: 1000}
        self.use(*flows)

    def use(self, *flows):
        plan = Plan(CLUSTERS, flows, self.files.location)
        self._routes = {route.source: route for route in routes(plan)}
        self.sources = set(self._routes)

    def ask_ids(self, route):
        if route.source in self.unreachable:
            self.away.set()
            raise KafkaSourceError(f"cannot reach {route.source}")

    def ids(self):
        return {name: f"id-of-{name}" for name in CLUSTERS}

    def route(self, source):
        return self._routes[source]

    def keeper(self, route):
        class Keeper:
            def start(self): ...
            def close(self): ...

        return Keeper()

    def topics(self, route):
        return {"t"}

    def source_now(self, route, known, first):
        return SourceTopics(Logs({T0: 0}, {T0: 0}), {})

    def query(self, route, record, reader, stop_file, *, flows=None, front=None, once=False):
        query = FakeQuery(name_of(route.source, reader), stop_file)
        self.started.append((query.name, [flow.target for flow in flows or reader.flows], front))
        query.flows = [flow.target for flow in reader.flows if flow.takes("t")]
        if once:
            self.checkpoint(record, reader.name, front or self.end)
            query.isActive = False
        return query

    def checkpoint(self, record, name, offsets, *, done=True):
        """A micro-batch more in a reader's checkpoint, as Spark writes it."""
        folder = f"{record.source}/{name}"
        number = len(self.files.names(f"{folder}/offsets"))
        places = {topic: {str(partition): offset} for (topic, partition), offset in offsets.items()}
        self.files.write(f"{folder}/offsets/{number}", f"v1\n{{}}\n{json.dumps(places)}")
        if done:
            self.files.write(f"{folder}/commits/{number}", "v1\n{}")

    def error_of(self, query):
        return None if query.error is None else job._first_line(query.error)


@pytest.fixture
def begun(tmp_path):
    """Starts a mirror of these flows on the checkpoint; `once`: until it is done."""
    mirrors = []

    def begin(*flows, once=False, engine=None):
        engine = engine or FakeEngine(tmp_path / "checkpoint", *flows)
        engine.use(*flows)
        folder = tmp_path / "stop"
        folder.mkdir(exist_ok=True)
        more = {"once": once, "first_pause_s": 0.01, "poll_s": 0.001}
        runs = [SourceRun(source, engine, folder, **more) for source in sorted(engine.sources)]
        mirror = Mirror(runs, sleep=lambda _: None)
        mirrors.append(mirror)
        for run in runs:
            run.others = [other for other in runs if other is not run]
            run.start()
        if once:
            mirror.wait()
        return mirror, engine

    yield begin
    for mirror in mirrors:
        mirror.stop()


def until(condition):
    """Waits for what the runs' threads do."""
    end = threading.Event()
    for _ in range(5000):
        if condition():
            return
        end.wait(0.002)
    raise AssertionError("it did not happen")


def names(mirror):
    return sorted(query.name for query in mirror.queries)


def test_all_sources_that_can_be_reached_are_copied_and_the_others_are_tried_again(tmp_path, begun):
    engine = FakeEngine(tmp_path / "checkpoint", WEST, NORTH)
    engine.unreachable = {"north"}
    mirror, _ = begun(WEST, NORTH, engine=engine)
    until(lambda: names(mirror) == ["mirror-east"] and engine.away.is_set())
    (query,) = mirror.queries
    until(lambda: mirror.runs[1].errors == ["north: cannot reach north"])
    engine.unreachable = set()
    until(lambda: names(mirror) == ["mirror-east", "mirror-north"])
    assert (query in mirror.queries, query.cut) == (True, False)
    assert not mirror.runs[1].errors


def test_a_query_that_fails_is_started_again_and_the_others_go_on(begun):
    mirror, engine = begun(WEST, NORTH)
    until(lambda: names(mirror) == ["mirror-east", "mirror-north"])
    east, north = mirror.queries
    engine.checkpoint(newest_record(engine.files, "north"), "1", {T0: 5})
    north.fail()
    until(lambda: len(mirror.queries) == 2 and north not in mirror.queries)
    assert (east in mirror.queries, east.cut) == (True, False)
    assert [name for name, *_ in engine.started].count("mirror-north") == 2


def test_the_mirror_fails_when_nothing_goes_on_any_more(begun):
    mirror, engine = begun(WEST)
    until(lambda: mirror.queries)
    mirror.runs[0].first_pause_s = mirror.runs[0]._pause_s = 60
    engine.checkpoint(newest_record(engine.files, "east"), "1", {T0: 5})
    mirror.queries[0].fail()
    with pytest.raises(MirrorFailed, match=r"^query mirror-east: kafkasource.errors.DataLoss: offsets 3 to 5 of t-0"):
        mirror.wait()


def test_it_ends_when_all_is_copied(begun):
    mirror, _ = begun(WEST, NORTH, once=True)
    assert mirror.wait()
    assert [run.done for run in mirror.runs] == [True, True]


def test_with_once_the_error_of_one_source_is_raised_when_the_others_are_done(tmp_path, begun):
    engine = FakeEngine(tmp_path / "checkpoint", WEST, NORTH)
    engine.unreachable = {"north"}
    with pytest.raises(MirrorFailed, match="north: cannot reach north"):
        begun(WEST, NORTH, once=True, engine=engine)
    assert [name for name, *_ in engine.started] == ["mirror-east"]


def test_it_ends_when_it_is_asked_to_and_cuts_no_micro_batch(begun):
    mirror, _ = begun(WEST, NORTH)
    until(lambda: len(mirror.queries) == 2)
    end = threading.Event()
    end.set()
    queries = mirror.queries
    assert not mirror.wait(end)
    mirror.finish()
    mirror.stop()
    assert [(query.isActive, query.cut) for query in queries] == [(False, False)] * 2


def test_whatever_one_query_does_at_its_end_all_the_rest_is_ended_too(begun):
    mirror, _ = begun(WEST, NORTH)
    until(lambda: len(mirror.queries) == 2)
    first, second = mirror.queries
    stop = first.stop

    def fail():
        stop()
        raise RuntimeError("no")

    first.stop = fail
    with pytest.raises(RuntimeError, match="no"):
        mirror.stop()
    assert not second.isActive


@pytest.mark.parametrize(
    "said",
    [
        "Multiple streaming queries are concurrently using file:/checkpoints/mirror/A/offsets",
        "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 7.",
    ],
)
def test_where_spark_finds_two_queries_on_a_checkpoint_the_last_line_says_what_to_do(said):
    error = RuntimeError(f"[STREAM_FAILED] Query [id = 1] terminated with exception: {said}\n\tat org.apache.spark...")
    line = job._first_line(error)
    assert said in line
    assert line.endswith("Another mirror runs with this checkpoint: end one of them")


# Changed plans.


def test_a_target_that_is_added_catches_up_beside_the_others_and_then_shares_their_read(begun):
    first, engine = begun(WEST, once=True)
    first.stop()
    engine.started.clear()
    mirror, _ = begun(WEST, ARCHIVE, engine=engine)
    until(lambda: names(mirror) == ["mirror-east"] and mirror.queries[0].flows == ["west", "archive"])
    assert ("mirror-east-to-archive", ["archive"], {T0: 1000}) in engine.started
    assert newest_record(engine.files, "east").shared.start == {T0: 1000}


def test_with_once_it_catches_up_first(begun):
    first, engine = begun(WEST, once=True)
    first.stop()
    engine.started.clear()
    engine.end = {T0: 1200}
    begun(WEST, ARCHIVE, engine=engine, once=True)
    assert engine.started == [
        ("mirror-east-to-archive", ["archive"], {T0: 1000}),
        ("mirror-east", ["west", "archive"], None),
    ]


def test_a_micro_batch_that_a_kill_left_open_is_finished_under_the_old_plan_first(begun):
    first, engine = begun(WEST, ARCHIVE, once=True)
    first.stop()
    engine.checkpoint(newest_record(engine.files, "east"), "1", {T0: 1100}, done=False)
    engine.started.clear()
    only = Flow("east", "west", topics=("t", "u"), topic="${source}.${topic}")
    engine.end = {T0: 1100}
    begun(only, engine=engine, once=True)
    assert [(name, targets) for name, targets, _ in engine.started] == [("mirror-east", ["west"])] * 2
    record = newest_record(engine.files, "east")
    assert record.parked == {("archive", "east.${topic}"): {T0: 1000}}
    assert engine.files.names("east") == [record.shared.name, f"flows-{record.number}.json"]


def test_the_same_plan_goes_on_with_the_same_reader(begun):
    for _ in range(2):
        mirror, engine = begun(WEST, once=True)
        mirror.stop()
    assert engine.files.names("east") == ["1", "flows-1.json"]


def test_a_source_that_is_called_otherwise_goes_on_where_it_was(tmp_path, begun, monkeypatch):
    same = Flow("east", "west")
    mirror, engine = begun(same, once=True)
    mirror.stop()
    engine.started.clear()
    monkeypatch.setitem(CLUSTERS, "ost", CLUSTERS["east"])
    monkeypatch.setattr(engine, "ids", lambda: {"ost": "id-of-east", "west": "id-of-west"})
    begun(Flow("ost", "west"), engine=engine, once=True)
    assert newest_record(engine.files, "ost").shared.start == {T0: 1000}
    assert engine.files.names("") == ["ost"]
