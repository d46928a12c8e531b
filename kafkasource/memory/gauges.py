"""All of a process's memory as numbers, to be read at any time from any thread; reading costs some 20 microseconds.

    <part>_bytes, <part>_limit_bytes, <part>_peak_bytes   what a part holds, may hold now, and held at most
    budget_bytes                                          what they may hold together
    native_bytes, native_peak_bytes                       Arrow's default memory pool: every part's blocks, all batches
    resident_bytes, resident_peak_bytes                   the process, pages shared with other processes included
    heap_bytes                                            what else the process has of its own: Python's objects,
                                                          imported modules, what allocators keep

The part `decoded` is what is native and charged to no other part: Arrow batches of rows, whoever made them (of a task
that writes: those that Spark hands over), and scratch memory. Native memory counts as soon as it is reserved, the
process has it when it is touched: `heap_bytes` is at least 0.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from kafkasource.memory.budget import Budget, process_budget
from kafkasource.memory.shares import DECODED

_STATUS = {"VmRSS": "resident_bytes", "VmHWM": "resident_peak_bytes", "RssAnon": "anonymous"}


def gauges(budget: Budget | None = None) -> dict[str, int]:
    """Bytes by name, as above; those that the system does not tell are left out."""
    budget = budget or process_budget()
    found = {"budget_bytes": budget.total_bytes}
    limits = budget.granted_bytes
    for name, account in budget.accounts.items():
        found[f"{name}_bytes"] = account.used_bytes
        found[f"{name}_limit_bytes"] = limits[name]
        found[f"{name}_peak_bytes"] = account.peak_bytes
    pool = pa.default_memory_pool()
    native = pool.bytes_allocated()
    rows = budget.rows_bytes
    found[f"{DECODED}_bytes"] = rows
    found[f"{DECODED}_peak_bytes"] = max(rows, budget.rows_peak_bytes)
    found["native_bytes"] = native
    found["native_peak_bytes"] = pool.max_memory() or native
    status = _status()
    anonymous = status.pop("anonymous", None)
    if anonymous is not None:
        found["heap_bytes"] = max(0, anonymous - native)
    return found | status


def _status() -> dict[str, int]:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return {}
    named = (line.split(":") for line in lines if ":" in line)
    return {_STATUS[name]: int(text.split()[0]) * 1024 for name, text in named if name in _STATUS}
