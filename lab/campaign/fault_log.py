"""The log of faults: a line of JSON each, with its moment, and how many there were of each kind."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from lab.campaign.checker import Report
from lab.campaign.faults import Fault


class FaultLog:
    """For several threads."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a")
        self._lock = threading.Lock()
        self._began_s = time.monotonic()
        self.counts: Counter[str] = Counter()

    def now_ms(self) -> int:
        """Since the campaign began; the one clock of its history."""
        return int((time.monotonic() - self._began_s) * 1000)

    def add(self, fault: Fault, began_ms: int, error: str | None, **more: object) -> None:
        """After the fault. One that could not be carried out is in the log, and not in the counts."""
        line = {"at_ms": began_ms, "took_ms": self.now_ms() - began_ms, **asdict(fault), **more, "error": error}
        with self._lock:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
            if error is None:
                self.counts[fault.kind] += 1

    def note(self, what: str, **more: object) -> None:
        """Something else of which the moment is worth knowing."""
        with self._lock:
            self._file.write(json.dumps({"at_ms": self.now_ms(), "note": what, **more}) + "\n")
            self._file.flush()

    def report(self, report: Report) -> Report:
        """Note each finding that was kept; the report itself."""
        for rule, findings in report.findings.items():
            for finding in findings:
                self.note("finding", rule=rule, log=finding.log, text=finding.text)
        return report
