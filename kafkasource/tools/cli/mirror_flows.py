"""The table of `pykafka mirror --status` and `--check`: the position of each flow, and the effect of a start.

It makes the decisions of a start (`mirror.restart`) and writes nothing. It waits only seconds for each cluster, names
clusters that do not answer, and leaves out their part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafkasource import options
from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.mirror.cluster_ids import cluster_id
from kafkasource.mirror.files import newest_record, progress_of, record_before_rename
from kafkasource.mirror.plan import Plan, Route, routes
from kafkasource.mirror.positions import FlowRules, Logs, MirrorReader, PositionRecord, SourceRules, reached
from kafkasource.mirror.restart import Progress, SourceTopics, next_record
from kafkasource.mirror.source_logs import source_now
from kafkasource.options.spelling import many
from kafkasource.source.plan.checkpoint import StoredFiles
from kafkasource.tools.admin.lag import places_of

if TYPE_CHECKING:
    from kafkasource.source.plan.checkpoint import Files
    from kafkasource.source.plan.offsets import PartitionOffsets

ASKED_MS = 5_000  # how long a person waits for a cluster that cannot be reached
TITLES = "from", "to", "there", "a start", "topics", "behind"


@dataclass
class Flows:
    """Rows of the table, and lines below it."""

    rows: list[tuple[str, str, str, str, int | None, int | None]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def has_run(plan: Plan) -> bool:
    """Whether there are positions below the checkpoint."""
    files = StoredFiles(str(plan.checkpoint))
    return any(newest_record(files, name) is not None for name in files.names(""))


def flows_of(plan: Plan) -> Flows:
    """Raises KafkaSourceError where the checkpoint cannot be read, or the start would be refused."""
    files, flows = StoredFiles(str(plan.checkpoint)), Flows()
    records = {flow.source: newest_record(files, flow.source) for flow in plan.flows}
    ids: dict[str, str | None] = dict.fromkeys(plan.clusters)
    for record in records.values():
        ids.update((name, its) for name, its in (record.cluster_ids if record else {}).items() if name in ids)
    away: set[str] = set()
    clients = {name: client for route in routes(plan) for name, client in _soon(route).clients.items()}
    for name, client in clients.items():
        try:
            ids[name] = cluster_id(client) or ids[name]
        except KafkaSourceError as error:
            flows.notes.append(f"{name} does not answer: {_first_line(error)}")
            away.add(name)
    for route in routes(plan, ids):
        record = records[route.source] or record_before_rename(files, set(records), ids[route.source])
        _add(flows, _Imagined(files, _soon(route), record, away=route.source in away), route, record, ids)
    return flows


def _add(
    flows: Flows, world: _Imagined, route: Route, record: PositionRecord | None, ids: Mapping[str, str | None]
) -> None:
    then = next_record(world, record, route.source, route.rules, ids, warn=flows.notes.append)
    flows.notes += world.notes
    before = {} if record is None else world.positions(record)
    after = {} if world.away else world.positions(then)
    old = {} if record is None else {flow.key: flow for flow in record.rules.flows}
    for flow in route.rules.flows:
        known = after.get(flow.key) or world.logs.configured
        here = {tp: at for tp, at in known.items() if flow.takes(tp.topic)}
        catch_up = next((reader for reader in then.catch_ups if reader.flows[0].key == flow.key), None)
        if catch_up is not None:
            topics = many(len({tp.topic for tp in catch_up.start or {}}), "topic")
            does = f"{'catches up' if flow.key in before else 'copies the history'} in {topics}"
        else:
            does = "goes on" if flow.key in old or flow.key in before else "begins"
        behind = world.behind(here)
        topics_there = None if world.away else len({tp.topic for tp in here})
        flows.rows.append((route.source, flow.target, flow.topic, does, topics_there, behind))
    for target, topic in then.parked:
        if (target, topic) not in {flow.key for flow in route.rules.flows}:
            flows.rows.append((route.source, target, topic, "nothing: not in the file", None, None))


class _Imagined:
    """The World of a start that is only imagined."""

    def __init__(self, files: Files, route: Route, record: PositionRecord | None, *, away: bool) -> None:
        self._files, self._route = files, route
        self._folder = record.source if record is not None else route.source
        self.notes: list[str] = []
        self.away = away
        self.logs = Logs({}, {})

    def progress(self, reader: MirrorReader) -> Progress:
        return replace(progress_of(self._files, self._folder, reader), open=False)  # a start finishes it first

    def repeat(self, rules: SourceRules, reader: MirrorReader, flows: tuple[FlowRules, ...]) -> None: ...

    def save(self, record: PositionRecord) -> None: ...

    def tidy(self, record: PositionRecord) -> None: ...

    def source(self, rules: SourceRules, known: Collection[str], first: bool) -> SourceTopics:
        if self.away:
            return SourceTopics(self.logs, {})
        try:
            source = source_now(self._route, known, first=False)
        except KafkaSourceError as error:
            self.notes.append(f"{self._route.source} does not say where its logs are: {_first_line(error)}")
            self.away = True
            return SourceTopics(self.logs, {})
        self.logs = source.logs
        return source

    def positions(self, record: PositionRecord) -> Mapping[tuple[str, str], PartitionOffsets]:
        done = {
            (reader.name, flow.key): at
            for reader in record.readers
            if (at := self.progress(reader).done) is not None
            for flow in reader.flows
        }
        return reached(record, done)

    def behind(self, here: PartitionOffsets) -> int | None:
        """Offsets between these and the ends of the logs."""
        if self.away:
            return None
        try:
            parsed = options.parse(dict(self._route.clients[self._route.source]), "source")
            with Cluster(ClientConfig.from_options(parsed)) as cluster:
                return sum(place.lag or 0 for place in places_of(cluster, here))
        except KafkaSourceError as error:
            self.notes.append(f"{self._route.source} does not say where its logs end: {_first_line(error)}")
            self.away = True
            return None


def _soon(route: Route) -> Route:
    """Limits how long it waits for clusters that do not answer."""
    hurry = {"kafka.default.api.timeout.ms": str(ASKED_MS), "kafka.request.timeout.ms": str(ASKED_MS)}
    clients = {name: {**given, **hurry} for name, given in route.clients.items()}
    return replace(route, read={**route.read, **hurry}, clients=clients)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def show(flows: Flows) -> None:
    from kafkasource.tools.cli import tables

    tables.show(TITLES, flows.rows)
    for note in dict.fromkeys(flows.notes):
        print(note)


def as_json(flows: Flows) -> list[dict[str, object]]:
    return [dict(zip(("from", "to", "topic", "start", "topics", "behind"), row, strict=True)) for row in flows.rows]
