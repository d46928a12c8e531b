"""`make wide`: a stream over 10,000 partitions of 200 topics with 1 % of them busy, then planning of 100,000.

One real broker holds the 10,000. Prints tables, and writes them to build/wide.md (or FILE): docs/scale.md has them.
Exit code 1 where the query has not read each record exactly once, those of topics that were added included.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.lab import prepare_environment
from benchmarks.wide import planning, query
from benchmarks.wide.planning import Figures
from benchmarks.wide.topics import PATTERN, Topics
from campaign.ending import on_sigterm_unwind
from kafkasource.broker import Broker

ADDED, ADD_EVERY_S, ADDED_PARTITIONS = 20, 3.0, 5  # 20 a minute
CAUGHT_UP_S = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wide", description=__doc__)
    parser.add_argument("--file", type=Path, default=Path("build/wide.md"), help="(build/wide.md)")
    parser.add_argument("--topics", type=int, default=200, help="of 50 partitions each (200)")
    parser.add_argument("--fake-only", action="store_true", help="only the planning of 100,000 partitions")
    arguments = parser.parse_args()
    on_sigterm_unwind()
    tables, wrong = dict[str, Figures](), False
    if not arguments.fake_only:
        real, wrong = on_a_broker(arguments.topics)
        tables |= real
    tables["100,000 partitions of 1,000 topics, 1,000 busy, fake cluster: the driver alone"] = (
        planning.on_fake_cluster()
    )
    text = "\n\n".join(_table(title, figures) for title, figures in tables.items())
    print(text)
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    arguments.file.write_text(text + "\n")
    return int(wrong)


def on_a_broker(topics: int) -> tuple[dict[str, Figures], bool]:
    prepare_environment()
    properties = {"log.index.size.max.bytes": 65_536, "auto.create.topics.enable": "false"}  # it maps two indexes a log
    with (
        tempfile.TemporaryDirectory(prefix="wide-", ignore_cleanup_errors=True) as home,
        Broker(use_existing=False, heap_mb=1024, properties=properties) as broker,
    ):
        servers = broker.bootstrap_servers
        records = Topics(servers)
        print(f"{topics * 50:,} partitions made in {records.create(topics):.0f} s", flush=True)
        records.start()
        try:
            reader = planning.reader_of(servers, PATTERN)
            alone = planning.measure(reader, lambda: _await_records(records, len(records.busy)))
            reader.stop()
            seen: list[int] = []
            in_spark = query.run(Path(home), servers, lambda rows: seen.append(_add(records, rows)), os.getpid())
        finally:
            records.stop()
    in_spark["records written"], in_spark["records read"] = records.written, seen[0]
    title = f"{topics * 50:,} partitions of {topics} topics, 1 % busy, one broker"
    return {f"{title}: the driver alone": alone, f"{title}: in Spark": in_spark}, records.written != seen[0]


def _await_records(records: Topics, count: int) -> None:
    wanted = records.written + count
    deadline = time.monotonic() + CAUGHT_UP_S
    while records.written < wanted:
        if records.error is not None or time.monotonic() > deadline:
            raise records.error or TimeoutError(f"{records.written} of {wanted} records within {CAUGHT_UP_S:g} s")
        time.sleep(0.05)


def _add(records: Topics, rows: Callable[[], int]) -> int:
    """Add topics, let the query read on until it has all, and return how many rows it has then."""
    for _ in range(ADDED):
        records.create(1, ADDED_PARTITIONS)
        time.sleep(ADD_EVERY_S)
    records.stop()
    deadline = time.monotonic() + CAUGHT_UP_S
    while rows() < records.written and time.monotonic() < deadline:
        time.sleep(0.5)
    time.sleep(5)  # what is read twice comes after
    return rows()


def _table(title: str, figures: Figures) -> str:
    rows = [f"| {name} | {value:,.0f} |" for name, value in figures.items()]
    return "\n".join([f"**{title}**", "", "| | |", "|---|---|", *rows])


if __name__ == "__main__":
    sys.exit(main())
