"""`make far`: reading, writing, exactly once and a mirror over a long line, beside the JVM connector and librdkafka.

Goodput is bytes of values a second, without the fixed time of a job: a contestant moves a few records, then as many as
fill the line for some seconds, and the difference counts. It stands beside what the same line gives to one plain TCP
connection. Prints a table, and writes it to build/far.md (or FILE).

    python -m lab.benchmarks.far --cases 80/20 150/200/0.001     round trip in ms / Mbit/s / loss
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from kafkasource.testing.broker import Broker
from kafkasource.testing.broker.properties import free_ports
from lab.benchmarks.far import bare
from lab.benchmarks.far.contestants import PARTITIONS, VALUE_BYTES, Contestants, Move, fill
from lab.benchmarks.far.line import NEAR, Case, FarLine
from lab.benchmarks.lab import prepare_environment, start_spark
from lab.benchmarks.turns import reason
from lab.campaign.ending import on_sigterm_unwind

CASES = tuple(
    Case(round_trip_ms, mbit_per_s, loss)
    for loss in (0.0, 0.001)
    for round_trip_ms in (80.0, 150.0)
    for mbit_per_s in (2.0, 20.0, 200.0, 1000.0)
)
FEW = 40  # records
FILLED_S = 6.0  # for so long the records fill the line
MOST_BYTES = 300_000_000
WANTED = 0.9  # of what the line gives


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.far", description=__doc__)
    parser.add_argument("--cases", nargs="*", type=_case, default=CASES, help="ms/Mbit, or ms/Mbit/loss")
    parser.add_argument("--seconds", type=float, default=FILLED_S, help=f"for which a line is filled ({FILLED_S:g})")
    parser.add_argument("--only", help="contestants whose names contain this")
    parser.add_argument("--file", type=Path, default=Path("build/far.md"), help="(build/far.md)")
    arguments = parser.parse_args()
    on_sigterm_unwind()
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    arguments.file.write_text("")
    with arguments.file.open("a") as file:
        for line in table(arguments.cases, arguments.seconds, arguments.only or ""):
            print(line, flush=True)
            file.write(line + "\n")
            file.flush()
    return 0


def _case(text: str) -> Case:
    return Case(*map(float, text.split("/")))


def table(cases: list[Case], seconds: float, only: str) -> Iterator[str]:
    """Its lines, each as soon as it is known."""
    prepare_environment()
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="far-", ignore_cleanup_errors=True)))
        server, line, plain = bare.Bare(), FarLine(), FarLine()
        for each in (server, line, plain):
            ends.enter_context(each)
        ports = free_ports(1)
        line.lead_to(ports[0])
        plain.lead_to(server.port)
        far = Broker(ports=ports, advertised_ports=[line.port], use_existing=False, heap_mb=1024)
        near = ends.enter_context(Broker(use_existing=False, heap_mb=512))
        ends.enter_context(far)
        servers = far.bootstrap_servers
        spark = start_spark(folder)
        ends.callback(spark.stop)
        counts = {case: _records(case, seconds) for case in cases}
        full = {count: f"full-{count}" for count in {FEW, *counts.values()}}
        _make(servers, [*full.values(), "target"])
        for count, topic in full.items():
            fill(servers, topic, count)
        contestants = Contestants(spark, folder, servers, near.bootstrap_servers, full, "target").all()
        chosen = {name: move for name, move in contestants.items() if only in name}
        for move in chosen.values():
            move(FEW)  # with a near broker: processes start, code is compiled
        yield f"| line | it gives, MB/s | {' | '.join(chosen)} |"
        yield "|---|" + "---|" * (len(chosen) + 1)
        for case in cases:
            plain.become(case)
            gives = bare.bytes_per_s(plain.port, counts[case] * VALUE_BYTES)
            line.become(case)
            cells = [_cell(move, counts[case], gives) for move in chosen.values()]
            line.become(NEAR)
            yield f"| {case} | {gives / 1e6:.2f} | {' | '.join(cells)} |"


def _records(case: Case, seconds: float) -> int:
    """A multiple of the partitions, and large enough for a round trip not to matter."""
    size = min(MOST_BYTES, case.bytes_per_s * seconds)
    return max(10 * FEW, int(size / VALUE_BYTES) // PARTITIONS * PARTITIONS)


def _make(servers: str, topics: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
        made.result(60)


def _cell(move: Move, count: int, gives: float) -> str:
    """Goodput in MB/s, its share of what the line gives, and the seconds of a few records."""
    try:
        few_s, all_s = _seconds(move, FEW), _seconds(move, count)
    except Exception as error:
        return reason(error).replace("|", " ")[:80]
    goodput = (count - FEW) * VALUE_BYTES / max(1e-3, all_s - few_s)
    share = goodput / gives
    mark = "" if share >= WANTED else " **"
    return f"{goodput / 1e6:.2f} ({share:.0%}{mark}, {few_s:.1f} s)"


def _seconds(move: Move, count: int) -> float:
    began_s = time.monotonic()
    move(count)
    return time.monotonic() - began_s


if __name__ == "__main__":
    sys.exit(main())
