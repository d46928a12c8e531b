"""One line of the doctor's."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARNING, FAILED = "ok", "warning", "FAILED"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `remedy` is for what is not ok, or could be better."""

    level: str
    what: str
    found: str
    remedy: str = ""
