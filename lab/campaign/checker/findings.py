"""A finding: which rule was broken, where, and how."""

from __future__ import annotations

from typing import NamedTuple

from lab.campaign.checker.history import Record


class Finding(NamedTuple):
    log: str  # or the copy, or what was waited for
    text: str


def place(log: str, record: Record) -> str:
    return f"{log}-{record.partition} offset {record.offset}"


def shown(value: bytes | None) -> str:
    return "null" if value is None else repr(value[:60])
