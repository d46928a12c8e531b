"""Positions in logs, as people write them: `earliest`, `latest`, an offset, a time; for all partitions of a command.

    earliest  latest          the two ends of the log; also beginning, start and end, as kcat and rpk say
    1500                      an offset
    -10                       ten offsets before the end of each partition
    @1795300000000            milliseconds since 1970-01-01 UTC; kcat's s@1795300000000; rpk's @2026-11-21, @-15m
    2026-11-21  2026-11-21T22:30  2026-11-21T22:30:05.250+01:00     UTC where no zone is given
    90s  15m  2h  7d          this long ago

A time means the first record with this timestamp or a later one; the end of the log if all are older.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from kafkasource.kafka.cluster.offsets import EARLIEST, LATEST
from kafkasource.source.plan.offset_reader import OffsetReader
from kafkasource.source.plan.offsets import Offsets
from kafkasource.source.plan.positions import AtOffsets, AtTimestamps, Position
from kafkasource.types import TopicPartition

PLACES = "earliest, latest, an offset (1500), a time (2026-11-21T22:30, UTC), or how long ago (15m, 2h, 7d)"

_WORDS = {"earliest": EARLIEST, "beginning": EARLIEST, "start": EARLIEST, "latest": LATEST, "end": LATEST}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_AGO_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def position(text: str, *, now_ms: float | None = None) -> Position:
    """An argparse type; see the module."""
    text = text.strip()
    if text.lower() in _WORDS:
        return AtOffsets(text, others=_WORDS[text.lower()])
    if re.fullmatch(r"\d{1,18}", text):
        return AtOffsets(text, others=int(text))
    if re.fullmatch(r"-\d{1,18}", text):
        return LastRecords(text, int(text[1:]))
    return AtTimestamps(text, everywhere_ms=_milliseconds(text, now_ms), else_latest=True)


def _milliseconds(text: str, now_ms: float | None) -> int:
    if re.fullmatch(r"s?@\d{1,15}", text):
        return int(text.removeprefix("s")[1:])
    said, text = text, text.removeprefix("@")
    ago = re.fullmatch(r"-?(\d{1,9})([smhd])", text)
    if ago is not None:
        now = time.time() * 1000 if now_ms is None else now_ms
        return max(0, int(now) - int(ago[1]) * _AGO_MS[ago[2]])
    try:
        # Python 3.10 takes neither Z nor a fraction of other than 3 or 6 digits
        moment = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{said!r} is not one of {PLACES}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return max(0, (moment - _EPOCH + timedelta(microseconds=500)) // timedelta(milliseconds=1))  # exact, as no float is


@dataclass(frozen=True, slots=True)
class LastRecords(Position):
    """`count` offsets before the end of each partition; the whole log if it has fewer."""

    count: int = 0

    def resolve(self, assigned: Iterable[TopicPartition], reader: OffsetReader) -> Offsets:
        ends = reader.latest(assigned).offsets
        return {tp: min(max(first, ends[tp] - self.count), ends[tp]) for tp, first in reader.earliest(ends).items()}

    def covered(self, assigned: Iterable[TopicPartition]) -> set[TopicPartition]:
        return set(assigned)
