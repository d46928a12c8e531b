"""Prints the status of a running `pykafka mirror`: a line for each flow, live on a terminal, once a minute in a log.

    east->west: 1,200 offsets/s, lag 300 in 2 of 6 partitions, oldest 2.0 s, done in 20 s
    east->archive catches up: 90,000 offsets/s, lag 4,000,000 in 6 of 6 partitions, oldest 9.1 s or more, done in 44 s

A further line names each query that failed and is started again.

Spark reports a micro-batch when it has ended. If that was long ago, the line says so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

from kafkasource.errors import escaped
from kafkasource.mirror.source_run import name_of
from kafkasource.options.spelling import lag_in_words
from kafkasource.tools.cli.terminal import beneath
from kafkasource.tools.monitor.queries import Queries

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from kafkasource.mirror.positions import FlowRules
    from kafkasource.mirror.source_run import SourceRun

ON_TERMINAL_S, IN_LOG_S = 1.0, 60.0
_LONG_AGO_S = 15.0  # an idle query reports every ten seconds


@dataclass
class _Line:
    """One flow of a reader, and how far its query had read its topics when Spark told last."""

    name: str
    query: str
    flow: FlowRules
    told_s: float | None = None
    read: int = 0  # the sum of the next offsets
    rate: float | None = None  # offsets per second between the last two reports

    def text(self, query: dict[str, Any] | None, now_s: float) -> str:
        if query is None or query["last_progress"] is None:
            return f"{self.name}: no micro-batch has ended yet"
        places = [place for place in query["partitions"] if self.flow.takes(place["topic"])]
        self._look(query["last_progress"], sum(place["offset"] for place in places))
        lag, behind = sum(place["lag"] for place in places), sum(1 for place in places if place["lag"])
        facts = [] if self.rate is None else [f"{self.rate:,.0f} offsets/s"]
        facts.append(lag_in_words(lag, behind, len(places)))
        if behind:
            known = [place["lag_seconds"] for place in places]
            least = max(place["lag_seconds_at_least"] for place in places)
            facts.append(f"oldest {least:.1f} s or more" if None in known else f"oldest {max(known):.1f} s")
        if lag and self.rate:
            facts.append(f"done in {lag / self.rate:,.0f} s")
        ago_s = now_s - query["last_progress"]
        if ago_s > _LONG_AGO_S:
            facts.append(f"as of {ago_s:,.0f} s ago, when micro-batch {query['batch_id']} ended")
        return f"{self.name}: {', '.join(facts)}"

    def _look(self, told_s: float, read: int) -> None:
        if self.told_s is not None and told_s > self.told_s:
            self.rate = max(0, read - self.read) / (told_s - self.told_s)
        self.told_s, self.read = told_s, read


class MirrorStatus:
    """Belongs to the thread that waits for the mirror."""

    def __init__(self, runs: Iterable[SourceRun], stream: TextIO, clock: Callable[[], float] = time.time) -> None:
        self._runs = list(runs)
        self._known: dict[tuple[str, str], _Line] = {}  # by the reader's name and the target's
        self._stream, self._clock = beneath(stream), clock
        self._terminal = stream.isatty()
        self._queries = Queries(clock=clock)
        self._shown_s = clock()
        self._drawn = 0  # lines

    def look(self, running: Iterable[StreamingQuery]) -> None:
        """Print the lines where it is time."""
        now_s = self._clock()
        if now_s - self._shown_s < (ON_TERMINAL_S if self._terminal else IN_LOG_S):
            return
        self._shown_s = now_s
        self.show(running)

    def show(self, running: Iterable[StreamingQuery]) -> None:
        """Print the lines now."""
        from kafkasource.tools.monitor.listener import take_in

        for query in running:
            progress = query.lastProgress
            if progress is not None:
                take_in(self._queries, progress)
        now_s = self._clock()
        known = {query["name"]: query for query in self._queries.as_json()}
        lines = [line.text(known.get(line.query), now_s) for line in self._lines()]
        lines += [f"failed, and is tried again: {error}" for run in self._runs for error in run.errors]
        lines = [escaped(line, keep="") for line in lines]
        if self._terminal:
            width = os.get_terminal_size(self._stream.fileno()).columns or 80
            back = f"\x1b[{self._drawn}A\x1b[J" if self._drawn else ""
            self._stream.write(back + "".join(f"\r\x1b[2K{line[: width - 1]}\n" for line in lines))
        else:
            self._stream.write("".join(f"{datetime.fromtimestamp(now_s):%H:%M:%S}  {line}\n" for line in lines))
        self._stream.flush()
        self._drawn = len(lines)

    def _lines(self) -> Iterator[_Line]:
        """A line for each flow of the shared reader, and for each that catches up."""
        for run in self._runs:
            for reader in run.record.readers if run.record is not None else ():
                query = name_of(run.source, reader)
                for flow in reader.flows:
                    name = f"{run.source}->{flow.target}{' catches up' if reader.catches_up else ''}"
                    key = f"{run.source}/{reader.name}", flow.target
                    yield self._known.setdefault(key, _Line(name, query, flow))
