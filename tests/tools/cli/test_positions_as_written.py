"""Positions in a log, as people write them."""

import argparse

import pytest

from kafkasource.tools.admin.positions import LastRecords, position
from kafkasource.types import TopicPartition

T0 = TopicPartition("t", 0)
NOW_MS = 1_795_300_000_000  # 2026-11-21T22:26:40Z


class Log:
    """An offset reader of one partition that holds [100, 200)."""

    def list_offsets(self, symbols):
        return {tp: {-2: 100, -1: 200}[symbol] for tp, symbol in symbols.items()}

    def earliest(self, partitions):
        return dict.fromkeys(partitions, 100)

    def latest(self, partitions):
        class Ends:
            offsets = dict.fromkeys(partitions, 200)

        return Ends

    def offsets_for_times(self, times):
        self.asked = times
        return dict.fromkeys(times, 150)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        *(("earliest", 100), ("LATEST", 200), ("123", 123), ("0", 0)),
        *(("beginning", 100), ("start", 100), ("end", 200), ("-10", 190), ("-1000", 100)),  # kcat's and rpk's
    ],
)
def test_words_and_numbers_are_offsets(text, offset):
    assert position(text).resolve([T0], Log()) == {T0: offset}


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("@1795300000000", 1_795_300_000_000),
        ("s@1795300000000", 1_795_300_000_000),  # kcat's
        ("@2026-11-21", 1_795_219_200_000),  # rpk's
        ("@-15m", NOW_MS - 900_000),
        ("2026-11-21", 1_795_219_200_000),
        ("2026-11-21T22:26:40", NOW_MS),
        ("2026-11-21 22:26:40", NOW_MS),
        ("2026-11-21T22:26:40Z", NOW_MS),
        ("2026-11-21T22:26:40.250Z", NOW_MS + 250),
        ("2026-11-21T23:26:40+01:00", NOW_MS),
        ("90s", NOW_MS - 90_000),
        ("15m", NOW_MS - 900_000),
        ("2h", NOW_MS - 7_200_000),
        ("7d", NOW_MS - 604_800_000),
    ],
)
def test_times_are_utc_and_durations_are_ago(text, ms):
    log = Log()
    assert position(text, now_ms=NOW_MS).resolve([T0], log) == {T0: 150}
    assert log.asked == {T0: ms}


@pytest.mark.parametrize("text", ["", "yesterday", "--5", "5w", "2026-13-01", "1.5", "@", "9" * 30])
def test_anything_else_is_a_usage_error_that_shows_what_may_stand_there(text):
    with pytest.raises(argparse.ArgumentTypeError, match="earliest, latest, an offset"):
        position(text)


def test_the_last_records_are_counted_back_from_the_end_and_never_below_the_log():
    assert LastRecords("--last", 3).resolve([T0], Log()) == {T0: 197}
    assert LastRecords("--last", 1000).resolve([T0], Log()) == {T0: 100}
