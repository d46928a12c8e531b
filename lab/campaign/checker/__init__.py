"""Judges a history: was anything lost, doubled, reordered, or otherwise not as promised? Pure, and linear in records.

report = check(history)
report.counts            # findings by rule; every rule has its row
report.findings          # the first ones of each rule, in words
"""

from lab.campaign.checker.check import RULES, Report, check
from lab.campaign.checker.history import (
    Batch,
    Copy,
    Glimpse,
    History,
    Outcome,
    Passed,
    Record,
    Translation,
    Wait,
    Written,
)

__all__ = [
    "RULES",
    "Batch",
    "Copy",
    "Glimpse",
    "History",
    "Outcome",
    "Passed",
    "Record",
    "Report",
    "Translation",
    "Wait",
    "Written",
    "check",
]
