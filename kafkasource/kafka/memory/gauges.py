"""The memory of a process as numbers. Any thread may read them at any time; that takes some 20 microseconds.

    <part>_bytes, <part>_limit_bytes, <part>_peak_bytes   what a part holds, may hold now, and its peak
    budget_bytes                                          what they may hold together
    native_bytes, native_peak_bytes                       Arrow's default memory pool: every part's blocks, all batches
    resident_bytes, resident_peak_bytes                   the process, pages shared with other processes included
    heap_bytes                                            the rest of the process's own memory: Python's objects,
                                                          imported modules, what allocators keep

The part `decoded` is native memory that is charged to no other part: scratch memory, and all Arrow batches of rows.
(Spark hands them to a task that writes.) Native memory counts as soon as it is reserved; the process has it only when
it is touched. So `heap_bytes` would be negative at times, and is 0 then.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from kafkasource.kafka.memory.budget import Budget
from kafkasource.kafka.memory.shares import DECODED

_STATUS = {"VmRSS": "resident_bytes", "VmHWM": "resident_peak_bytes", "RssAnon": "anonymous"}


def gauges_of(budget: Budget) -> dict[str, int]:
    """Bytes by name, as above, of this process and its budget. Leaves out numbers that the system does not give."""
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
