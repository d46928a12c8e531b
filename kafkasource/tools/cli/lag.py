"""Show the lag of a consumer group, of a streaming query by its checkpoint, or of a mirror's queries by its file."""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.options.spelling import many
from kafkasource.tools.admin.lag import LagReport
from kafkasource.tools.cli.arguments import add_cluster, add_json, at_least, reached_cluster
from kafkasource.tools.cli.lag_report import add_group_or_checkpoint, lag_report, of_mirror

EXAMPLES = """examples:
  pykafka lag --group billing --watch
  pykafka lag --checkpoint /checkpoints/billing --fail-above 100000
  pykafka lag --mirror mirror.toml --watch"""
_MOST_NAMED = 5  # partitions in one error
HELP = "how far a group, a query's checkpoint or a mirror is behind; --watch"


def add(parser: argparse.ArgumentParser) -> None:
    which = add_group_or_checkpoint(parser)
    which.add_argument(
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
    with _reports(arguments) as ask:
        found = ask()
        if arguments.watch:
            with contextlib.suppress(KeyboardInterrupt):
                trends = [_Trend() for _ in found]
                while True:
                    for each, trend in zip(found, trends, strict=True):
                        _print_line(each, trend, arguments.json)
                    time.sleep(arguments.watch)
                    found = ask()
        elif arguments.json:
            documents = [each.as_json() for each in found]
            print(json.dumps(documents if arguments.mirror else documents[0], indent=1))
        else:
            _print_tables(found)
    if arguments.fail_above is None:
        return 0
    leaderless = [tp for each in found for tp in each.leaderless]
    if leaderless:  # a monitor must not stay green while brokers are away
        raise KafkaSourceError(
            f"the lag of {many(len(leaderless), 'partition')} is not known, as they have no leader: "
            f"{', '.join(map(str, leaderless[:_MOST_NAMED]))}{', ...' if len(leaderless) > _MOST_NAMED else ''}"
        )
    if any(place.never_read or place.ahead for each in found for place in each.places):
        return 1  # the total lacks them, and says so: a partition that is stuck at its start, or made again
    return 1 if sum(each.lag for each in found) > arguments.fail_above else 0


@contextlib.contextmanager
def _reports(arguments: argparse.Namespace) -> Iterator[Callable[[], list[LagReport]]]:
    """A function that asks for the lag of one group or query, or of a mirror's queries."""
    if not arguments.mirror:
        with reached_cluster(arguments) as cluster:
            yield lambda: [lag_report(cluster, arguments)]
        return
    if arguments.bootstrap_servers or arguments.settings or arguments.command_config:
        raise OptionError("--mirror FILE says how to reach its clusters: leave out -b, -X and --command-config")
    with of_mirror(arguments.mirror) as ask:
        yield ask


def _print_tables(found: list[LagReport]) -> None:
    from kafkasource.tools.cli.groups import print_partitions

    for number, each in enumerate(found):
        if number:
            print()
        print(each.totals)
        print_partitions(each)


def _print_line(found: LagReport, trend: _Trend, as_json: bool) -> None:
    if as_json:
        print(json.dumps(found.as_json()), flush=True)
    else:
        print(f"{datetime.now():%H:%M:%S}  {found.totals}{trend.since_last(found, time.monotonic())}", flush=True)


class _Trend:
    """The offsets that were read and written between two looks."""

    def __init__(self) -> None:
        self._last: tuple[float, int, int] | None = None  # seconds, sum of offsets read, sum of ends

    def since_last(self, found: LagReport, now_s: float) -> str:
        """`; reads 1,200/s, 300/s come in, done in 20 s`."""
        known = [place for place in found.places if place.lag is not None]
        consumed = sum(place.consumed or 0 for place in known)
        latest = sum(place.latest or 0 for place in known)
        last, self._last = self._last, (now_s, consumed, latest)
        if last is None or now_s <= last[0]:
            return ""
        reads, comes = ((now - before) / (now_s - last[0]) for now, before in ((consumed, last[1]), (latest, last[2])))
        text = f"; reads {max(0, reads):,.0f}/s, {max(0, comes):,.0f}/s come in"
        if found.lag and reads > comes:
            text += f", done in {found.lag / (reads - comes):,.0f} s"
        return text
