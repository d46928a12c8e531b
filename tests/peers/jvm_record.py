"""Recorded outcomes of the JVM connector for the cases that claim `same`. Ours is compared with this record.

`make extended` runs both and holds the file to what the JVM connector sees. To write it again:

    KAFKASOURCE_RECORD_JVM=1 .venv/bin/python -m pytest -m "spark" tests/peers/test_parity.py
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parity import SAME, Case, Seen, compared, unexpected

FILE = Path(__file__).with_name("jvm_record.json")
WRITES = os.environ.get("KAFKASOURCE_RECORD_JVM") == "1"
Outline = Mapping[str, Any]
_LIST_AT_MOST = 5  # rows that are recorded as they are; of more, their number and a checksum


def outlines(case: Case, seen: Sequence[Seen]) -> list[Outline]:
    """The recorded outcome of each read of a case, as short JSON."""
    if case.verdict != SAME:
        return []
    return [
        {name: _short(getattr(of, name)) if name == "rows" else _as_json(getattr(of, name)) for name in compared(read)}
        for read, of in zip(case.reads, seen, strict=True)
    ]


def _short(rows: list[Any]) -> Any:
    texts = [repr(row) for row in rows]
    if len(rows) <= _LIST_AT_MOST:
        return texts
    checksum = hashlib.sha256("\n".join(texts).encode())
    return f"{len(rows)} rows, sha256 {checksum.hexdigest()}"


def _as_json(value: object) -> Any:
    return json.loads(json.dumps(value))


def recorded() -> dict[str, list[Outline]]:
    """The recorded outcomes by the case's id."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def write(case: Case, theirs: Sequence[Seen]) -> None:
    every = {**recorded(), case.id: outlines(case, theirs)}
    lines = [f" {json.dumps(id)}: {json.dumps(each)}" for id, each in sorted(every.items()) if each]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def judge_by_record(case: Case, ours: Sequence[Seen]) -> list[str]:
    """The sentences of `parity.judge`, without a run of the JVM connector."""
    wrong = []
    for number, (read, our) in enumerate(zip(case.reads, ours, strict=True)):
        where = f"read {number}, {type(read).__name__}"
        wrong += [f"{where}: pykafka: {text}" for text in unexpected(read.expected("pykafka"), our)]
    if case.verdict != SAME:
        return wrong
    every = recorded()
    if case.id not in every:
        return [*wrong, f"{FILE.name} does not have this case. {__doc__}"]
    for number, (theirs, mine) in enumerate(zip(every[case.id], outlines(case, ours), strict=True)):
        wrong += [
            f"read {number}: {name}: the JVM connector saw {theirs[name]}, pykafka {seen}"
            for name, seen in mine.items()
            if theirs[name] != seen
        ]
    return wrong
