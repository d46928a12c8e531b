"""The members of a group of mixed clients, each a process of its own, and what they told."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from lab.campaign.checker import Record
from lab.campaign.lines import Told

KINDS = ("kafkasource", "kafkasource", "librdkafka")
LEAVES_S = 30.0


class Members:
    """`start`: of a member by its kind and the file that it writes."""

    def __init__(self, folder: Path, start: Callable[[str, str, Path], subprocess.Popen[bytes]]) -> None:
        self._start = start
        self._files = [folder / f"member-{number}" for number in range(len(KINDS))]
        self._told = [Told(file) for file in self._files]
        self._running: list[subprocess.Popen[bytes]] = []
        self._records: list[Record] = []
        self.values: set[bytes] = set()

    def start(self) -> None:
        self._running = [self._run(number) for number in range(len(KINDS))]

    def _run(self, number: int) -> subprocess.Popen[bytes]:
        return self._start(f"member-{number}", KINDS[number], self._files[number])

    def kill(self, draw: float, away_s: float) -> None:
        """Its session must end before the others have its partitions."""
        number = self._drawn(draw)
        self._running[number].kill()
        self._back(number, away_s)

    def leave(self, draw: float, away_s: float) -> None:
        number = self._drawn(draw)
        self._running[number].terminate()
        try:
            self._running[number].wait(LEAVES_S)
        except subprocess.TimeoutExpired:
            self._running[number].kill()
        self._back(number, away_s)

    def _back(self, number: int, away_s: float) -> None:
        self._running[number].wait()
        time.sleep(away_s)
        self._running[number] = self._run(number)

    def hang(self, draw: float, lasts_s: float) -> None:
        """Longer than its session, it goes on with partitions that are another member's by then."""
        member = self._running[self._drawn(draw)]
        member.send_signal(signal.SIGSTOP)
        time.sleep(lasts_s)
        member.send_signal(signal.SIGCONT)

    def _drawn(self, draw: float) -> int:
        return int(draw * len(KINDS))

    def look(self) -> int:
        """Read what they have told since the last look; how many records came."""
        came = [record for told in self._told for record in told.more()]
        self._records += came
        self.values.update(record.value for record in came)
        return len(came)

    @property
    def records(self) -> list[Record]:
        """By place: which of several members told of a record first means nothing."""
        return sorted(self._records, key=lambda record: (record.partition, record.offset))

    def end(self) -> None:
        for member in self._running:
            member.kill()
            member.wait()
