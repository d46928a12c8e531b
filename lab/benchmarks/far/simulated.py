"""Reading by one task over long lines, simulated: the real fetcher and client on brokers and a network in this process.

    PYTHONPATH=.:tests:tests/source:tests/kafka/cluster python -m lab.benchmarks.far.simulated

Nothing waits, as the network has a time of its own, so every line takes a second, and no other load of the machine
counts. The task needs no time for its records either: what is missing is what the client leaves of the line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from fetch_rig import fetch_settings
from thin_line import BigLog, ThinNet

from kafkasource.kafka.fetch.task import fetch
from kafkasource.types import OffsetRange, TopicPartition

ROUND_TRIPS_S = (0.08, 0.15)
MBIT_PER_S = (2, 20, 200, 1000)
READ_AHEAD = (8, 32)  # the default, and more
FILLED_S, MOST_BYTES = 10.0, 400e6
ROWS, VALUE_BYTES = 100, 10_000  # of a record batch
PARTITIONS = 2


def share(round_trip_s: float, mbit_per_s: float, read_ahead: int) -> float:
    """Of the line's rate that one task gets which reads two partitions, one after the other."""
    bytes_per_s = mbit_per_s * 1e6 / 8
    of_each = max(4, int(min(bytes_per_s * FILLED_S, MOST_BYTES) / (ROWS * VALUE_BYTES * PARTITIONS)))
    log = BigLog(of_each, VALUE_BYTES, PARTITIONS, ROWS)  # type: ignore[no-untyped-call]
    net = ThinNet(log, bytes_per_s, round_trip_s)  # type: ignore[no-untyped-call]
    cluster, began_s = net.cluster(), net.now
    ranges = [OffsetRange(TopicPartition("t", number), 0, ROWS * of_each) for number in range(PARTITIONS)]
    settings = fetch_settings(read_ahead=read_ahead)  # type: ignore[no-untyped-call]
    rows = sum(batch.num_rows for batch in fetch(cluster, ranges, settings))
    assert rows == PARTITIONS * ROWS * of_each
    return float(rows * VALUE_BYTES / (net.now - began_s) / bytes_per_s)


def table() -> Iterator[str]:
    yield f"| round trip, Mbit/s | {' | '.join(f'`readAhead` {each}' for each in READ_AHEAD)} |"
    yield "|---|" + "---|" * len(READ_AHEAD)
    for round_trip_s in ROUND_TRIPS_S:
        for mbit_per_s in MBIT_PER_S:
            shares = (share(round_trip_s, mbit_per_s, each) for each in READ_AHEAD)
            yield f"| {round_trip_s * 1000:g} ms, {mbit_per_s:,} | {' | '.join(f'{each:.0%}' for each in shares)} |"


if __name__ == "__main__":
    for line in table():
        print(line, flush=True)
    sys.exit(0)
