"""Follows a topic by `Reader.follow` and writes what it gets: a line of JSON for each record.

    python -m lab.campaign.follow_app BOOTSTRAP TOPIC FILE

Where the reader gives up, because the brokers were away for too long, another one goes on at its positions.
"""

from __future__ import annotations

import sys
import time
from typing import TextIO

from kafkasource.errors import KafkaSourceError
from kafkasource.reader import Reader
from lab.campaign import lines
from lab.campaign.ending import end_with_starter
from lab.campaign.positions import starting_offsets


def main(servers: str, topic: str, file: str) -> None:
    end_with_starter()
    positions: dict[int, int] = {}
    with lines.append_to(file) as out:
        while True:
            try:
                _follow(servers, topic, positions, out)
            except KafkaSourceError as error:
                print(time.strftime("%H:%M:%S"), "gave up", error, flush=True)


def _follow(servers: str, topic: str, positions: dict[int, int], out: TextIO) -> None:
    options = {
        "kafka.bootstrap.servers": servers,
        "kafka.client.id": "campaign",
        "kafka.isolation.level": "read_committed",
        "kafka.request.timeout.ms": "8000",
        "subscribe": topic,
        "includeHeaders": "true",
        "startingOffsets": starting_offsets(servers, topic, positions),
    }
    with Reader(options) as reader:
        for batch in reader.follow():
            rows = batch.to_pylist()
            lines.write(out, map(lines.record_of, rows))
            positions.update((row["partition"], row["offset"] + 1) for row in rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
