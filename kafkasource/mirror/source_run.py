"""Copies from one source, in a thread of its own, until the mirror ends.

What fails stays where it is: a source that cannot be reached, or a reader whose query fails, is started again after a
pause that grows, while other sources and readers go on. No query is stopped in the midst of a micro-batch, except by
`stop`.

The thread asks for the clusters' ids, keeps the targets' topics, lets a changed plan take effect (`restart`), and runs
the record's readers. A catch-up reads up to where the shared reader was when it began, and again, until at most about
one micro-batch is left. Then all readers are held, it reads this rest, and joins the shared reader under a new record.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kafkasource.errors import KafkaSourceError
from kafkasource.mirror.files import MirrorFiles, newest_record, progress_of, record_before_rename, save, tidy
from kafkasource.mirror.plan import MOST_OFFSETS, Route
from kafkasource.mirror.positions import FlowRules, MirrorReader, PositionRecord, SourceRules, capped, front_now, rest
from kafkasource.mirror.restart import Progress, SourceTopics, next_record
from kafkasource.source.plan.offsets import PartitionOffsets

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger("kafkasource.mirror")

POLL_S = 0.2
FIRST_PAUSE_S, LAST_PAUSE_S = 5.0, 300.0  # before what failed is started again
FIRST_ANSWER_S = 10.0  # how long a start waits for ids that only other sources' clusters know
_BETWEEN_TRIGGERS = "Waiting for next trigger"  # Spark shows this status only after the first trigger


class TopicUpkeep(Protocol):
    """Keeps the topics at the targets."""

    def start(self) -> None: ...

    def close(self) -> None: ...


class Engine(Protocol):
    """Gives a run Spark, brokers and files. Its methods may block, and raise any error."""

    files: MirrorFiles
    sources: Collection[str]  # that the file names
    limits_all: bool  # limits hold under Trigger.AvailableNow, too (Spark from 4.2 on)

    def ask_ids(self, route: Route) -> None:
        """Learn the ids of the route's clusters. Raises if one that is needed cannot be reached."""

    def route(self, source: str) -> Route:
        """The route that follows from the ids that are known now."""

    def ids(self) -> Mapping[str, str | None]:
        """The ids of all clusters in the file, by name."""

    def keeper(self, route: Route) -> TopicUpkeep: ...

    def topics(self, route: Route) -> Collection[str]:
        """The names of the topics that the source has now."""

    def source_now(self, route: Route, known: Collection[str], first: bool) -> SourceTopics: ...

    def query(
        self,
        route: Route,
        record: PositionRecord,
        reader: MirrorReader,
        stop_file: Path,
        *,
        flows: Sequence[FlowRules] | None = None,
        front: PartitionOffsets | None = None,
        once: bool = False,
    ) -> StreamingQuery:
        """Start a reader. `flows`: those that get records, if not all. `front`: where a catch-up ends."""

    def error_of(self, query: StreamingQuery) -> str | None: ...


class Ended(Exception):
    """The mirror is to end, and this thread with it."""


@dataclass
class Running:
    """A reader of the record, and how its query fares."""

    reader: MirrorReader
    query: StreamingQuery | None = None
    stop_file: Path = Path()
    error: str | None = None
    again_s: float = 0.0  # when it is started again
    pause_s: float = 0.0
    topics: Collection[str] = ()  # of the source, when a round of a catch-up began
    finished: bool = False  # a round of a catch-up, or a read of all there is, has ended well


@dataclass
class SourceRun:
    """The run of one source. Other threads may read its fields, and call `start`, `finish` and `stop`."""

    source: str
    engine: Engine
    folder: Path  # of stop files
    others: Sequence[SourceRun] = ()
    once: bool = False
    clock: Callable[[], float] = time.monotonic
    fail_on_data_loss: bool = True
    first_pause_s: float = FIRST_PAUSE_S
    poll_s: float = POLL_S

    record: PositionRecord | None = None
    running: list[Running] = field(default_factory=list)
    done: bool = False  # with `once`: all is copied
    failure: BaseException | None = None  # of the last attempt to start, or of a query; None while all is well
    again_s: float = 0.0  # when the source is started again

    def __post_init__(self) -> None:
        self.asked = threading.Event()  # for the ids of clusters, with or without an answer
        self._ending = threading.Event()
        self._stopped = threading.Event()
        self._lock = threading.Lock()  # a query starts, or the run ends
        self._keeper: TopicUpkeep | None = None
        self._rests = False
        self._pause_s = self.first_pause_s / 2
        self._caught_up: list[str] | None = None  # with `once`: errors of the catch-ups, when they have run
        self._settling: list[Running] = []
        self._thread = threading.Thread(target=self._run, name=f"mirror-{self.source}", daemon=True)

    # Other threads call these.

    def start(self) -> None:
        self._thread.start()

    @property
    def queries(self) -> list[StreamingQuery]:
        """The queries that run."""
        several = [each.query for each in (*self.running, *self._settling)]
        return [query for query in several if query is not None and query.isActive]

    @property
    def errors(self) -> list[str]:
        """The errors of now, of the source and its readers; none while all goes well."""
        own = [] if self.failure is None else [f"{self.source}: {_text(self.failure)}"]
        return own + [f"query {name_of(self.source, each.reader)}: {each.error}" for each in self.running if each.error]

    @property
    def rests(self) -> bool:
        """Nothing goes on: the thread has ended, or what failed is started again later."""
        return self._rests or not self._thread.is_alive()

    def finish(self) -> None:
        """Let the thread end when the micro-batches that run are committed. Returns at once."""
        with self._lock:
            self._ending.set()

    @property
    def finished(self) -> bool:
        return not self._thread.is_alive() or (self._ending.is_set() and not self.queries)

    def stop(self) -> None:
        """End queries and threads at once."""
        self._stopped.set()
        self.finish()
        with ExitStack() as ends:  # end each of them, even if another one raises; queries first
            if self._thread.is_alive():
                ends.callback(self._thread.join, 60)
            if self._keeper is not None:
                ends.callback(self._keeper.close)
            for query in self.queries:
                ends.callback(query.stop)

    # The thread.

    def _run(self) -> None:
        while True:
            try:
                while not self._copied():
                    pass
                self.done = True
                return
            except Ended:
                return
            except Exception as error:
                if self._stopped.is_set() or not self._failed_whole(error):
                    return
            if self.once or self._ending.wait(self._pause_s):
                return
            self._rests = False

    def _failed_whole(self, error: Exception) -> bool:
        """Whether the run goes on after its pause."""
        try:
            self._hold(self.running)
        except Ended:
            return False
        ran_well = self.clock() - self.again_s > LAST_PAUSE_S
        self._pause_s = self.first_pause_s if ran_well else min(2 * self._pause_s, LAST_PAUSE_S)
        self.failure, self.again_s, self.running, self._rests = error, self.clock() + self._pause_s, [], True
        if not self.once:
            log.warning("mirror of %s: %s; it is started again in %.0f s", self.source, _text(error), self._pause_s)
        return True

    def _copied(self) -> bool:
        """Whether the run is done; False: the rules have changed."""
        try:
            self.engine.ask_ids(self.engine.route(self.source))
        finally:
            self.asked.set()
        self._wait_for_others()
        route = self.engine.route(self.source)
        if self._keeper is None:
            keeper = self.engine.keeper(route)
            self._keeper = keeper  # so that `stop` closes it
            try:
                keeper.start()
            except BaseException:
                self._keeper = None
                keeper.close()
                raise
        self._check_ending()
        record = self._next_record(route, again=False)
        joined = True
        while joined:
            self.record = record
            joined = self._run_readers(route, record)
            if not joined:
                return self.engine.route(self.source).rules == route.rules
            record = self._next_record(route, again=True)
        return True

    def _wait_for_others(self) -> None:
        """Wait until the other sources use the ids that this source has learned.

        Their readers recognize records by ids. At the beginning it also waits for ids that others are asking for.
        """
        until_s = self.clock() + FIRST_ANSWER_S
        while self.clock() < until_s and not all(other.asked.is_set() for other in self.others):
            self._check_ending()
            self._sleep()
        for other in self.others:
            while other.running and other.record is not None and self._outdated(other.source, other.record):
                self._check_ending()
                self._sleep()

    def _outdated(self, source: str, record: PositionRecord) -> bool:
        return self.engine.route(source).rules != record.rules

    def _next_record(self, route: Route, *, again: bool) -> PositionRecord:
        files = self.engine.files
        record = newest_record(files, self.source)
        if record is None:
            record = record_before_rename(files, self.engine.sources, self.engine.ids().get(self.source))
        return next_record(
            _World(self, route, record),
            record,
            self.source,
            route.rules,
            self.engine.ids(),
            again=again,
            fail_on_data_loss=self.fail_on_data_loss,
        )

    # Readers.

    def _run_readers(self, route: Route, record: PositionRecord) -> bool:
        """Run them until the mirror ends or the rules change. True: catch-ups are done, and may join."""
        shared = Running(record.shared)
        catching = [Running(reader) for reader in record.catch_ups]
        self.failure = None
        if self.once:
            return self._run_once(route, record, shared, catching)
        self.running = [shared, *catching]
        while True:
            self._hold_if_ending(self.running)
            if self._outdated(self.source, record):
                self._hold(self.running)
                self.running = []
                return False
            for each in self.running:
                self._look(route, record, each)
            self._rests = not self.queries and any(each.error for each in self.running)
            close = [] if shared.error else [each for each in catching if self._is_close(record, each)]
            if close and self._joined(route, record, close):
                return True
            self._sleep()

    def _run_once(self, route: Route, record: PositionRecord, shared: Running, catching: list[Running]) -> bool:
        """First the catch-ups, up to where the shared reader is; then, under a new record, all there is."""
        if catching and self._caught_up is None:
            left, before = -1, None
            while left and left != before and not self._caught_up:
                self._caught_up, before = self._run_to_end(route, record, catching), left
                left = sum(rest(self._front(record, each), self._done(each.reader)) for each in catching)
            return True
        errors = [*(self._caught_up or ()), *self._run_to_end(route, record, [shared])]
        errors += [f"{self.source}->{each.reader.flows[0].target} is still behind" for each in catching if not errors]
        if errors:
            raise KafkaSourceError("; ".join(errors))
        return False

    def _run_to_end(self, route: Route, record: PositionRecord, several: list[Running]) -> list[str]:
        """Returns the errors of those that failed."""
        self.running = several
        for each in several:
            self._begin(route, record, each)
        while self.queries:
            self._hold_if_ending(several)
            self._sleep()
        found = []
        for each in several:
            error = None if each.query is None else self.engine.error_of(each.query)
            if error is not None:
                found.append(f"query {name_of(self.source, each.reader)}: {error}")
        self.running = []
        return found

    def _hold_if_ending(self, several: Iterable[Running]) -> None:
        if self._ending.is_set():
            self._hold(several)
            raise Ended

    def _look(self, route: Route, record: PositionRecord, each: Running) -> None:
        """Notice how the query has ended; start it, if it is time."""
        if each.query is not None and not each.query.isActive:
            error, each.query = self.engine.error_of(each.query), None
            if error is None and not each.reader.catches_up:
                error = "it was stopped from outside of the mirror"
            each.finished = error is None
            if error is not None:
                self._failed(each, error)
                if (
                    progress_of(self.engine.files, self.source, each.reader).done is None
                ):  # it is to start where the logs are now
                    raise KafkaSourceError(error)
        if each.query is None and not each.finished and self.clock() >= each.again_s:
            try:
                self._begin(route, record, each)
            except Ended:
                raise
            except Exception as error:
                self._failed(each, _text(error))

    def _failed(self, each: Running, error: str) -> None:
        name = name_of(self.source, each.reader)
        if self.clock() - each.again_s > LAST_PAUSE_S:  # it ran well since it failed last
            each.pause_s = self.first_pause_s
        each.pause_s = each.pause_s or self.first_pause_s
        log.warning("query %s: %s; it is started again in %.0f s", name, error, each.pause_s)
        each.error = error
        each.again_s = self.clock() + each.pause_s
        each.pause_s = min(2 * each.pause_s, LAST_PAUSE_S)

    def _begin(self, route: Route, record: PositionRecord, each: Running) -> None:
        front = None
        if each.reader.catches_up:
            each.topics = self.engine.topics(route)
            front = self._front(record, each)
            if not self.engine.limits_all:
                front = capped(front, self._done(each.reader), self._limit())
        self._start(route, record, each, front=front, once=self.once or front is not None)
        each.error, each.finished = None, False

    def _front(self, record: PositionRecord, each: Running) -> PartitionOffsets:
        """How far a catch-up may read, in the topics that still exist."""
        front = front_now(each.reader, self._done(record.shared))
        return {tp: end for tp, end in front.items() if tp.topic in each.topics}

    def _start(
        self,
        route: Route,
        record: PositionRecord,
        each: Running,
        *,
        flows: Sequence[FlowRules] | None = None,
        front: PartitionOffsets | None = None,
        once: bool,
        held: bool = False,
    ) -> None:
        """`held`: the stop file is there from the beginning, so only the micro-batch that is open runs."""
        each.stop_file = self.folder / name_of(self.source, each.reader)
        with self._lock:
            if self._ending.is_set():
                raise Ended
            each.stop_file.unlink(missing_ok=True)
            if held:
                each.stop_file.touch()
            each.query = self.engine.query(
                route, record, each.reader, each.stop_file, flows=flows, front=front, once=once
            )

    def _is_close(self, record: PositionRecord, each: Running) -> bool:
        """Has a catch-up ended a round, and is at most about a micro-batch left? If more is left, it goes on."""
        if not each.finished:
            return False
        each.finished = (
            rest(front_now(each.reader, self._done(record.shared)), self._done(each.reader)) <= self._limit()
        )
        return each.finished

    def _limit(self) -> int:
        given = self.engine.route(self.source).read.get("maxOffsetsPerTrigger")
        return int(given) if given is not None else MOST_OFFSETS

    def _joined(self, route: Route, record: PositionRecord, close: Sequence[Running]) -> bool:
        """Hold all readers, and let catch-ups that are close read their rest. False: none could read all of it."""
        self._hold(self.running)
        whole = 0
        for each in close:
            front = self._front(record, each)
            if rest(front, self._done(each.reader)):
                self._start(route, record, each, front=front, once=True)
                self._wait_until_ended(each)
            whole += not rest(front, self._done(each.reader))
            each.finished, each.again_s = False, self.clock() + LAST_PAUSE_S  # open transactions are in its way
        return whole > 0

    def _wait_until_ended(self, each: Running) -> None:
        """Raises Ended, or the query's error."""
        while each.query is not None and each.query.isActive:
            self._hold_if_ending([each])
            self._sleep()
        error = None if each.query is None else self.engine.error_of(each.query)
        each.query = None
        if error is not None:
            raise KafkaSourceError(f"query {name_of(self.source, each.reader)}: {error}")

    def _repeat(self, route: Route, record: PositionRecord, reader: MirrorReader, flows: Sequence[FlowRules]) -> None:
        targets = ", ".join(flow.target for flow in flows)
        log.warning("%s: finishing the micro-batch that was open under the plan of before, to %s", self.source, targets)
        each = Running(reader)
        self._settling = [each]
        front = front_now(reader, {}) if reader.catches_up else None
        self._start(route, record, each, flows=flows, front=front, once=True, held=True)
        try:
            self._wait_until_ended(each)
        finally:
            self._settling = []

    def _hold(self, several: Iterable[Running]) -> None:
        """Wait until their micro-batches are committed, and stop them: that cancels nothing then."""
        held = [each for each in several if each.query is not None and each.query.isActive]
        for each in held:
            each.stop_file.touch()
        while any(not self._held(each) for each in held):
            if self._stopped.is_set():
                raise Ended
            time.sleep(self.poll_s)
        for each in held:
            assert each.query is not None
            error = self.engine.error_of(each.query)
            if error is not None:
                each.error = error
            each.query.stop()
            each.query = None
            each.stop_file.unlink(missing_ok=True)

    def _held(self, each: Running) -> bool:
        """Whether the query has answered its stop file, or waits for its next trigger, where it would answer."""
        assert each.query is not None
        if not each.query.isActive:
            return True
        status = each.query.status
        idle = status["message"] == _BETWEEN_TRIGGERS and not status["isTriggerActive"]
        return idle or not each.stop_file.exists()

    def _done(self, reader: MirrorReader) -> PartitionOffsets:
        return progress_of(self.engine.files, self.source, reader).done or reader.start or {}

    def _check_ending(self) -> None:
        if self._ending.is_set():
            raise Ended

    def _sleep(self) -> None:
        self._ending.wait(self.poll_s)


class _World:
    """Reads and writes for a restart of one run."""

    def __init__(self, run: SourceRun, route: Route, record: PositionRecord | None) -> None:
        self._run, self._route, self._record = run, route, record
        self._folder = record.source if record is not None else run.source

    def progress(self, reader: MirrorReader) -> Progress:
        return progress_of(self._run.engine.files, self._folder, reader)

    def repeat(self, rules: SourceRules, reader: MirrorReader, flows: Sequence[FlowRules]) -> None:
        assert self._record is not None
        self._run._repeat(self._route, self._record, reader, flows)

    def source(self, rules: SourceRules, known: Collection[str], first: bool) -> SourceTopics:
        return self._run.engine.source_now(self._route, known, first)

    def save(self, record: PositionRecord) -> None:
        save(self._run.engine.files, record)

    def tidy(self, record: PositionRecord) -> None:
        files = self._run.engine.files
        tidy(files, record)
        before = record.came_from
        if before is None or before in self._run.engine.sources:
            return
        old = newest_record(files, before)
        if old is not None and old.cluster_ids.get(before) == record.cluster_ids.get(record.source):
            files.delete(before)


def name_of(source: str, reader: MirrorReader) -> str:
    """The name of a reader's query."""
    return f"mirror-{source}-to-{reader.flows[0].target}" if reader.catches_up else f"mirror-{source}"


def _text(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
