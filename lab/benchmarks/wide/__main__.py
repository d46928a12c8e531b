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

from kafkasource.testing.broker import Broker
from lab.benchmarks.lab import prepare_environment
from lab.benchmarks.wide import planning, query
from lab.benchmarks.wide.planning import Figures
from lab.benchmarks.wide.topics import PATTERN, Topics
from lab.campaign.ending import on_sigterm_unwind

ADDED, ADD_EVERY_S, ADDED_PARTITIONS = 20, 3.0, 5  # 20 a minute
CAUGHT_UP_S = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.wide", description=__doc__)
    parser.add_argument("--file", type=Path, default=Path("build/wide.md"), help="(build/wide.md)")
    parser.add_argument("--topics", type=int, default=200, help="of 50 partitions each (200)")
    parser.add_argument("--fake-only", action="store_true", help="only the planning of 100,000 partitions")
    parser.add_argument("--driver-only", action="store_true", help="without the query in Spark")
    arguments = parser.parse_args()
    on_sigterm_unwind()
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    wrong = False
    with arguments.file.open("w") as file:

        def tell(title: str, figures: Figures) -> None:
            text = _table(title, figures) + "\n"
            print(text, flush=True)
            print(text, file=file, flush=True)

        if not arguments.fake_only:
            wrong = on_a_broker(arguments.topics, tell, in_spark=not arguments.driver_only)
        fake = "100,000 partitions of 1,000 topics, 1,000 busy, fake cluster: the driver alone"
        tell(fake, planning.on_fake_cluster())
    return int(wrong)


def on_a_broker(topics: int, tell: Callable[[str, Figures], None], *, in_spark: bool) -> bool:
    """Tells each table as soon as it is known. True: the query has not read each record once."""
    prepare_environment()
    properties = {"log.index.size.max.bytes": 65_536, "auto.create.topics.enable": "false"}  # it maps two indexes a log
    title = f"{topics * 50:,} partitions of {topics} topics, 1 % busy, one broker"
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
            tell(
                f"{title}: the driver alone",
                planning.measure(reader, lambda: _await_records(records, len(records.busy))),
            )
            reader.stop()
            if not in_spark:
                return False
            seen: list[int] = []
            found = query.run(Path(home), servers, lambda rows: seen.append(_add(records, rows)), os.getpid())
        finally:
            records.stop()
    tell(f"{title}: in Spark", found | {"records written": records.written, "records read": seen[0]})
    return records.written != seen[0]


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
