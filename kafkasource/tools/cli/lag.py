"""Show the lag of a consumer group, of a streaming query by its checkpoint, or of a mirror's queries by its file."""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.kafka.security.quoting import without_password
from kafkasource.options.spelling import many
from kafkasource.tools.admin.lag import LagReport, of_group, of_query, places_of
from kafkasource.tools.cli.arguments import (
    add_cluster,
    add_group_or_checkpoint,
    add_json,
    at_least,
    reach,
    reached_cluster,
)

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.mirror.positions import MirrorReader
    from kafkasource.source.plan.checkpoint import Files

EXAMPLES = """examples:
  pykafka lag --group billing --watch
  pykafka lag --checkpoint /checkpoints/billing --fail-above 100000
  pykafka lag --mirror mirror.toml --watch"""
_MOST_NAMED = 5  # partitions in one error
HELP = "how far a group, a query's checkpoint or a mirror is behind; --watch"


def add(parser: argparse.ArgumentParser) -> None:
    source = add_group_or_checkpoint(parser)
    source.add_argument(
        "--mirror", metavar="FILE", help="the file of `pykafka mirror`, which also says how to reach its clusters"
    )
    parser.add_argument(
        "-w",
        "--watch",
        nargs="?",
        type=at_least(1),
        const=5,
        metavar="S",
        help="a line every S seconds (5); Ctrl-C ends",
    )
    parser.add_argument(
        "--fail-above",
        type=at_least(0),
        metavar="N",
        help="exit with code 1 if the total lag is above N, or a partition has no leader, has records and no committed "
        "offset, or ends before its offset",
    )
    add_cluster(parser)
    add_json(parser)
    parser.set_defaults(run=_lag)


def _lag(arguments: argparse.Namespace) -> int:
    with _of_mirror(arguments) if arguments.mirror else _of_cluster(arguments) as ask:
        reports = ask()
        if arguments.watch:
            with contextlib.suppress(KeyboardInterrupt):
                trends = [_Trend() for _ in reports]
                while True:
                    for report, trend in zip(reports, trends, strict=True):
                        _print_line(report, trend, arguments.json)
                    time.sleep(arguments.watch)
                    reports = ask()
        elif arguments.json:
            documents = [report.as_json() for report in reports]
            print(json.dumps(documents if arguments.mirror else documents[0], indent=1))
        else:
            _print_tables(reports)
    if arguments.fail_above is None:
        return 0
    leaderless = [tp for report in reports for tp in report.leaderless]
    if leaderless:  # a monitor must not stay green while brokers are away
        raise KafkaSourceError(
            f"the lag of {many(len(leaderless), 'partition')} is not known, as they have no leader: "
            f"{', '.join(map(str, leaderless[:_MOST_NAMED]))}{', ...' if len(leaderless) > _MOST_NAMED else ''}"
        )
    if any(place.never_read or place.ahead for report in reports for place in report.places):
        return 1  # the total lacks them, and says so: a partition that is stuck at its start, or made again
    return 1 if sum(report.lag for report in reports) > arguments.fail_above else 0


Ask = Callable[[], list[LagReport]]


@contextlib.contextmanager
def _of_cluster(arguments: argparse.Namespace) -> Iterator[Ask]:
    """A function that asks for the lag of one group or query."""
    with reached_cluster(arguments) as cluster:
        yield lambda: [
            of_group(cluster, arguments.group) if arguments.group else of_query(cluster, arguments.checkpoint)
        ]


@contextlib.contextmanager
def _of_mirror(arguments: argparse.Namespace) -> Iterator[Ask]:
    """A function that asks the clusters that a mirror reads, each as its file says, for the lag of each query."""
    from kafkasource import options
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.kafka.config import ClientConfig
    from kafkasource.mirror import job
    from kafkasource.mirror.files import newest_record
    from kafkasource.source.plan.checkpoint import StoredFiles
    from kafkasource.tools.cli import mirror

    if arguments.bootstrap_servers or arguments.settings or arguments.command_config:
        raise OptionError("--mirror FILE says how to reach its clusters: leave out -b, -X and --command-config")
    plan = mirror.read(arguments.mirror)
    routes = job.check(plan)
    files = StoredFiles(str(plan.checkpoint))
    with contextlib.ExitStack() as opened:
        clusters = []
        for route in routes:
            given = {"kafka.client.id": "pykafka", **route.clients[route.source]}
            config = ClientConfig.from_options(options.parse(given, "source"))
            reach(config)
            clusters.append(opened.enter_context(Cluster(config)))

        def reports() -> list[LagReport]:
            lag_reports = []
            for cluster, route in zip(clusters, routes, strict=True):
                record = newest_record(files, route.source)  # at each look: readers come and go
                if record is None:
                    where = without_password(str(route.checkpoint))
                    raise KafkaSourceError(f"{where} has no record of a mirror's positions: it has not run yet")
                lag_reports += [_of_reader(cluster, files, route.source, reader) for reader in record.readers]
            return lag_reports

        yield reports


def _of_reader(cluster: Cluster, files: Files, source: str, reader: MirrorReader) -> LagReport:
    """The lag of a query of a mirror. It starts where the mirror's record says, if it has not begun."""
    from kafkasource.source.plan.checkpoint import checkpoint_in

    folder = f"{source}/{reader.name}"
    flows = ", ".join(f"{source}->{flow.target}" for flow in reader.flows)
    name = f"{flows}, which catches up," if reader.catches_up else flows
    where = f"{files.location.rstrip('/')}/{folder}"
    if checkpoint_in(files, folder) is not None:
        return of_query(cluster, where, name)
    places = places_of(cluster, reader.start or {})
    facts = {"checkpoint": without_password(where), "batch": None}
    return LagReport(f"{name} before its first micro-batch", places, facts=facts)


def _print_tables(reports: list[LagReport]) -> None:
    from kafkasource.tools.cli.groups import print_partitions

    for number, report in enumerate(reports):
        if number:
            print()
        print(report.totals)
        print_partitions(report)


def _print_line(report: LagReport, trend: _Trend, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report.as_json()), flush=True)
    else:
        print(f"{datetime.now():%H:%M:%S}  {report.totals}{trend.since_last(report, time.monotonic())}", flush=True)


class _Trend:
    """The offsets that were read and written between two looks."""

    def __init__(self) -> None:
        self._last: tuple[float, int, int] | None = None  # seconds, sum of offsets read, sum of ends

    def since_last(self, report: LagReport, now_s: float) -> str:
        """`; reads 1,200/s, 300/s come in, done in 20 s`."""
        known = [place for place in report.places if place.lag is not None]
        consumed = sum(place.consumed or 0 for place in known)
        latest = sum(place.latest or 0 for place in known)
        last, self._last = self._last, (now_s, consumed, latest)
        if last is None or now_s <= last[0]:
            return ""
        reads, comes = ((now - before) / (now_s - last[0]) for now, before in ((consumed, last[1]), (latest, last[2])))
        text = f"; reads {max(0, reads):,.0f}/s, {max(0, comes):,.0f}/s come in"
        if report.lag and reads > comes:
            text += f", done in {report.lag / (reads - comes):,.0f} s"
        return text
