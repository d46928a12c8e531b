"""Show the lag of a consumer group, or of a streaming query by its checkpoint."""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from datetime import datetime

from kafkasource.admin.lag import LagReport
from kafkasource.cli.arguments import add_cluster, add_json, at_least, reached_cluster
from kafkasource.cli.lag_report import add_group_or_checkpoint, lag_report

EXAMPLES = """examples:
  pykafka lag --group billing --watch
  pykafka lag --checkpoint /checkpoints/billing --fail-above 100000"""
HELP = "how far a group or a query's checkpoint is behind; --watch"


def add(parser: argparse.ArgumentParser) -> None:
    add_group_or_checkpoint(parser)
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
        "--fail-above", type=at_least(0), metavar="N", help="exit with code 1 if the total lag is above N"
    )
    add_cluster(parser)
    add_json(parser)
    parser.set_defaults(run=_lag)


def _lag(arguments: argparse.Namespace) -> int:
    from kafkasource.cli.groups import print_partitions

    with reached_cluster(arguments) as cluster:
        found = lag_report(cluster, arguments)
        if arguments.watch:
            with contextlib.suppress(KeyboardInterrupt):
                trend = _Trend()
                while True:
                    _print_line(found, trend, arguments.json)
                    time.sleep(arguments.watch)
                    found = lag_report(cluster, arguments)
        elif arguments.json:
            print(json.dumps(found.as_json(), indent=1))
        else:
            print(found.totals)
            print_partitions(found)
    return 1 if arguments.fail_above is not None and found.lag > arguments.fail_above else 0


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
