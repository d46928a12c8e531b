"""Time: what had to happen in a promised time did."""

from __future__ import annotations

from collections.abc import Iterator

from lab.campaign.checker.findings import Finding
from lab.campaign.checker.index import Index


def stalled(index: Index) -> Iterator[Finding]:
    for wait in index.history.waits:
        if wait.ended_ms is None:
            yield Finding(
                wait.what, f"it never happened; {wait.promised_ms} ms were promised, from {wait.began_ms} ms on"
            )
        elif (took_ms := wait.ended_ms - wait.began_ms) > wait.promised_ms:
            yield Finding(
                wait.what, f"it took {took_ms} ms from {wait.began_ms} ms on; {wait.promised_ms} ms were promised"
            )
